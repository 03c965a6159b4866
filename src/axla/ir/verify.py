"""Checks that a module is right. What is verified, with the label that an error ends with:

Module
  module_entry       there is an entry computation, and it is one of the module's
  module_names       computations have different names, and instructions have, within their computation
  module_calls       called computations belong to the module; no computation calls itself, directly or not
  module_layout      entry_computation_layout agrees with the entry's parameters and result, up to layout
  module_aliases     aliased results and parameters exist and have the same shape; no leaf is aliased twice
  module_schedule    a schedule has every instruction of a computation exactly once, after what it needs

Computation
  computation_root        there is a root, and it is in the computation
  computation_parameters  parameters are numbered from 0 without holes, and listed in order
  computation_acyclic     operands and control edges make no cycle

Instruction
  instruction_place     the instruction knows the computation that holds it
  instruction_operands  operands are in the same computation; users are those that have it as an operand
  instruction_arity     as many operands as the op declares
  instruction_control   control predecessors are in the same computation
  instruction_shape     the shape is the one that the op infers, up to layout
  ...                   and the labels of the op's own `infer`

All of it takes time linear in the size of the module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from axla.core.errors import AxlaError, ShapeError, VerifyError
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.graph import Alias, Computation, Instruction, Module


def verify(module: Module) -> None:
    """Raises VerifyError for the first thing that is wrong, naming the instruction, what was found and what
    was wanted.
    """
    if not module.has_entry or module.entry not in module.computations:
        _fail("module_entry", f"module {module.name} has no entry computation of its own")
    names: set[str] = set()
    for computation in module.computations:
        if computation.name in names:
            _fail("module_names", f"two computations are called {computation.name}")
        names.add(computation.name)
        verify_computation(computation)
    _verify_calls(module)
    _verify_entry_layout(module)
    _verify_aliases(module)
    _verify_schedule(module)


def verify_computation(computation: Computation) -> None:
    """The invariants of one computation and its instructions."""
    instructions = computation.instructions
    if not computation.has_root or computation.root not in instructions:
        _fail("computation_root", f"computation {computation.name} has no root of its own")
    names: set[str] = set()
    uses = 0
    for inst in instructions:
        if inst.computation is not computation:
            _fail(
                "instruction_place",
                f"{inst!r} is held by {computation.name} but says {inst.computation.name}",
            )
        if inst.name in names:
            _fail("module_names", f"two instructions of {computation.name} are called {inst.name}")
        names.add(inst.name)
        _verify_operands(inst)
        uses += len(inst.users)
    if uses != sum(len(set(inst.operands)) for inst in instructions):
        _fail("instruction_operands", f"computation {computation.name}: {_wrong_user(computation)}")
    _verify_parameters(computation)
    _verify_acyclic(computation)
    for inst in instructions:
        _verify_shape(inst)


def _fail(label: str, message: str) -> NoReturn:
    raise VerifyError(f"{message}  [{label}]")


def _verify_operands(inst: Instruction) -> None:
    computation = inst.computation
    for operand in inst.operands:
        if operand.computation is not computation or operand not in computation.instructions:
            _fail("instruction_operands", f"{inst!r}: operand {operand!r} is not in {computation.name}")
        if inst not in operand.users:
            _fail("instruction_operands", f"{inst!r} is not among the users of its operand {operand!r}")
    for before in inst.extra.control_predecessors:
        if before.computation is not computation or before not in computation.instructions:
            _fail(
                "instruction_control",
                f"{inst!r}: control predecessor {before!r} is not in {computation.name}",
            )
    op, count = inst.op, len(inst.operands)
    wanted = len(op.operand_names)
    least = wanted - op.optional - (1 if op.variadic else 0)
    if count < least or (count > wanted and not op.variadic):
        exactly = "at least " if op.variadic or op.optional else ""
        _fail("instruction_arity", f"{inst!r}: {op.opcode} expects {exactly}{least} operands, found {count}")


def _wrong_user(computation: Computation) -> str:
    for inst in computation.instructions:
        for user in inst.users:
            if user not in computation.instructions or inst not in user.operands:
                return f"{inst!r} has a user {user!r} that does not use it"
    return "users and operands do not agree"


def _verify_parameters(computation: Computation) -> None:
    found = [i for i in computation.instructions if getattr(i.op, "parameter_number", None) is not None]
    numbers = [p.op.parameter_number for p in computation.parameters]  # type: ignore[attr-defined]
    if (
        len(found) != len(numbers)
        or set(found) != set(computation.parameters)
        or numbers != list(range(len(numbers)))
    ):
        listed = ", ".join(f"{p.name}: {p.op.parameter_number}" for p in computation.parameters)  # type: ignore[attr-defined]
        _fail(
            "computation_parameters",
            f"parameters of {computation.name} must be numbered from 0 without holes, found {listed}",
        )


def _predecessors(inst: Instruction) -> set[Instruction]:
    control = inst.extra.control_predecessors
    return {*inst.operands, *control} if control else set(inst.operands)


def _verify_acyclic(computation: Computation) -> None:
    missing: dict[Instruction, int] = {}
    successors: dict[Instruction, list[Instruction]] = {}
    ready: list[Instruction] = []
    for inst in computation.instructions:
        before = _predecessors(inst)
        missing[inst] = len(before)
        if not before:
            ready.append(inst)
        for control in inst.extra.control_predecessors:
            if control not in inst.operands:
                successors.setdefault(control, []).append(inst)
    done = 0
    while ready:
        inst = ready.pop()
        done += 1
        for after in (*inst.users, *successors.get(inst, ())) if inst in successors else inst.users:
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    if done != len(missing):
        stuck = [f"%{i.name}" for i, n in missing.items() if n > 0][:8]
        _fail(
            "computation_acyclic",
            f"computation {computation.name} has a cycle among or above {', '.join(stuck)}",
        )


def _verify_shape(inst: Instruction) -> None:
    try:
        inferred = inst.op.infer(*[o.shape for o in inst.operands])
    except ShapeError as error:
        raise VerifyError(f"{inst!r}: {error.message}") from error
    except AxlaError:
        raise
    except (ValueError, IndexError, TypeError, ArithmeticError, AttributeError) as error:
        # Attributes that fit nothing, such as two slice sizes for three dimensions.
        raise VerifyError(
            f"{inst!r}: attributes do not fit the operands: {error}  [instruction_shape]"
        ) from error
    if inferred.logical is not inst.shape.logical:
        found, wanted = inst.shape.to_string(layout=False), inferred.to_string(layout=False)
        _fail("instruction_shape", f"{inst!r}: the shape is {found}, {inst.op.opcode} gives {wanted}")


def _verify_calls(module: Module) -> None:
    """No recursion: depth first with an explicit path."""
    calls = {c: dict.fromkeys(_called(c)) for c in module.computations}
    done: set[Computation] = set()
    for root in calls:
        if root in done:
            continue
        path: dict[Computation, Iterator[Computation]] = {root: iter(calls[root])}
        while path:
            current = next(reversed(path))
            following = next(path[current], None)
            if following is None:
                done.add(current)
                del path[current]
            elif following in path:
                _fail("module_calls", f"computation {following.name} calls itself, by way of {current.name}")
            elif following not in done:
                path[following] = iter(calls[following])


def _called(computation: Computation) -> Iterator[Computation]:
    computations = computation.module.computations
    for inst in computation.instructions:
        if inst.op.computation_fields:
            for called in inst.op.computations():
                if called not in computations:
                    _fail(
                        "module_calls",
                        f"{inst!r} calls {called.name}, which is not in module {computation.module.name}",
                    )
                yield called


def _same_array(wanted: AnyShape, found: AnyShape) -> bool:
    """Whether shapes agree up to layout, or after layout normalization: dimensions as they lie in memory."""
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


def _verify_entry_layout(module: Module) -> None:
    layout, entry = module.config.entry_layout, module.entry
    if layout is None:
        return
    if len(layout.parameters) != len(entry.parameters):
        found = f"entry_computation_layout has {len(layout.parameters)} parameters"
        _fail("module_layout", f"{found}, {entry.name} has {len(entry.parameters)}")
    for number, (wanted, parameter) in enumerate(zip(layout.parameters, entry.parameters, strict=True)):
        if not _same_array(wanted, parameter.shape):
            _fail(
                "module_layout",
                f"entry_computation_layout: parameter {number} is {wanted}, {parameter!r} is not",
            )
    if not _same_array(layout.result, entry.root.shape):
        _fail(
            "module_layout",
            f"entry_computation_layout: the result is {layout.result}, the root {entry.root!r} is not",
        )


def _leaf(shape: AnyShape, index: tuple[int, ...]) -> AnyShape | None:
    for i in index:
        if not isinstance(shape, TupleShape) or not 0 <= i < len(shape.elements):
            return None
        shape = shape.elements[i]
    return shape


def _verify_aliases(module: Module) -> None:
    entry = module.entry
    outputs: set[tuple[int, ...]] = set()
    inputs: set[tuple[int, tuple[int, ...]]] = set()
    for alias in module.config.aliases:
        _verify_alias(entry, alias)
        if alias.output in outputs or (alias.parameter, alias.index) in inputs:
            _fail(
                "module_aliases",
                f"alias of result {alias.output} and parameter {alias.parameter}: one of them is "
                "aliased already",
            )
        outputs.add(alias.output)
        inputs.add((alias.parameter, alias.index))
    for parameter, index in module.config.buffer_donors:
        if (
            not 0 <= parameter < len(entry.parameters)
            or _leaf(entry.parameters[parameter].shape, index) is None
        ):
            _fail("module_aliases", f"buffer donor: there is no leaf {index} of parameter {parameter}")


def _verify_alias(entry: Computation, alias: Alias) -> None:
    result = _leaf(entry.root.shape, alias.output)
    if result is None:
        _fail("module_aliases", f"alias: the result {entry.root.shape} has no leaf {alias.output}")
    if not 0 <= alias.parameter < len(entry.parameters):
        _fail("module_aliases", f"alias: {entry.name} has no parameter {alias.parameter}")
    parameter = _leaf(entry.parameters[alias.parameter].shape, alias.index)
    if parameter is None:
        _fail("module_aliases", f"alias: parameter {alias.parameter} has no leaf {alias.index}")
    if parameter.is_array and result.is_array and _bytes(parameter) != _bytes(result):
        _fail(
            "module_aliases",
            f"alias: result {alias.output} is {result}, parameter {alias.parameter} {alias.index} "
            f"is {parameter}",
        )


def _bytes(shape: AnyShape) -> int:
    return shape.byte_size  # type: ignore[attr-defined]


def _verify_schedule(module: Module) -> None:
    for computation, order in (module.schedule or {}).items():
        if computation not in module.computations:
            _fail(
                "module_schedule",
                f"the schedule has computation {computation.name}, which is not in the module",
            )
        if len(order) != len(computation.instructions) or set(order) != set(computation.instructions):
            found = f"{len(order)} entries for {len(computation.instructions)} instructions"
            _fail(
                "module_schedule",
                f"the schedule of {computation.name} must have every instruction once, found {found}",
            )
        seen: set[Instruction] = set()
        for inst in order:
            for before in _predecessors(inst):
                if before not in seen:
                    _fail(
                        "module_schedule",
                        f"the schedule of {computation.name} has {inst!r} before {before!r}",
                    )
            seen.add(inst)
