"""Converts an HloModuleProto to a Module. References between its parts are checked: ids, operands, calls."""

from __future__ import annotations

from collections.abc import Set
from typing import Any
from weakref import WeakKeyDictionary

from axla.core.errors import AxlaError, InternalError, ParseError, ShapeError, UnsupportedError
from axla.core.literal import ElidedLiteral, Literal
from axla.core.regex import regex
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.graph import NO_EXTRA, Alias, Computation, Extra, Instruction, Module, SourceLocation
from axla.ir.op import Op, declared, unknown
from axla.ir.structure import Constant, Parameter
from axla.ir.typed import op_of
from axla.proto.attributes import Around
from axla.proto.extras import array_text, frame_tables, location_of, read_more
from axla.proto.fields import fields_of, read_attributes
from axla.proto.sharding import sharding_of
from axla.proto.values import ShapeReader, read_literal
from axla.text.forms import PLAIN_FORMS, unpacked
from axla.text.header import booleans
from axla.text.instructions import schema_of
from axla.text.lexer import Refusal

Proto = dict[str, Any]

CARRIED: WeakKeyDictionary[Module | Computation | Instruction, tuple[Any, Proto]] = WeakKeyDictionary()
"""Fields of messages that the graph cannot hold, by the object that they belong to: (op, fields). They are
written again with the object, if an instruction still has the same op.
"""

_NOT_IN_NAMES = regex(r"[^A-Za-z0-9_.\-]")
_COMPUTATION = frozenset(
    "name instructions program_shape id root_id is_fusion_computation execution_thread".split()  # noqa: SIM905
)
_MODULE = frozenset(
    """
    name entry_computation_name entry_computation_id computations host_program_shape id schedule
    input_output_alias buffer_donor stack_frame_index frontend_attributes original_value_recovery_table
    axla_config is_dynamic
    """.split()  # noqa: SIM905
)


# The limit of nested recovery modules: each is a string in its parent, so its text is escaped once more.
DEEPEST = 3


def read_module(message: Proto, depth: int = 0) -> Module:
    """Converts an HloModuleProto to a Module. ParseError names the field with an error. `depth` is the level
    of nesting of recovery modules, 0 for the module of a file.
    """
    if depth > DEEPEST:
        raise UnsupportedError(f"recovery modules are nested more than {DEEPEST} levels deep")
    return _Reader(message, depth).module()


