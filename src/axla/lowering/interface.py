"""What a caller sees of a module: its interface."""

from __future__ import annotations

from collections.abc import Sequence

from axla.analysis.buffers import Buffers
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.custom.site import Function
from axla.ir.graph import Module
from axla.program.interface import Alias, Interface, Tree, ValueSpec, array_numbers


def interface_of(
    module: Module, buffers: Buffers, workspace: int, functions: tuple[Function, ...]
) -> Interface:
    entry, config = module.entry, module.config
    layout = config.entry_layout
    shapes = [p.shape for p in entry.parameters]
    result = entry.root.shape
    if layout is not None:
        shapes, result = list(layout.parameters), layout.result
        # The padder's: sizes stand behind parameters and result. To callers they belong to the arrays.
        shapes = shapes[: len(shapes) - sum(map(_dynamic_dimensions, shapes))]
        if isinstance(result, TupleShape) and _dynamic_dimensions(result):
            result = result.elements[0]
    parameters, trees = leaf_specs(shapes, [p.name for p in entry.parameters[: len(shapes)]])
    results, (tree,) = leaf_specs([result], ["result"])
    flat = all(not isinstance(t, tuple) for t in trees)
    into, out = array_numbers(buffers.parameters), array_numbers(buffers.results)
    aliases = tuple(Alias(out[result], into[parameter]) for result, parameter in buffers.aliases)
    return Interface(
        module.name, parameters, results, tree, None if flat else trees, aliases, workspace,
        buffers.constants_bytes, (), functions,
    )  # fmt: skip


def _dynamic_dimensions(shape: AnyShape) -> int:
    return sum(sum(leaf.dynamic) for leaf in shape.leaves() if isinstance(leaf, Shape))


def leaf_specs(
    shapes: Sequence[AnyShape], names: Sequence[str]
) -> tuple[tuple[ValueSpec, ...], tuple[Tree, ...]]:
    """Leaf specifications, and the tree of leaf numbers of each shape. Tokens take no leaf."""
    specs: list[ValueSpec] = []

    def tree(shape: AnyShape, name: str) -> Tree:
        if isinstance(shape, Shape):
            specs.append(ValueSpec(name, shape, shape.byte_size))
            return len(specs) - 1
        if isinstance(shape, TupleShape):
            return tuple(
                tree(s, f"{name}.{k}") for k, s in enumerate(shape.elements) if s.is_array or s.is_tuple
            )
        return ()

    trees = [tree(shape, name) for shape, name in zip(shapes, names, strict=True)]
    return tuple(specs), tuple(trees)
