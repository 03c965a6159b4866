"""The changes by which `reduce` makes a module smaller: each yields candidates, which are changed copies.

A candidate may be invalid: `reduce` verifies it, and tries it if it is smaller.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo.control import Call, Conditional, Fusion, While
from axla.hlo.movement import Broadcast
from axla.ir.attributes import SliceDims
from axla.ir.clone import clone_module, inline
from axla.ir.graph import NO_EXTRA, Computation, Extra, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.traverse import callers, computations_callees_first, post_order
from axla.passes.simplify.dce import dce

Way = Callable[[Module], Iterator[Module]]
"""A function that yields smaller candidates for a module. After a candidate was accepted, it is called again,
with that one.
"""

SIMPLIFIERS = (
    "call-inliner", "map-inliner", "tuple-simplifier", "while-loop-simplifier", "conditional-simplifier",
    "flatten-call-graph", "algsimp", "constant-folding", "cse",
)  # fmt: skip
"""Passes that may make a module smaller."""


def size_of(module: Module) -> tuple[int, int, int, int]:
    """The size to be minimised: the number of instructions, where those that compute count more; then the
    number of elements; then the sum of the integers in scalar constants; then the length of the text.
    """
    weight = elements = numbers = 0
    for computation in module.computations:
        for inst in computation.instructions:
            if not isinstance(inst.op, Parameter):
                weight += 2 if isinstance(inst.op, Constant) or inst.op.structural else 3
            elif inst.users or inst is computation.root:  # an unused parameter can be removed later
                weight += 2
            elements += sum(leaf.size for leaf in inst.shape.arrays())
            if isinstance(inst.op, Constant) and not inst.op.literal.array.ndim and inst.shape.is_array:
                numbers += abs(int(inst.op.literal.array)) if inst.shape.dtype.is_integer else 0
    return weight, elements, numbers, len(module.to_string(print_large_constants=True))


def copy_of(module: Module) -> tuple[Module, dict[str, Instruction]]:
    """A copy of a module, and the copy's instructions by name."""
    copy = clone_module(module)
    copy.file = ""
    return copy, {inst.name: inst for c in copy.computations for inst in c.instructions}


def swept(module: Module, *, dead: bool = True) -> Module:
    """Removes dead code, if `dead`, and an entry layout that no longer fits; returns the module."""
    if dead:
        dce(module)
    if module.config.entry_layout is not None and module.config.entry_layout != module.entry.program_shape:
        module.set_config(entry_layout=None)
    return module


# -- header and instructions' extras ----------------------------------------------------------------------


def plain(module: Module) -> Iterator[Module]:
    """Yields copies of the module without attributes that do not affect values: first without all of them,
    then without one kind each.
    """
    fields = [f.name for f in dataclasses.fields(Extra)]
    for names in (fields, *([name] for name in fields)):
        copy, _ = copy_of(module)
        for computation in copy.computations:
            for inst in computation.instructions:
                if inst.extra is not NO_EXTRA:
                    defaults = {name: getattr(NO_EXTRA, name) for name in names}
                    copy_extra = dataclasses.replace(inst.extra, **defaults)
                    computation.set_extra(inst, NO_EXTRA if copy_extra == NO_EXTRA else copy_extra)
        if len(names) > 1:
            copy.set_config(aliases=(), buffer_donors=(), frontend_attributes=(), more=(), entry_layout=None)
        yield copy
    for change in ("aliases", "buffer_donors", "frontend_attributes", "more"):
        copy, _ = copy_of(module)
        copy.set_config(**{change: ()})
        yield copy
    copy, _ = copy_of(module)
    for computation in copy.computations:
        for inst in computation.instructions:
            computation.set_shape(inst, inst.shape.logical)
    copy.set_config(entry_layout=None)
    yield copy


# -- which value is the result ----------------------------------------------------------------------------


