"""Modules as data for a page: a table of records, and states, which are lists of records. A record describes
an instruction in a state. An instruction keeps its id while passes run. So an id that the previous state does
not have is that of an added instruction, and an id with another record that of a changed one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from axla.analysis.cost import Cost, instruction_costs
from axla.ir.graph import Instruction, Module
from axla.ir.traverse import computations_callees_first, schedule_of
from axla.passes.rewrite import rules_by_name
from axla.text.printer import instruction_printer

LONGEST = 4000
"""The most characters that a page shows of an instruction's text."""


class States:
    """Records the successive states of a module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.records: list[list[Any]] = []
        self.stages: list[dict[str, Any]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._known: dict[Instruction, tuple[tuple[Any, ...], int]] = {}
        self._versions: dict[int, int] = {}
        self._print = instruction_printer(print_metadata=False)

    def add(self, name: str, nanoseconds: int = 0, fired: Iterable[tuple[str, int]] = ()) -> None:
        """Records the current state of the module: after the pass `name`, which took `nanoseconds`. `fired`
        has pairs of a rule that fired and the id of the instruction at which it did.
        """
        module, changed = self.module, {}
        costs = instruction_costs(module)
        order = computations_callees_first(module)
        for computation in order:
            if self._versions.get(computation.id) == computation.version:
                continue
            self._versions[computation.id] = computation.version
            records = [self._record(inst, costs[inst]) for inst in schedule_of(computation)]
            changed[computation.id] = [computation.name, computation.root.id, records]
        rules: dict[str, list[int]] = {}
        for rule, inst in fired:
            rules.setdefault(rule, []).append(inst)
        self.stages.append({
            "pass": name, "ms": nanoseconds / 1e6, "rules": rules, "entry": module.entry.id,
            "order": [c.id for c in reversed(order)], "computations": changed,
        })  # fmt: skip

    def to_data(self) -> dict[str, Any]:
        """The table of records, the states, and the equations of the rules that fired."""
        rules, fired = rules_by_name(), {rule for stage in self.stages for rule in stage["rules"]}
        equations = {name: rules[name].equation for name in sorted(fired & rules.keys())}
        return {"records": self.records, "stages": self.stages, "equations": equations}

    def _record(self, inst: Instruction, cost: Cost) -> int:
        """The number in the table of the record that describes an instruction as it is now; `cost` is the
        cost of the instruction.
        """
        operations = cost.operations + cost.transcendentals
        state = (inst.op, inst.operands, inst.shape, inst.extra, inst.name, operations, cost.bytes)
        known = self._known.get(inst)
        if known is not None and all(a is b or a == b for a, b in zip(known[0], state, strict=True)):
            return known[1]
        record = self._made(inst, operations, cost.bytes)
        self.records.append(record)
        self._known[inst] = state, len(self.records) - 1
        return len(self.records) - 1

    def _made(self, inst: Instruction, operations: int, moved: int) -> list[Any]:
        extra, location = inst.extra, inst.extra.location
        called = inst.op.computations() if inst.op.computation_fields else ()
        place = f"{location.source_file}:{location.source_line}" if location and location.source_file else ""
        return [
            inst.id, inst.name, inst.op.opcode, _short(inst.shape.to_string()), [o.id for o in inst.operands],
            _short(self._print(inst)), [c.id for c in called], [p.id for p in extra.control_predecessors],
            place, location.op_name if location else "", operations, moved,
        ]  # fmt: skip


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
