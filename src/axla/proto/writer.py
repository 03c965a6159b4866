"""Converts a Module to an HloModuleProto."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from axla.core.errors import InternalError, InvalidArgument, UnsupportedError
from axla.core.literal import ElidedLiteral, Literal
from axla.core.shape import ProgramShape
from axla.hlo.asynchronous import AsyncDone, AsyncUpdate
from axla.ir.graph import Computation, Extra, Instruction, Module
from axla.ir.structure import Constant, Parameter
from axla.ir.traverse import computations_callees_first, schedule_of
from axla.proto.attributes import Around
from axla.proto.extras import frames_message, location_message, write_more
from axla.proto.fields import fields_of, write_attributes
from axla.proto.reader import CARRIED
from axla.proto.sharding import sharding_message
from axla.proto.values import ShapeWriter, literal_message

Proto = dict[str, Any]

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


def module_message(module: Module) -> Proto:
    """Converts a module to an HloModuleProto. UnsupportedError for values that the format cannot
    represent.
    """
    if not module.has_entry:
        message = f"to_proto: module {module.name} has no entry computation, or has unknown sizes"
        raise InvalidArgument(message)
    return _Writer(module).message()


class _Writer:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.shapes = ShapeWriter()
        self.around = Around(self.shapes)
        self.numbers = {c: n for n, c in enumerate(module.computations)}
        # Numbered as by XLA: the computation in the upper 32 bits, the instruction's index in the lower ones.
        self.ids = {
            inst: n << 32 | place
            for c, n in self.numbers.items()
            for place, inst in enumerate(c.instructions)
        }
        self.location = cache(location_message)
        self.sharding = cache(sharding_message)
        self.fused = {
            called
            for c in module.computations
            for inst in c.instructions
            if inst.op.opcode == "fusion"
            for called in inst.op.computations()
        }

    def message(self) -> Proto:
        module, config = self.module, self.module.config
        entry = module.entry
        layout = config.entry_layout or ProgramShape(
            tuple(p.shape for p in entry.parameters), entry.root.shape
        )
        names = tuple(p.name for p in entry.parameters)
        message: Proto = {
            "name": module.name,
            "entry_computation_name": entry.name,
            "computations": [self.computation(c) for c in computations_callees_first(module)],
            "host_program_shape": self.shapes.program_shape(
                ProgramShape(layout.parameters, layout.result, names)
            ),
            "entry_computation_id": self.numbers[entry],
        }
        if module.schedule is not None:
            sequences = [
                {"key": self.numbers[c], "value": {"instruction_ids": [self.ids[i] for i in order]}}
                for c, order in module.schedule.items()
            ]
            message["schedule"] = {"sequences": sequences}
        donors = [{"parameter_number": n, "parameter_shape_index": list(i)} for n, i in config.buffer_donors]
        tables = {name: text for name, text in config.more if name in _TABLES}
        table = dict(config.more).get("origin_recovery_table")
        message |= _there(
            input_output_alias=_map("entries", map(_alias, config.aliases)),
            buffer_donor=_map("entries", donors),
            frontend_attributes=_attributes(config.frontend_attributes),
            stack_frame_index=tables and frames_message(tables),
            original_value_recovery_table=table and recovery_message(table),
            axla_config=_own_config(module),
        )
        return message | CARRIED.get(module, (None, {}))[1]

    def computation(self, computation: Computation) -> Proto:
        message: Proto = {
            "name": computation.name,
            "instructions": [self.instruction(inst) for inst in schedule_of(computation)],
            "program_shape": self.shapes.program_shape(computation.program_shape),
            "id": self.numbers[computation],
            "root_id": self.ids[computation.root],
            "is_fusion_computation": computation in self.fused,
        }
        thread = dict(computation.extra.more).get("execution_thread")
        if thread:
            message["execution_thread"] = thread
        return message | CARRIED.get(computation, (None, {}))[1]

    def instruction(self, inst: Instruction) -> Proto:
        op, ids = inst.op, self.ids
        message: Proto = {
            "name": inst.name, "opcode": op.opcode, "shape": self.shapes.shape(inst.shape), "id": ids[inst],
            "operand_ids": [ids[o] for o in inst.operands],
        }  # fmt: skip
        if type(op) is Parameter:
            message["parameter_number"] = op.parameter_number
        elif type(op) is Constant:
            if not isinstance(op.literal, ElidedLiteral):
                literal = op.literal
                if literal.shape is not inst.shape and literal.shape.logical is inst.shape.logical:
                    literal = Literal(
                        inst.shape, literal.array if inst.shape.is_array else None, literal.elements
                    )
                message["literal"] = literal_message(literal, self.shapes.shape)
        else:
            self.around.operands = inst.operands
            write_attributes(op, message, self.around)
            self._calls(inst, message)
        if inst.extra is not None:
            self.extra(inst.extra, message)
        carried = CARRIED.get(inst)
        if carried is not None and carried[0] is op:
            message |= carried[1]
        return message

    def _calls(self, inst: Instruction, message: Proto) -> None:
        op = inst.op
        if not op.computation_fields or isinstance(op, AsyncUpdate | AsyncDone):
            return
        called: list[Computation] = []
        for name in fields_of(type(op)).called:
            value = getattr(op, name)
            called += value if isinstance(value, tuple) else () if value is None else (value,)
        for computation in called:
            if computation not in self.numbers:
                raise InternalError(f"proto: {inst!r} calls {computation.name}, which is in another module")
        message["called_computation_ids"] = [self.numbers[c] for c in called]

    def extra(self, extra: Extra, message: Proto) -> None:
        message |= _there(
            metadata=extra.location and self.location(extra.location),
            sharding=extra.sharding and self.sharding(extra.sharding),
            frontend_attributes=_attributes(extra.frontend_attributes),
            backend_config=extra.backend_config.encode("utf-8", "surrogateescape"),
            control_predecessor_ids=[self.ids[p] for p in extra.control_predecessors],
        )
        write_more(extra.more, message)


def _there(**fields: Any) -> Proto:
    """A message with those of `fields` whose values are not empty."""
    return {name: value for name, value in fields.items() if value}


def _map(name: str, entries: Iterable[Proto]) -> Proto:
    """A message whose only field is a list; an empty message for an empty list."""
    return _there(**{name: list(entries)})


def _attributes(pairs: tuple[tuple[str, str], ...]) -> Proto:
    return _map("map", ({"key": key, "value": value} for key, value in pairs))


def _alias(alias: Any) -> Proto:
    return {
        "output_shape_index": list(alias.output), "parameter_number": alias.parameter,
        "parameter_shape_index": list(alias.index), "kind": "MUST_ALIAS" if alias.must else "MAY_ALIAS",
    }  # fmt: skip


def _own_config(module: Module) -> Proto:
    """The attributes of the module's header that HloModuleProto has no fields for."""
    counts = {name: getattr(module.config, name) for name in ("replica_count", "num_partitions")}
    message: Proto = {name: count for name, count in counts.items() if count != 1}
    for name, text in module.config.more:
        if name == "alias_passthrough_params":
            message[name] = text == "true"
        elif name.startswith("allow_spmd_sharding_propagation_to_"):
            message[name] = [word == "true" for word in text.strip("{}").split(",") if word]
    return message


def recovery_message(text: str) -> Proto:
    """Converts the recovery table of a header, in which modules are quoted texts, to a message."""
    from axla.proto.extras import ENTRY, array_message
    from axla.text.lexer import HloCursor
    from axla.text.parser import parse_hlo

    cursor, entries = HloCursor(text), []
    cursor.expect("{")
    while not cursor.accept("}"):
        entry: Proto = {}
        for side in ("old", "new"):
            found = cursor.match(ENTRY)
            if found is None:
                raise UnsupportedError("origin_recovery_table is malformed and cannot be written as a proto")
            if found[1] is not None:
                entry[f"{side}_original_array"] = array_message(found)
            if side == "old":
                cursor.expect(":")
        if cursor.accept(","):
            entry["recovery_module"] = module_message(parse_hlo(cursor.quoted()))
        entries.append(entry)
    return {"entries": entries}