class _Reader:
    def __init__(self, message: Proto, depth: int) -> None:
        self.message, self.depth = message, depth
        self.module_ = Module(clean_name(message.get("name", ""), "module"))
        self.shapes = ShapeReader()
        self.computations: dict[int, Computation] = {}
        self.instructions: dict[Computation, dict[int, Instruction]] = {}
        self.locations: dict[int, SourceLocation | None] = {}
        self.has_frames = bool(message.get("stack_frame_index", {}).get("stack_frames"))

    def module(self) -> Module:
        module, message = self.module_, self.message
        for number, computation in enumerate(message.get("computations", ())):
            with_place(f"computations[{number}]", self.computation, computation)
        ids = {computation: n for n, computation in self.computations.items()}
        module.order_computations(lambda c: ids[c])
        entry = self.computations.get(message.get("entry_computation_id", 0))
        if entry is None:
            number = message.get("entry_computation_id", 0)
            raise ParseError(f"HloModuleProto.entry_computation_id: there is no computation {number}")
        module.set_entry(entry)
        module.set_config(**with_place("HloModuleProto", self.config, message))
        if "schedule" in message:
            with_place("schedule", self.schedule, message["schedule"])
        _carry(module, message, _MODULE)
        return module

    # The header.

    def config(self, message: Proto) -> dict[str, Any]:
        extra = message.get("axla_config", {})
        more: list[tuple[str, str]] = []
        if extra.get("alias_passthrough_params"):
            more.append(("alias_passthrough_params", "true"))
        for side in ("parameters", "output"):
            key = f"allow_spmd_sharding_propagation_to_{side}"
            if extra.get(key):
                more.append((key, booleans(extra[key])))
        if "original_value_recovery_table" in message:
            table = recovery_text(message["original_value_recovery_table"], self.depth)
            more.append(("origin_recovery_table", table))
        if message.get("stack_frame_index"):
            more += frame_tables(message["stack_frame_index"])
        changes: dict[str, Any] = dict(
            aliases=tuple(map(_alias, message.get("input_output_alias", {}).get("entries", ()))),
            buffer_donors=tuple(
                (e.get("parameter_number", 0), tuple(e.get("parameter_shape_index", ())))
                for e in message.get("buffer_donor", {}).get("entries", ())
            ),
            replica_count=max(extra.get("replica_count", 1), 1),
            num_partitions=max(extra.get("num_partitions", 1), 1),
            frontend_attributes=_attributes(message),
            is_scheduled="schedule" in message,
            more=tuple(more),
        )
        if "host_program_shape" in message:
            shape = self.shapes.program_shape(message["host_program_shape"])
            entry = self.module_.entry
            if len(shape.parameters) != len(entry.parameters):
                found = f"{len(shape.parameters)} parameters"
                raise ParseError(
                    f"host_program_shape has {found}, the entry computation has {len(entry.parameters)}"
                )
            changes["entry_layout"] = shape
        return changes

    def schedule(self, message: Proto) -> None:
        found: dict[Computation, tuple[Instruction, ...]] = {}
        for entry in message.get("sequences", ()):
            computation = self.computations.get(entry.get("key", 0))
            if computation is None:
                raise ParseError(f"there is no computation {entry.get('key', 0)}")
            known = self.instructions[computation]
            ids = entry.get("value", {}).get("instruction_ids", ())
            order = tuple(known[i] for i in ids if i in known)
            if len(order) != len(ids) or len(set(order)) != len(computation.instructions):
                raise ParseError(f"the order of {computation.name} does not list every instruction once")
            seen: set[Instruction] = set()
            for inst in order:
                if not seen.issuperset(inst.operands):
                    raise ParseError(f"{inst.name} of {computation.name} comes before one of its operands")
                seen.add(inst)
            found[computation] = order
        self.module_.set_schedule(found)

    # Computations and instructions.

    def computation(self, message: Proto) -> None:
        number = message.get("id", 0)
        if number in self.computations:
            raise ParseError(f"there are two computations with the id {number}")
        computation = self.module_.add_computation(clean_name(message.get("name", ""), "computation"))
        known: dict[int, Instruction] = {}
        for n, instruction in enumerate(message.get("instructions", ())):
            id_ = instruction.get("id", 0)
            if id_ in known:
                raise ParseError(f"instructions[{n}]: there are two instructions with the id {id_}")
            try:
                known[id_] = self.instruction(instruction, computation, known)
            except AxlaError as error:
                name = instruction.get("name", "")
                error.args = (f"instructions[{n}] ({name}): {error.args[0]}",)
                error.message = error.args[0]
                raise
        root = known.get(message.get("root_id", 0))
        if root is None:
            raise ParseError(f"root_id: there is no instruction {message.get('root_id', 0)}")
        computation.set_root(root)
        for place, parameter in enumerate(computation.parameters):
            if op_of(parameter, Parameter).parameter_number != place:
                raise ParseError(f"the parameters of {computation.name} are not numbered 0, 1, 2, ...")
        ids = {inst: id_ for id_, inst in known.items()}
        computation.reorder(sorted(known.values(), key=lambda i: ids[i]))
        thread = message.get("execution_thread", "")
        if thread and thread != "main":
            computation.set_own_extra(Extra(more=(("execution_thread", thread),)))
        self.computations[number] = computation
        self.instructions[computation] = known
        _carry(computation, message, _COMPUTATION)

    def instruction(self, message: Proto, target: Computation, known: dict[int, Instruction]) -> Instruction:
        opcode = message.get("opcode", "")
        cls = declared(opcode)
        if cls is None:
            raise ParseError(unknown(opcode))
        shape = self.shapes.shape(message.get("shape"))
        operands = tuple(self._known(known, i, "operand") for i in message.get("operand_ids", ()))
        schema = schema_of(cls)
        if not schema.least <= len(operands) <= schema.most:
            raise ParseError(f"{opcode} does not accept {len(operands)} operands")
        op, shape = self.op(cls, message, operands, shape)
        extra = self.extra(message, shape, known)
        inst = target.add(op, operands, shape, name=clean_name(message.get("name", ""), opcode), extra=extra)
        _carry(inst, message, fields_of(cls).names, op)
        return inst

    def op(
        self, cls: type[Op], message: Proto, operands: tuple[Instruction, ...], shape: AnyShape
    ) -> tuple[Op, AnyShape]:
        """Returns (op, shape) for an instruction. If an op has several equivalent forms, the one that axla
        uses is returned.
        """
        if cls is Constant:
            shape = unpacked(shape)
            return Constant(shape, self.literal(message, shape)), shape
        if cls is Parameter:
            number = message.get("parameter_number", 0)
            if number < 0:
                raise ParseError("parameter_number is negative")
            return Parameter(shape, number), shape
        fields = read_attributes(cls, message, Around(self.shapes, operands))
        self._called(cls, message, fields)
        if cls.holds_shape:
            fields["shape"] = shape
        if cls.opcode == "map":
            fields["dimensions"] = tuple(range(shape.rank if isinstance(shape, Shape) else 0))
        try:
            op = cls(**fields)
            plain = PLAIN_FORMS.get(cls.opcode)
            return (plain(Refusal(), op, operands, 0) if plain is not None else op), shape
        except ShapeError as error:
            raise ParseError(error.message) from None

    def literal(self, message: Proto, shape: AnyShape) -> Literal:
        if "literal" not in message:
            return ElidedLiteral(shape)
        literal = read_literal(message["literal"], self.shapes.shape)
        if literal.shape.logical is not shape.logical:
            raise ParseError(f"literal: found {literal.shape} in a constant of {shape}")
        return literal

    def _called(self, cls: type[Op], message: Proto, fields: dict[str, Any]) -> None:
        names = fields_of(cls).called
        if not names or cls.opcode in ("async-update", "async-done"):
            return
        called = []
        for number in message.get("called_computation_ids", ()):
            if number not in self.computations:
                raise ParseError(f"called_computation_ids: there is no computation {number} before this one")
            called.append(self.computations[number])
        if cls.opcode == "conditional":
            fields["branch_computations"] = tuple(called)
        elif cls.opcode == "custom-call":
            fields["called_computations"] = tuple(called)
        elif len(called) != len(names):
            raise ParseError(f"{cls.opcode} calls {len(names)} computations, found {len(called)}")
        else:
            fields.update(zip(names, called, strict=True))

    @staticmethod
    def _known(known: dict[int, Instruction], number: int, what: str) -> Instruction:
        # Ids have 64 bits, with the computation in the upper half. Older files may have only the lower half.
        found = known.get(number)
        if found is None:
            raise ParseError(f"its {what} {number} is not an instruction before it")
        return found

    def extra(self, message: Proto, shape: AnyShape, known: dict[int, Instruction]) -> Extra:
        fields: dict[str, Any] = {}
        metadata = message.get("metadata")
        if metadata:
            if id(metadata) not in self.locations:
                self.locations[id(metadata)] = location_of(metadata, with_frames=self.has_frames)
            fields["location"] = self.locations[id(metadata)]
        if "sharding" in message:
            sharding = sharding_of(message["sharding"])
            if sharding is not None and isinstance(shape, TupleShape):
                sharding = sharding.of_leaves(shape.leaf_count)
            fields["sharding"] = sharding
        if attributes := _attributes(message):
            fields["frontend_attributes"] = attributes
        if config := message.get("backend_config"):
            fields["backend_config"] = config.decode("utf-8", "surrogateescape")
        if before := message.get("control_predecessor_ids"):
            fields["control_predecessors"] = tuple(
                self._known(known, i, "control predecessor") for i in before
            )
        if more := read_more(message, shape):
            fields["more"] = more
        return Extra(**fields) if fields else NO_EXTRA