def roots(module: Module) -> Iterator[Module]:
    """Yields copies of the module, each with another instruction of the entry as root: early instructions
    first, about sixteen of a long program.
    """
    order = [i for i in post_order(module.entry) if not i.op.structural and i is not module.entry.root]
    step = max(1, len(order) // 16)
    for inst in order[::step]:
        if not any(leaf.is_token for leaf in inst.shape.leaves()):
            copy, named = copy_of(module)
            copy.entry.set_root(named[inst.name])
            copy.set_config(aliases=(), entry_layout=None)
            yield copy


def outputs(module: Module) -> Iterator[Module]:
    """Yields copies of the module with fewer results: without halves of them, quarters..., single ones. If
    there is only one result, yields a copy that returns it without a tuple.
    """
    root = module.entry.root
    if not isinstance(root.op, Tuple):
        return
    count = len(root.operands)
    if count == 1:
        copy, named = copy_of(module)
        copy.entry.set_root(named[root.operands[0].name])
        drop(named[root.name])
        aliases = [dataclasses.replace(a, output=a.output[1:]) for a in copy.config.aliases]
        copy.set_config(aliases=tuple(aliases), entry_layout=None)
        yield copy
    for dropped in chunks(range(count)):
        if len(dropped) < count:
            copy, named = copy_of(module)
            places = {k: n for n, k in enumerate(k for k in range(count) if k not in dropped)}
            kept = [named[root.operands[k].name] for k in places]
            copy.entry.set_root(copy.entry.add(Tuple(), kept))
            drop(named[root.name])
            aliases = [
                dataclasses.replace(a, output=(places[a.output[0]], *a.output[1:]))
                for a in copy.config.aliases
                if a.output[0] in places
            ]
            copy.set_config(aliases=tuple(aliases), entry_layout=None)
            yield copy


def chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yields parts of a sequence: the whole, its halves, quarters..., and single items."""
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield items[start : start + size]
        size = 0 if size == 1 else (size + 1) // 2


# -- instructions -----------------------------------------------------------------------------------------


def cut(
    module: Module, names: Sequence[str], stand_in: Callable[[Instruction], Instruction | None]
) -> Module:
    """A copy of the module in which the instructions `names` are replaced by what `stand_in` returns for
    them, unless that is None, and unused instructions are removed.
    """
    copy, named = copy_of(module)
    for inst in [named[name] for name in names]:
        used = inst.users or inst is inst.computation.root
        if used and (new := stand_in(inst)) is not None:
            inst.computation.replace(inst, new)
        drop(inst)
    return copy


def drop(inst: Instruction) -> None:
    """Removes an instruction if it is unused, also from the control predecessors of other instructions."""
    computation = inst.computation
    if inst.users or inst is computation.root:
        return
    for other in computation.instructions if computation.has_control_edges else ():
        before = other.extra.control_predecessors
        if inst in before:
            left = tuple(p for p in before if p is not inst)
            computation.set_extra(other, dataclasses.replace(other.extra, control_predecessors=left))
    if not isinstance(inst.op, Parameter):
        computation.remove(inst)


def parameter(inst: Instruction) -> Instruction | None:
    """A stand-in: a new parameter of the entry; None in other computations."""
    home = inst.computation
    if home is not home.module.entry or not all(leaf.is_array for leaf in inst.shape.leaves()):
        return None
    return home.add(Parameter(inst.shape, len(home.parameters)), name=f"p.{inst.name}")


def operand(inst: Instruction) -> Instruction | None:
    """A stand-in: a value of the same shape among the operands of `inst` and the operands of these, or else
    the first such value in the computation; None if there is none.
    """
    shape, seen, work = inst.shape.logical, {inst}, [inst]
    while work:
        for below in work.pop(0).operands:
            if below.shape.logical is shape:
                return below
            if below not in seen and len(seen) < 50:
                seen.add(below)
                work.append(below)
    for other in post_order(inst.computation):
        if other is inst:
            return None
        if other.shape.logical is shape:
            return other
    return None


def constant(inst: Instruction) -> Instruction | None:
    """A stand-in: a constant of ones; None if the shape cannot be a constant."""
    if not isinstance(inst.shape, Shape) or inst.shape.is_dynamic:
        return None
    scalar = inst.computation.add(Constant.of(np.ones((), inst.shape.dtype.numpy), inst.shape.dtype))
    if not inst.shape.rank:
        return scalar
    return inst.computation.add(Broadcast(inst.shape, ()), (scalar,), inst.shape)


STAND_INS = (parameter, operand, constant)


def cuttable(module: Module, stand_in: Callable[[Instruction], Instruction | None]) -> list[str]:
    """The names of the instructions that `stand_in` may replace: callers first, and users before their
    operands.
    """
    found: list[str] = []
    for computation in reversed(computations_callees_first(module)):
        if stand_in is not parameter or computation is module.entry:
            found += [
                inst.name
                for inst in reversed(post_order(computation))
                if (not isinstance(inst.op, Parameter | Constant) or not inst.users)
                and not (isinstance(inst.op, Tuple | Parameter | Constant) and inst is computation.root)
            ]
    return found


def uncalled(module: Module) -> Iterator[Module]:
    """Yields copies of the module, each without one of the computations that no instruction calls. These may
    contain dead code.
    """
    for number, (computation, calls) in enumerate(callers(module).items()):
        if computation is not module.entry and not calls:
            copy, _ = copy_of(module)
            copy.remove_computation(list(copy.computations)[number])
            yield copy


# -- calls and loops --------------------------------------------------------------------------------------


def inlined(module: Module) -> Iterator[Module]:
    """Yields copies of the module, in each of which one call, fusion or branch is inlined, or a loop is
    replaced by one iteration.
    """
    for computation in module.computations:
        for inst in computation.instructions:
            for number in range(_bodies(inst)):
                copy, named = copy_of(module)
                call = named[inst.name]
                given = call.operands
                if isinstance(call.op, Conditional):
                    body, given = call.op.branches[number], (given[number + 1],)
                else:
                    body = call.op.body if isinstance(call.op, While) else call.op.computations()[0]
                new = inline(call, body, given)
                call.computation.replace(call, new)
                drop(call)
                yield copy


def _bodies(inst: Instruction) -> int:
    if isinstance(inst.op, Conditional):
        return len(inst.op.branches)
    return int(isinstance(inst.op, Call | Fusion | While))


def simplified(module: Module) -> Iterator[Module]:
    """Yields copies of the module, each changed by one of the compiler's simplifying passes. A pass that
    fails is left out.
    """
    from axla.passes import driver
    from axla.passes.pipelines import PASSES

    for name in SIMPLIFIERS:
        copy, _ = copy_of(module)
        version = copy.version
        try:
            driver.run(copy, (PASSES[name],), name="reduce")
        except Exception:  # this pass may be the one that is wrong
            continue
        if copy.version != version:
            yield copy


def parameters(module: Module) -> Iterator[Module]:
    """Yields copies of the module without unused parameters: first without all of them, then without one
    each.
    """
    unused = [p.name for p in module.entry.parameters if not p.users and p is not module.entry.root]
    for names in filter(None, dict.fromkeys((tuple(unused), *((name,) for name in unused)))):
        copy, named = copy_of(module)
        for name in names:
            named[name].computation.remove(named[name])
        numbers = {old: number for number, old in enumerate(renumbered(copy.entry))}
        aliases = [
            dataclasses.replace(a, parameter=numbers[a.parameter])
            for a in copy.config.aliases
            if a.parameter in numbers
        ]
        donors = [(numbers[n], index) for n, index in copy.config.buffer_donors if n in numbers]
        copy.set_config(aliases=tuple(aliases), buffer_donors=tuple(donors), entry_layout=None)
        yield copy


def renumbered(computation: Computation) -> list[int]:
    """Numbers the parameters of a computation from 0; returns the numbers that they had before."""
    before: list[int] = []
    for number, inst in enumerate(computation.parameters):
        assert isinstance(inst.op, Parameter)
        before.append(inst.op.parameter_number)
        computation.set_op(inst, Parameter(inst.shape, number))
    return before


def carries(module: Module) -> Iterator[Module]:
    """Yields copies of the module, each without one element that a loop carries. Inside the loop, ones
    replace the element; after the loop, its initial value does.
    """
    for computation in module.computations:
        for inst in computation.instructions:
            if isinstance(inst.op, While) and isinstance(inst.shape, TupleShape):
                for index in range(len(inst.shape.elements)):
                    made = _without_carry(module, inst.name, index)
                    if made is not None:
                        yield made


def _without_carry(module: Module, name: str, index: int) -> Module | None:
    copy, named = copy_of(module)
    loop = named[name]
    assert isinstance(loop.op, While)
    init, body, condition, home = loop.operands[0], loop.op.body, loop.op.condition, loop.computation
    reads = [*loop.users, *body.parameters[0].users, *condition.parameters[0].users]
    if any(not isinstance(read.op, GetTupleElement) for read in reads) or body.root is body.parameters[0]:
        return None
    for read in reads:
        assert isinstance(read.op, GetTupleElement)
        if read.op.index == index:
            stands = _element(init, index) if read.computation is home else constant(read)
            if stands is None:
                return None
            read.computation.replace(read, stands)
        elif read.op.index > index:
            read.computation.set_op(read, GetTupleElement(read.op.index - 1))
    root = body.root
    body.set_root(_less(root, index))
    if isinstance(init.op, Parameter) and list(init.users) == [loop] and init is not home.root:
        shape = TupleShape([s for k, s in enumerate(init.shape.elements) if k != index])
        home.set_op(init, Parameter(shape, init.op.parameter_number), shape)
    else:
        home.set_operands(loop, (_less(init, index),))
    shape = loop.operands[0].shape
    for called in (body, condition):
        called.set_op(called.parameters[0], Parameter(shape, 0), shape)
    home.set_op(loop, loop.op, shape)
    return copy


def _element(value: Instruction, index: int) -> Instruction:
    if isinstance(value.op, Tuple):
        return value.operands[index]
    return value.computation.add(GetTupleElement(index), (value,))


def _less(value: Instruction, index: int) -> Instruction:
    """Adds a tuple of the elements of `value`, without the element at `index`, and returns it."""
    kept = [_element(value, k) for k in range(len(value.shape.elements)) if k != index]
    return value.computation.add(Tuple(), kept)


# -- constants and sizes ----------------------------------------------------------------------------------


def constants(module: Module) -> Iterator[Module]:
    """Yields copies of the module, each with one constant replaced by a simpler one. This also makes the trip
    counts of loops smaller.
    """
    for computation in module.computations:
        for inst in computation.instructions:
            if isinstance(inst.op, Constant) and isinstance(inst.shape, Shape) and inst.shape.size:
                for array in _simpler(inst.op.literal.array, inst.shape):
                    copy, named = copy_of(module)
                    literal = Literal(inst.op.literal.shape, array)
                    named[inst.name].computation.set_op(named[inst.name], Constant(inst.shape, literal))
                    yield copy


def _simpler(array: np.ndarray, shape: Shape) -> Iterator[np.ndarray]:
    flat = array.reshape(-1)
    if shape.rank and (flat != flat[0]).any():
        yield np.ones_like(array)
        yield np.full_like(array, flat[0])
    elif shape.dtype.is_integer and not shape.dtype.is_pred:
        value = int(flat[0])
        for new in dict.fromkeys((0, 1, 2, value // 2, value - 1)):
            if 0 <= new < value:
                yield np.full_like(array, new)
    elif shape.dtype.is_inexact and not shape.dtype.is_complex and float(flat[0]) not in (0.0, 1.0):
        for new in (1.0, 0.0):
            yield np.full_like(array, new)


def sizes(module: Module) -> Iterator[Module]:
    """Yields copies of the module with smaller dimensions: first with all sizes reduced at once, then each
    size alone, and together with its multiples.
    """
    weight: dict[int, int] = {}
    for computation in module.computations:
        for inst in computation.instructions:
            for leaf in inst.shape.arrays():
                for n in leaf.dims:
                    weight[n] = weight.get(n, 0) + leaf.size
    found = sorted((n for n in weight if n > 1), key=lambda n: (-weight[n], n))
    plans: dict[tuple[tuple[int, int], ...], None] = {}
    for least in (1, 2, 3):
        plans[tuple((n, min(n, least)) for n in found)] = None
    plans[tuple((n, (n + 1) // 2) for n in found)] = None
    for n in found:
        for new in dict.fromkeys((1, 2, 3, 4, n // 4, n // 2, n - 1)):
            if 0 < new < n:
                plans[((n, new),)] = None
                plans[tuple((m, m // n * new) for m in found if m % n == 0)] = None
    for plan in plans:
        made = resized(module, dict(plan))
        if made is not None:
            yield made


def resized(module: Module, new: dict[int, int]) -> Module | None:
    """A copy of the module in which `new` maps old sizes of dimensions to new ones; None if an op does not
    accept the new sizes.
    """
    made = Module(module.name, dataclasses.replace(module.config, entry_layout=None))
    copies: dict[Computation, Computation] = {}
    try:
        for computation in computations_callees_first(module):
            copies[computation] = _resized(computation, made, copies, new)
    except Exception:  # ops raise many kinds of errors for wrong operands
        return None
    made.set_entry(copies[module.entry])
    return made


def _resized(
    source: Computation, module: Module, copies: dict[Computation, Computation], new: dict[int, int]
) -> Computation:
    target = module.add_computation(source.name)
    made: dict[Instruction, Instruction] = {}
    for inst in post_order(source):
        operands = [made[o] for o in inst.operands]
        wanted = _shape(inst.shape, new)
        op = inst.op.with_computations(lambda c: copies[c]) if inst.op.computation_fields else inst.op
        op = _fitted(op, [o.shape for o in operands], wanted, new)
        shape = op.infer(*(o.shape for o in operands))
        before = tuple(made[p] for p in inst.extra.control_predecessors)
        extra = dataclasses.replace(inst.extra, control_predecessors=before) if before else inst.extra
        same = shape.logical is wanted.logical
        made[inst] = target.add(op, operands, wanted if same else shape, name=inst.name, extra=extra)
    target.reorder([made[inst] for inst in source.instructions])
    target.set_root(made[source.root])
    target.set_own_extra(source.extra)
    return target


def _shape(shape: AnyShape, new: dict[int, int]) -> AnyShape:
    if isinstance(shape, TupleShape):
        return TupleShape([_shape(s, new) for s in shape.elements])
    if not isinstance(shape, Shape):
        return shape
    return Shape(shape.dtype, [new.get(n, n) for n in shape.dims], shape.dynamic, shape.layout)


def _fitted(op: Any, operands: Sequence[AnyShape], wanted: AnyShape, new: dict[int, int]) -> Any:
    """Adapts the attributes of an op to operands and a result (`wanted`) with new sizes. `new` maps old sizes
    to new ones.
    """
    changes: dict[str, Any] = {}
    if op.holds_shape:
        changes["shape"] = wanted
    for attribute in op.attributes:
        value = getattr(op, attribute.name)
        if isinstance(value, SliceDims):
            changes[attribute.name] = _ranges(value, operands[0].dims, wanted.dims)
        elif attribute.name == "dynamic_slice_sizes":
            changes[attribute.name] = wanted.dims
        elif attribute.name == "slice_sizes":
            changes[attribute.name] = tuple(new.get(n, n) for n in value)
        elif attribute.name == "window" and value is not None:
            size = tuple(new.get(n, n) for n in value.size)
            changes[attribute.name] = dataclasses.replace(value, size=size)
        elif isinstance(value, Literal) and isinstance(wanted, Shape):
            part = value.array[tuple(slice(0, n) for n in wanted.dims)]
            changes[attribute.name] = Literal(wanted.logical, np.array(part, order="C"))
    return dataclasses.replace(op, **changes) if changes else op


def _ranges(ranges: SliceDims, given: Sequence[int], wanted: Sequence[int]) -> SliceDims:
    """The ranges of a slice with result sizes `wanted`, moved to fit into an operand of sizes `given`."""
    starts: list[int] = []
    limits: list[int] = []
    for start, stride, size, n in zip(ranges.starts, ranges.strides, wanted, given, strict=True):
        span = (size - 1) * stride + 1 if size else 0
        starts.append(max(0, min(start, n - span)))
        limits.append(starts[-1] + span)
    return SliceDims(tuple(starts), tuple(limits), ranges.strides)
