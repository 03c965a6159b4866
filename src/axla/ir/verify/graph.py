"""Rules for the structure of computations: operands and users, parameters, shapes, no cycles, no
recursion.
"""

from __future__ import annotations

from collections.abc import Iterator

from axla.core.errors import AxlaError, ShapeError, VerifyError
from axla.core.shape import AnyShape, Shape
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Parameter
from axla.ir.typed import op_of
from axla.ir.verify.failure import fail


def verify_operands(inst: Instruction) -> None:
    """Checks that operands and control predecessors are in the same computation, that each operand has the
    instruction among its users, and that the op accepts the number of operands.
    """
    computation = inst.computation
    for operand in inst.operands:
        if operand.computation is not computation or operand not in computation.instructions:
            fail("instruction_operands", f"{inst!r}: operand {operand!r} is not in {computation.name}")
        if inst not in operand.users:
            fail("instruction_operands", f"{inst!r} is not among the users of its operand {operand!r}")
    for before in inst.extra.control_predecessors:
        if before.computation is not computation or before not in computation.instructions:
            message = f"{inst!r}: control predecessor {before!r} is not in {computation.name}"
            fail("instruction_control", message)
    op, count = inst.op, len(inst.operands)
    wanted = len(op.operand_names)
    least = wanted - op.optional - (1 if op.variadic else 0)
    if count < least or (count > wanted and not op.variadic):
        exactly = "at least " if op.variadic or op.optional else ""
        fail("instruction_arity", f"{inst!r}: {op.opcode} expects {exactly}{least} operands, found {count}")


def verify_sizes(module: Module) -> None:
    """Checks that no size is unbounded; parameters of the entry are reported first."""
    for parameter in module.entry.parameters:
        if parameter.shape.is_unbounded:
            found = f"parameter {parameter.name} of {module.entry.name} is"
            _fail_unbounded(f"{found} {parameter.shape.to_string(layout=False)}")
    for computation in module.computations:
        for inst in computation.instructions:
            if inst.shape.is_unbounded:
                _fail_unbounded(f"{inst!r} in {computation.name}")


def _fail_unbounded(what: str) -> None:
    why = "a program with unbounded sizes, [?], cannot be run"
    fail("unbounded_dynamism", f"{what}: {why}; replace them by sizes or bounds, [<=n]")


def wrong_user(computation: Computation) -> str:
    """The message about an instruction whose list of users is wrong."""
    for inst in computation.instructions:
        for user in inst.users:
            if user not in computation.instructions or inst not in user.operands:
                return f"{inst!r} has a user {user!r} that does not use it"
    return "the lists of users do not agree with the operands"


def verify_parameters(computation: Computation) -> None:
    """Checks that parameters are numbered from 0 without gaps, and that `Computation.parameters` lists them
    in order.
    """
    found = [i for i in computation.instructions if getattr(i.op, "parameter_number", None) is not None]
    numbers = [op_of(p, Parameter).parameter_number for p in computation.parameters]
    if set(found) != set(computation.parameters) or numbers != list(range(len(found))):
        pairs = zip(computation.parameters, numbers, strict=True)
        listed = ", ".join(f"{p.name}: {n}" for p, n in pairs)
        message = f"parameters of {computation.name} must be numbered from 0 without gaps, found {listed}"
        fail("computation_parameters", message)


def predecessors(inst: Instruction) -> set[Instruction]:
    """The operands and control predecessors of an instruction."""
    control = inst.extra.control_predecessors
    return {*inst.operands, *control} if control else set(inst.operands)


def verify_acyclic(computation: Computation) -> None:
    """Checks that operands and control predecessors form no cycle."""
    missing = {inst: len(predecessors(inst)) for inst in computation.instructions}
    ready = [inst for inst, count in missing.items() if not count]
    successors: dict[Instruction, list[Instruction]] = {}
    for inst in missing:
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
        message = f"computation {computation.name} has a cycle in or before {', '.join(stuck)}"
        fail("computation_acyclic", message)


def _verify_precision(inst: Instruction) -> None:
    shapes = [operand.shape for operand in inst.operands]
    if inst.op.opcode in ("scatter", "reduce"):
        # The operands are arrays, then updates or initial values: each array must have the type of its own
        # one.
        count = len(shapes) // 2
        groups = list(zip(shapes[:count], shapes[-count:], strict=True))
    else:
        groups = [tuple(shapes)]
    for group in groups:
        floats = [s for s in group if isinstance(s, Shape) and s.dtype.is_float]
        if len({s.dtype for s in floats}) > 1:
            found = ", ".join(s.to_string(layout=False) for s in floats)
            fail("instruction_precision", f"{inst!r}: floats must have one element type, found {found}")


def verify_shape(inst: Instruction) -> None:
    """Checks that the shape of an instruction is the one that its op infers from its operands."""
    try:
        inferred = inst.op.infer(*[o.shape for o in inst.operands])
    except ShapeError as error:
        raise VerifyError(f"{inst!r}: {error.message}") from error
    except AxlaError:
        raise
    except (ValueError, IndexError, TypeError, ArithmeticError, AttributeError) as error:
        # The attributes do not fit the operands: two slice sizes for three dimensions, for example.
        message = f"{inst!r}: attributes do not fit the operands: {error}  [instruction_shape]"
        raise VerifyError(message) from error
    if len(inst.operands) > 1 and not inst.op.mixes_floats:
        _verify_precision(inst)
    if inst.op.opcode == "async-done":
        return  # a start may declare only a part of the result; `pairs` checks the called computation
    if not isinstance(inferred, AnyShape):
        fail("instruction_shape", f"{inst!r}: infer of {inst.op.opcode} returned {inferred!r}, not a shape")
    if inferred.logical is not inst.shape.logical:
        found, wanted = inst.shape.to_string(layout=False), inferred.to_string(layout=False)
        fail("instruction_shape", f"{inst!r}: the shape is {found}, but {inst.op.opcode} returns {wanted}")


def verify_calls(module: Module) -> None:
    """Checks that no computation calls itself, directly or not. A depth-first search with an explicit
    stack.
    """
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
                fail("module_calls", f"computation {following.name} calls itself through {current.name}")
            elif following not in done:
                path[following] = iter(calls[following])


def _called(computation: Computation) -> Iterator[Computation]:
    computations = computation.module.computations
    for inst in computation.instructions:
        if inst.op.computation_fields:
            for called in inst.op.computations():
                if called not in computations:
                    call = f"{inst!r} calls {called.name}"
                    fail("module_calls", f"{call}, which is not in module {computation.module.name}")
                yield called
