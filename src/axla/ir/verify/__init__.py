"""Checks that a module obeys the rules of HLO. The rules, with the labels that end the error messages:

Module
  module_entry       there is an entry computation, it is one of the module's, and no fusion calls it
  module_names       computations have different names, and instructions have, within their computation
  module_calls       called computations belong to the module; no computation calls itself, directly or not
  module_layout      entry_computation_layout agrees with the entry's parameters and result, up to layout
  module_aliases     aliased results and parameters are arrays that exist and have the same shape; no leaf is
                     aliased twice, or aliased and donated
  module_schedule    a schedule has every instruction of a computation exactly once, after what it needs
  module_constrained_layouts  all-reduces say constrain_layout all, or none

Computation
  computation_root        there is a root, and it is in the computation
  computation_parameters  parameters are numbered from 0 without gaps, and listed in order
  computation_acyclic     operands and control edges make no cycle

Instruction
  instruction_place     the instruction knows the computation that holds it
  instruction_operands  operands are in the same computation; users are those that have it as an operand
  instruction_arity     as many operands as the op declares
  instruction_control   control predecessors are in the same computation
  instruction_precision  operands that are floats have one element type, but for ops that say otherwise
  instruction_shape     the shape is the one that the op infers, up to layout
  ...                   and the labels of the op's own `infer`

Rules that concern several instructions are in modules of their own, which begin with their labels: `pairs`
(each start has one done), `channels` (sends and receives, and that none waits for ever), `groups` (members of
collectives), `calls` (fusions, threads, composites, aliased operands), `placement` (layouts, memory spaces,
shardings), `buffers` (each has one writer), `accuracy`. `docs/verifier.md` compares all rules with XLA's.

The checks take time linear in the size of the module.
"""

from __future__ import annotations

import contextlib
import operator

from axla.core.errors import InternalError
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.places import located
from axla.ir.traverse import callers
from axla.ir.verify import calls, channels, groups, pairs, placement
from axla.ir.verify.accuracy import verify_accuracy
from axla.ir.verify.buffers import verify_buffers
from axla.ir.verify.failure import fail
from axla.ir.verify.graph import (
    verify_acyclic,
    verify_calls,
    verify_operands,
    verify_parameters,
    verify_shape,
    verify_sizes,
    wrong_user,
)
from axla.ir.verify.header import verify_aliases, verify_entry_layout, verify_schedule

Inferred = dict[Instruction, tuple[object, ...]]
"""Instructions whose shapes were verified, with the op, the shape and the operands' shapes at that time."""


def verify(module: Module, inferred: Inferred | None = None) -> None:
    """Raises VerifyError for the first error that is found. The message has the instruction with its line,
    what was found and what was wanted. Instructions in `inferred` are not inferred again unless they changed;
    `inferred` is updated.
    """
    with located(module.file, module):
        _verify_graph(module)
        _verify_meaning(module, {} if inferred is None else inferred)


def verify_graph(module: Module) -> None:
    """Checks those rules of `verify` that text cannot express. If two graphs pass them and have equal texts,
    they are equal.
    """
    with located(module.file, module):
        _verify_graph(module)


def verify_meaning(module: Module) -> None:
    """Checks the rules of `verify` that `verify_graph` does not check, for a module that has passed
    `verify_graph`.
    """
    with located(module.file, module):
        _verify_meaning(module, {})


def state(module: Module) -> list[object]:
    """All objects that `verify` reads. As long as they are the same objects, `verify` has the same result."""
    schedule = module.schedule or {}
    found: list[object] = [module.config, module.has_entry and module.entry, *schedule, *schedule.values()]
    for computation in module.computations:
        root = computation.has_root and computation.root
        found += (computation, computation.name, root, computation.extra, *computation.parameters)
        for i in computation.instructions:
            found += (i, i.op, i.operands, i.shape, i.computation, i.name, i.extra, *i.users)
    return found


def _verify_graph(module: Module) -> None:
    if not module.has_entry:
        with contextlib.suppress(InternalError):
            _ = module.entry  # a module that waits for its sizes raises its own error
    if not module.has_entry or module.entry not in module.computations:
        fail("module_entry", f"module {module.name} has no entry computation of its own")
    verify_sizes(module)
    names: set[str] = set()
    for computation in module.computations:
        if computation.name in names:
            fail("module_names", f"two computations are called {computation.name}")
        names.add(computation.name)
        _verify_computation(computation)
    verify_calls(module)
    verify_schedule(module)


def _verify_meaning(module: Module, inferred: Inferred) -> None:
    for computation in module.computations:
        for inst in computation.instructions:
            facts = (inst.op, inst.shape, *[operand.shape for operand in inst.operands])
            before = inferred.get(inst, ())
            if len(before) != len(facts) or not all(map(operator.is_, before, facts)):
                verify_shape(inst)
                if not inst.op.computations():
                    inferred[inst] = facts
    called_by = callers(module)
    for computation in module.computations:
        for inst in computation.instructions:
            if inst.op.collective is not None:
                groups.RULES[inst.op.collective](inst)
            for rule in _RULES.get(inst.op.opcode, ()):
                rule(inst)
            if inst.extra.more:
                verify_accuracy(inst)
            if inst.extra.sharding:
                placement.verify_sharding(inst)
    calls.verify_called(module, called_by)
    pairs.verify_pairs(module, called_by)
    channels.verify_channels(module)
    verify_buffers(module)
    verify_entry_layout(module)
    verify_aliases(module)
    channels.verify_order(module)


_TABLES = calls.RULES, placement.RULES
_RULES = {opcode: [t[opcode] for t in _TABLES if opcode in t] for table in _TABLES for opcode in table}
"""The functions that check single instructions, apart from their shapes, by opcode."""


def _verify_computation(computation: Computation) -> None:
    """Checks the structure of one computation."""
    instructions = computation.instructions
    if not computation.has_root or computation.root not in instructions:
        fail("computation_root", f"computation {computation.name} has no root among its instructions")
    names: set[str] = set()
    uses = 0
    for inst in instructions:
        if inst.computation is not computation:
            message = f"{inst!r} is listed in {computation.name}, but belongs to {inst.computation.name}"
            fail("instruction_place", message)
        if inst.name in names:
            fail("module_names", f"two instructions of {computation.name} are called {inst.name}")
        names.add(inst.name)
        verify_operands(inst)
        uses += len(inst.users)
    if uses != sum(len(set(inst.operands)) for inst in instructions):
        fail("instruction_operands", f"computation {computation.name}: {wrong_user(computation)}")
    verify_parameters(computation)
    verify_acyclic(computation)
