"""The interface of a module: its parameters, results and aliases as callers see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.graph import Module
from axla.lowering.donation import array_leaves
from axla.program.interface import Alias, Interface, Tree, ValueSpec


def interface_of(module: Module, aliases: Sequence[Alias], *, padded: bool = False, **code: Any) -> Interface:
    """The interface of a module, with the given aliases of parameters and results. `code` has further fields
    of Interface, about the generated code.

    If `padded`, parameters and result may be followed by sizes that the dynamic padder added. Callers see
    such a size as part of the array that it belongs to.
    """
    entry, layout = module.entry, module.config.entry_layout
    shapes, result = [p.shape for p in entry.parameters], entry.root.shape
    if padded and layout is not None:
        shapes, result = list(layout.parameters), layout.result
        shapes = shapes[: len(shapes) - sum(map(_dynamic_dimensions, shapes))]
        if isinstance(result, TupleShape) and _dynamic_dimensions(result):
            result = result.elements[0]
    parameters, trees = leaf_specs(shapes, [p.name for p in entry.parameters[: len(shapes)]])
    results, (tree,) = leaf_specs([result], ["result"])
    flat = all(not isinstance(t, tuple) for t in trees)
    return Interface(module.name, parameters, results, tree, None if flat else trees, tuple(aliases), **code)


def declared_aliases(module: Module) -> list[Alias]:
    """The aliases of a module with array numbers instead of tuple indices."""
    shapes = enumerate(p.shape for p in module.entry.parameters)
    into = [(number, index) for number, shape in shapes for index, _ in array_leaves(shape)]
    out = [index for index, _ in array_leaves(module.entry.root.shape)]
    return [
        Alias(out.index(a.output), into.index((a.parameter, a.index)), a.must) for a in module.config.aliases
    ]


def _dynamic_dimensions(shape: AnyShape) -> int:
    return sum(sum(leaf.dynamic) for leaf in shape.arrays())


def leaf_specs(
    shapes: Sequence[AnyShape], names: Sequence[str]
) -> tuple[tuple[ValueSpec, ...], tuple[Tree, ...]]:
    """The specifications of all array leaves of `shapes`, and for each shape the tree of the numbers of its
    leaves. `names` has a name for each shape. Tokens have no number.
    """
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
