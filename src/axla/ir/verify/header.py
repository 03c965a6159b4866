"""Rules for the header of a module, compared with its entry computation, and for schedules."""

from __future__ import annotations

from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.graph import Alias, Computation, Instruction, Module
from axla.ir.verify.failure import fail
from axla.ir.verify.graph import predecessors


def _same_array(wanted: AnyShape, found: AnyShape) -> bool:
    """Whether two shapes agree, up to layout. They also agree if `found` has the dimensions of `wanted` in
    memory order, as after layout normalization.
    """
    if wanted.logical is found.logical:
        return True
    if wanted.is_tuple is not found.is_tuple:
        return False
    theirs, ours = list(wanted.leaves()), list(found.leaves())
    if len(theirs) != len(ours):
        return False
    for one, other in zip(theirs, ours, strict=True):
        if isinstance(one, Shape) and isinstance(other, Shape):
            dims = tuple(one.dims[d] for d in reversed(one.layout.minor_to_major))
            if one.dtype is not other.dtype or other.dims not in (one.dims, dims):
                return False
        elif one is not other:
            return False
    return True


def verify_entry_layout(module: Module) -> None:
    """Checks that `entry_computation_layout` has the shapes of the entry's parameters and result."""
    layout, entry = module.config.entry_layout, module.entry
    if layout is None:
        return
    if len(layout.parameters) != len(entry.parameters):
        found = f"entry_computation_layout has {len(layout.parameters)} parameters"
        fail("module_layout", f"{found}, {entry.name} has {len(entry.parameters)}")
    for number, (wanted, parameter) in enumerate(zip(layout.parameters, entry.parameters, strict=True)):
        if not _same_array(wanted, parameter.shape):
            message = f"entry_computation_layout: parameter {number} is {wanted}, {parameter!r} is not"
            fail("module_layout", message)
    if not _same_array(layout.result, entry.root.shape):
        message = f"entry_computation_layout: the result is {layout.result}, the root {entry.root!r} is not"
        fail("module_layout", message)


def leaf(shape: AnyShape, index: tuple[int, ...]) -> AnyShape | None:
    """The part of a shape at a path of tuple indices; None if there is none."""
    for i in index:
        if not isinstance(shape, TupleShape) or not 0 <= i < len(shape.elements):
            return None
        shape = shape.elements[i]
    return shape


def verify_aliases(module: Module) -> None:
    """Checks the aliases of results and parameters, and the donated parameters: all leaves exist, aliased
    leaves have the same size, and no leaf occurs twice.
    """
    entry = module.entry
    outputs: set[tuple[int, ...]] = set()
    inputs: set[tuple[int, tuple[int, ...]]] = set()
    for alias in module.config.aliases:
        _verify_alias(entry, alias)
        if alias.output in outputs or (alias.parameter, alias.index) in inputs:
            found = f"result {alias.output} and parameter {alias.parameter}"
            fail("module_aliases", f"alias of {found}: one of them has another alias already")
        outputs.add(alias.output)
        inputs.add((alias.parameter, alias.index))
    for parameter, index in module.config.buffer_donors:
        parameters = entry.parameters
        if not 0 <= parameter < len(parameters) or leaf(parameters[parameter].shape, index) is None:
            fail("module_aliases", f"buffer donor: there is no leaf {index} of parameter {parameter}")
        if (parameter, index) in inputs:
            fail("module_aliases", f"buffer donor: leaf {index} of parameter {parameter} is aliased already")


def _verify_alias(entry: Computation, alias: Alias) -> None:
    result = leaf(entry.root.shape, alias.output)
    if result is None:
        fail("module_aliases", f"alias: the result, {entry.root.shape}, has no leaf {alias.output}")
    if not 0 <= alias.parameter < len(entry.parameters):
        fail("module_aliases", f"alias: {entry.name} has no parameter {alias.parameter}")
    parameter = leaf(entry.parameters[alias.parameter].shape, alias.index)
    if parameter is None:
        fail("module_aliases", f"alias: parameter {alias.parameter} has no leaf {alias.index}")
    if parameter.is_array and result.is_array and parameter.byte_size != result.byte_size:
        found = f"result {alias.output} is {result}, parameter {alias.parameter} {alias.index} {parameter}"
        fail("module_aliases", f"alias of different sizes: {found}")


def verify_schedule(module: Module) -> None:
    """Checks that a schedule has every instruction of a computation once, operands and control predecessors
    before their users.
    """
    for computation, order in (module.schedule or {}).items():
        if computation not in module.computations:
            fail("module_schedule", f"the schedule has {computation.name}, which is not in the module")
        if len(order) != len(computation.instructions) or set(order) != set(computation.instructions):
            found = f"{len(order)} entries for {len(computation.instructions)} instructions"
            wanted = f"the schedule of {computation.name} must have every instruction once"
            fail("module_schedule", f"{wanted}, found {found}")
        seen: set[Instruction] = set()
        for inst in order:
            for before in predecessors(inst):
                if before not in seen:
                    where = f"the schedule of {computation.name}"
                    fail("module_schedule", f"{where} has {inst!r} before {before!r}, which it needs")
            seen.add(inst)
