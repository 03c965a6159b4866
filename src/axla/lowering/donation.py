"""The boundary of a program as callers want it: row-major arrays, and donated parameters as aliases of
results.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.errors import InvalidArgument
from axla.core.shape import AnyShape, ProgramShape, Shape
from axla.core.shape_util import indexed_leaves
from axla.ir.clone import clone_module
from axla.ir.graph import Alias, Module


def array_leaves(shape: AnyShape) -> list[tuple[tuple[int, ...], Shape]]:
    """The leaves of a shape that are arrays, as pairs (tuple index, shape)."""
    return [(index, leaf) for index, leaf in indexed_leaves(shape) if isinstance(leaf, Shape)]


def work_of(module: Module, donate: Sequence[int] | None) -> Module:
    """A copy of a module to compile. It has a row-major boundary, and the parameter leaves with the numbers
    in `donate` are donated; None: no leaf is donated.
    """
    work = clone_module(module)
    row_major_boundary(work)
    donate_parameters(work, donate or ())
    return work


def row_major_boundary(module: Module) -> None:
    """Gives the parameters and results of a module row-major layouts, whatever its entry layout says."""
    shape = module.entry.program_shape
    module.set_config(
        entry_layout=ProgramShape(
            tuple(s.logical for s in shape.parameters), shape.result.logical, shape.names
        )
    )


def donate_parameters(module: Module, donate: Sequence[int]) -> None:
    """Pairs each donated parameter leaf with the first free result leaf of its shape, as a may-alias.

    `donate` has numbers of array leaves, counted over all parameters; InvalidArgument for a number without a
    leaf. A donated leaf without a result of its shape is ignored.
    """
    entry = module.entry
    leaves = [(p, *leaf) for p, inst in enumerate(entry.parameters) for leaf in array_leaves(inst.shape)]
    results = array_leaves(entry.root.shape)
    aliases = list(module.config.aliases)
    taken = {a.output for a in aliases}
    given = {(a.parameter, a.index) for a in aliases}
    for number in dict.fromkeys(donate):
        if not 0 <= number < len(leaves):
            raise InvalidArgument(f"compile: donate names parameter {number}; there are {len(leaves)}")
        parameter, index, shape = leaves[number]
        if (parameter, index) in given:
            continue
        for output, result in results:
            if output not in taken and result.logical is shape.logical:
                aliases.append(Alias(output, parameter, index))
                taken.add(output)
                break
    module.set_config(aliases=tuple(aliases))
