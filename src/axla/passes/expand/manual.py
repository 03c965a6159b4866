"""Rewrites programs with manual regions (JAX's shard_map) as the program of one partition. The shapes of such
programs are those of whole arrays outside of regions, and of parts inside.

Outside of regions every partition computes everything, on whole arrays (`partition` handles programs without
regions). At the beginning of a region, and for sharded results, a partition takes its part of an array. At
the end of a region, and for sharded arguments, the parts are gathered, unless only the same part is used.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from axla.core.dtypes import PRED
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape
from axla.hlo import (
    AfterAll,
    Broadcast,
    CollectiveBroadcast,
    Conditional,
    Constant,
    CustomCall,
    PartitionId,
)
from axla.ir.devices import ReplicaGroups
from axla.ir.graph import Computation, Extra, Instruction, Module
from axla.ir.sharding import Sharding
from axla.ir.structure import GetTupleElement, Parameter, Tuple
from axla.ir.traverse import post_order
from axla.ir.typed import shape_of
from axla.passes.expand.cuts import CHANNEL, Cut, cut_of, cut_whole, joined, looked_up
from axla.passes.expand.flat import inline_calls
from axla.passes.expand.propagation import Propagation
from axla.passes.expand.shardings import ENTER, LEAVE, SHARDING, SHARDY, Shardings, target_of

WHOLE_ARRAYS = "axla.whole_arrays"
"""The frontend attribute of a module for several partitions whose shapes are whole arrays; without it they
are parts.
"""


def has_whole_arrays(module: Module) -> bool:
    """Whether a module is written for a partitioner: it has the attribute WHOLE_ARRAYS, or custom calls for
    shardings.
    """
    if WHOLE_ARRAYS in dict(module.config.frontend_attributes):
        return True
    return any(target_of(i) in (SHARDING, ENTER, LEAVE) for c in module.computations for i in c.instructions)


def manual_partitioning(module: Module, found: Propagation) -> None:
    """Gives parameters and results the shapes of one partition's parts. `found` has the propagated shardings
    of this module, or of the module that it is a copy of.
    """
    shardings = Shardings(module)
    # Functions with regions are inlined, so that parts can be passed from one region to another.
    has_borders = cache(lambda called: any(map(_is_border, called.instructions)))
    inline_calls(module, lambda _, called: has_borders(called))
    cuts = {
        inst: shardings.of_border(inst)
        for computation in module.computations
        for inst in computation.instructions
        if _is_border(inst)
    }
    cuts |= _cut_arguments(module, found.arguments) | _cut_results(module, found.results)
    for computation in list(module.computations):
        _rewrite(computation, cuts, shardings)
    say_borders(module, found)


def say_borders(module: Module, found: Propagation) -> None:
    """Records the shardings of arguments and results on parameters and root, whose shapes are now those of
    parts. Updates the aliases, and removes the entry layout and the attribute WHOLE_ARRAYS of the module.
    """
    entry = module.entry
    for parameter, sharding in zip(entry.parameters, found.arguments, strict=True):
        if isinstance(parameter.shape, Shape):
            entry.set_extra(parameter, _extra(parameter, sharding or Sharding("replicated")))
    leaves = [one or Sharding("replicated") for one in found.results]
    said = Sharding(parts=tuple(leaves)) if entry.root.shape.is_tuple else leaves[0]
    entry.set_extra(entry.root, _extra(entry.root, said))
    frontend = [said for said in module.config.frontend_attributes if said[0] != WHOLE_ARRAYS]
    module.set_config(entry_layout=None, frontend_attributes=tuple(frontend), **_donated(module))


def _is_border(inst: Instruction) -> bool:
    return target_of(inst) in (ENTER, LEAVE)


def _extra(inst: Instruction, sharding: Sharding) -> Extra:
    frontend = tuple(said for said in inst.extra.frontend_attributes if said[0] != SHARDY)
    return replace(inst.extra, sharding=sharding, frontend_attributes=frontend)


# Arguments and results of the program are treated as the boundary of a region.


def _cut_arguments(module: Module, shardings: list[Sharding | None]) -> dict[Instruction, Cut | None]:
    entry, cuts = module.entry, {}
    for number, (parameter, sharding) in enumerate(zip(entry.parameters, shardings, strict=True)):
        shape = parameter.shape
        if not isinstance(shape, Shape):
            continue
        cut = cut_of(sharding, shape.rank, module.config.num_partitions)
        if cut is not None:
            users = list(parameter.users)
            whole = entry.add(CustomCall(shape, custom_call_target=LEAVE), (parameter,))
            entry.replace(parameter, whole, users)
            part = cut.part_of(shape)
            entry.set_op(parameter, Parameter(part, number), part)
            cuts[whole] = cut
    return cuts


def _cut_results(module: Module, shardings: list[Sharding | None]) -> dict[Instruction, Cut | None]:
    entry, cuts, remaining = module.entry, {}, iter(shardings)

    def cut_leaves(value: Instruction) -> Instruction:
        if value.shape.is_tuple:
            parts = value.operands if isinstance(value.op, Tuple) else _elements(value)
            return entry.add(Tuple(), [cut_leaves(part) for part in parts])
        sharding = next(remaining)
        if not isinstance(value.shape, Shape):
            return value
        cut = cut_of(sharding, value.shape.rank, module.config.num_partitions)
        if cut is None:
            return value
        part = entry.add(CustomCall(cut.part_of(value.shape), custom_call_target=ENTER), (value,))
        cuts[part] = cut
        return part

    if any(shardings):
        old = entry.root
        entry.set_root(cut_leaves(old))
        if isinstance(old.op, Tuple) and not old.users:
            entry.remove(old)  # as a user of whole arrays it would cause them to be gathered
    return cuts


def _elements(value: Instruction) -> list[Instruction]:
    return [GetTupleElement(number)(value) for number in range(len(value.shape.parts))]


def _donated(module: Module) -> dict:
    """The aliases and buffer donors of a module, as fields of its configuration. An alias stays if the parts
    of the argument and of the result have the same shape; else the argument becomes a donor only.
    """
    config, root = module.config, module.entry.root
    kept, donors = [], list(config.buffer_donors)
    for alias in config.aliases:
        given, made = module.entry.parameters[alias.parameter].shape, root.shape
        for index in alias.index:
            given = given.parts[index]
        for index in alias.output:
            made = made.parts[index]
        if given.logical is made.logical:
            kept.append(alias)
        else:
            donors.append((alias.parameter, alias.index))
    return {"aliases": tuple(kept), "buffer_donors": tuple(donors)}


# Custom calls that mark shardings are removed. Those at the boundaries of regions become the ops that cut an
# array into parts, or the collectives that gather it.


def _rewrite(computation: Computation, cuts: dict[Instruction, Cut | None], shardings: Shardings) -> None:
    replicas = computation.module.config.replica_count
    for inst in post_order(computation):
        if target_of(inst) == SHARDING:
            _become(inst, inst.operands[0])
        elif isinstance(inst.op, GetTupleElement) and isinstance(inst.operands[0].op, Tuple):
            _become(inst, inst.operands[0].operands[inst.op.index])
    for inst in post_order(computation):
        if inst not in computation.instructions:
            continue
        if inst in cuts:
            (operand,), cut = inst.operands, cuts[inst]
            _check(inst, cut)
            if target_of(inst) == ENTER:
                _become(inst, operand if cut is None else cut_whole(operand, cut))
                continue
            for user in list(inst.users):
                if target_of(user) == ENTER and cuts[user] == cut:
                    _become(user, operand)
            if inst.users or inst is computation.root:
                _become(inst, operand if cut is None else joined(operand, cut, replicas))
            else:
                computation.remove(inst)
        elif isinstance(inst.op, CustomCall):
            said = shardings.said(inst)
            if said is not None and isinstance(said.what, int):
                _run_on_one(inst, said.what, shardings.partitions)


def _become(inst: Instruction, value: Instruction) -> None:
    inst.computation.replace(inst, value)
    inst.computation.remove(inst)


def _check(inst: Instruction, cut: Cut | None) -> None:
    """Raises VerifyError if the shape of a part does not fit the sharding at the boundary of a region."""
    whole, part = (inst.operands[0], inst) if target_of(inst) == ENTER else (inst, inst.operands[0])
    try:
        wanted = shape_of(whole) if cut is None else cut.part_of(shape_of(whole))
    except UnsupportedError as error:
        raise UnsupportedError(f"{inst!r}: {error.message}") from None
    if wanted.logical is not part.shape.logical:
        raise VerifyError(f"{inst!r}: parts of {whole.shape.logical} must be {wanted.logical}")


def _run_on_one(call: Instruction, device: int, partitions: int) -> None:
    """Makes only the partition `device` run a call. The other partitions receive its results."""
    computation, module = call.computation, call.computation.module
    operand = computation.add(Tuple(), call.operands)
    on_it, elsewhere = (module.add_computation(name) for name in ("on_one", "elsewhere"))
    inside, _ = (body.add(Parameter(operand.shape, 0)) for body in (on_it, elsewhere))
    extra = replace(call.extra, sharding=None, control_predecessors=())
    on_it.set_root(on_it.add(call.op, _elements(inside), call.shape, extra=extra))
    elsewhere.set_root(_zeros(elsewhere, call.shape))
    is_it = looked_up(computation.add(PartitionId()), [p == device for p in range(partitions)], PRED)
    before = replace(Extra(), control_predecessors=call.extra.control_predecessors)
    made = computation.add(Conditional(on_it, elsewhere), (is_it, operand, operand), extra=before)
    group = (device, *(p for p in range(partitions) if p != device))
    op = CollectiveBroadcast(CHANNEL, ReplicaGroups((group,)))
    _become(call, _rebuilt(made, op))


def _rebuilt(value: Instruction, op: CollectiveBroadcast) -> Instruction:
    """Broadcasts each array of `value`, the result of a call, from the partition that ran the call. `op` is
    the op of the broadcasts. Leaves that are not arrays stay as they are.
    """
    if value.shape.is_tuple:
        return value.computation.add(Tuple(), [_rebuilt(part, op) for part in _elements(value)])
    return op(value) if isinstance(value.shape, Shape) else value


def _zeros(computation: Computation, shape: AnyShape) -> Instruction:
    if shape.is_tuple:
        return computation.add(Tuple(), [_zeros(computation, part) for part in shape.parts])
    if not isinstance(shape, Shape):
        return computation.add(AfterAll())
    scalar = Literal.scalar(shape.dtype, 0)
    return Broadcast(shape.logical, ())(computation.add(Constant(scalar.shape, scalar)))