def _carry(
    owner: Module | Computation | Instruction, message: Proto, known: Set[str], op: Op | None = None
) -> None:
    """Stores the fields of a message that are not in `known` for its `owner`, so that the writer can write
    them again.
    """
    if not message.keys() <= known:
        CARRIED[owner] = (op, {key: value for key, value in message.items() if key not in known})


def with_place(place: str, read: Any, message: Proto) -> Any:
    """Returns `read(message)`. If it raises an AxlaError, puts `place`, the path of the message's field, in
    front of the error message.
    """
    try:
        return read(message)
    except InternalError:
        raise
    except AxlaError as error:
        mark = "." if error.args[0].startswith("instructions[") else ": "
        text = place + mark + error.args[0]
        error.args, error.message = (text,), text
        raise


def clean_name(name: str, other: str) -> str:
    """Converts a name to one that HLO text accepts, as XLA does; returns `other` if the name is empty."""
    name = _NOT_IN_NAMES.sub("_", name)
    if not name:
        return other
    return name if name[0].isalpha() or name[0] == "_" else "_" + name[1:]


def _attributes(message: Proto) -> tuple[tuple[str, str], ...]:
    entries = message.get("frontend_attributes", {}).get("map", ())
    return tuple(sorted({e.get("key", ""): e.get("value", "") for e in entries}.items()))


def _alias(entry: Proto) -> Alias:
    return Alias(
        tuple(entry.get("output_shape_index", ())),
        entry.get("parameter_number", 0),
        tuple(entry.get("parameter_shape_index", ())),
        entry.get("kind") == "MUST_ALIAS",
    )


def recovery_text(message: Proto, depth: int) -> str:
    """Converts the message with the recovery table of a module, which says how to compute original values
    that were removed, to HLO text. `depth` is the level of nesting of the module, as in `read_module`.
    """
    lines = []
    for entry in message.get("entries", ()):
        old, new = (array_text(entry.get(f"{side}_original_array")) for side in ("old", "new"))
        lines.append(f"  {old} : {new}")
        if "recovery_module" in entry:
            text = read_module(entry["recovery_module"], depth + 1).to_string()
            inner = "".join(f"    {line}\n" if line else "\n" for line in text.split("\n"))
            escaped = inner.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f',\n  "\n{escaped}  "')
        lines.append("\n")
    return "{\n" + "".join(lines) + "}"
