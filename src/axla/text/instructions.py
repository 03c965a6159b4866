"""Parses instructions: [ROOT] %name = shape opcode(operands), attribute=value, ...

The op declarations drive the parser: `OPS[opcode].attributes` lists the attributes with their types, and a
type determines the codec. The table COMMON has the readers of the attributes that every instruction may have
(metadata, sharding, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, replace
from functools import cache
from typing import Any

import axla.hlo  # noqa: F401  fills OPS
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, ShapeError, did_you_mean
from axla.core.regex import ascii_regex
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo.family import show
from axla.ir.attributes import Window
from axla.ir.graph import NO_EXTRA, Attribute, Computation, Extra, Instruction, Module, SourceLocation
from axla.ir.op import OPS, Op, declared, unknown
from axla.ir.sharding import Sharding
from axla.ir.structure import Constant, GetTupleElement, Parameter
from axla.ir.typed import op_of
from axla.text import asynchronous
from axla.text.attributes import codec_of
from axla.text.forms import PLAIN_FORMS, unpacked
from axla.text.inference import transfer_shape, with_natural_layout
from axla.text.lexer import BLANK, NAME, STRING, unescape
from axla.text.literals import read_literal
from axla.text.shapes import ARRAY, TUPLE, ShapeCursor, compatible
from axla.text.sharding import read_sharding

_OPCODE = r"[a-z][\w\-]*+"
_START = ascii_regex(BLANK + rf"(ROOT\b)?+{BLANK}%?+({NAME}){BLANK}={BLANK}")
_FAST = ascii_regex(_START.pattern + rf"({ARRAY}|{TUPLE}){BLANK}({_OPCODE}){BLANK}\(")
_OPERANDS = ascii_regex(rf"{BLANK}(%?+{NAME}(?:{BLANK},{BLANK}%?+{NAME})*+)?+{BLANK}\)")
_OPERAND = ascii_regex(BLANK + rf"(%?+)({NAME}(?:#\d++)*+)")
_OPERAND_NAME = ascii_regex(rf"/\*[\s\S]*?\*/|//[^\n]*+|({NAME})")
_WORD_BEFORE_PAREN = ascii_regex(BLANK + rf"({_OPCODE}){BLANK}\(")
_ATTRIBUTE = ascii_regex(BLANK + "," + BLANK + f"({NAME})" + BLANK + "=")
_METADATA = ascii_regex(BLANK + rf'(\{{(?:[^{{}}"]++|{STRING}|\{{[^{{}}"]*+\}})*+\}})')
_METADATA_ENTRY = ascii_regex(
    BLANK + rf",?+{BLANK}({NAME}){BLANK}={BLANK}({STRING}|-?\d++|\{{[^{{}}\"]*+\}}|{NAME})"
)


_BETWEEN_BRACES = ascii_regex(r"\}\s*+,\s*+\{")


@dataclass(frozen=True, slots=True)
class Schema:
    """An op class as the parser needs it: the readers of its attributes, its required attributes, and the
    bounds of its operand count.
    """

    op: type[Op]
    readers: dict[str, tuple[str, Callable[[Any], Any]]]  # attribute's text name -> field, decoder
    required: tuple[tuple[str, str], ...]  # field, text name
    least: int  # the fewest operands
    most: int


@cache
def schema_of(op: type[Op]) -> Schema:
    """Makes the schema of an op class: operand counts, readers of attributes, required attributes."""
    readers = {a.text: (a.name, codec_of(a.type).decode) for a in op.attributes if op is not Constant}
    for name in readers.keys() & {*COMMON, *TEXT_ATTRIBUTES}:
        raise InvalidArgument(
            f"op {op.opcode}: {name} is an attribute of every instruction, an op cannot declare it"
        )
    if op.opcode == "custom-call" and "called_computations" in readers:
        readers["to_apply"] = ("called_computations", lambda reader: (reader.computation(),))
    # A field after one with a default must have a default, too. A default None or "" there means that the
    # text must have the attribute.
    required = [a for a in op.attributes if a.default is MISSING or (a.always and a.default in (None, ""))]
    count = len(op.operand_names)
    least = count - op.optional - (1 if op.variadic else 0)
    needed = tuple((a.name, a.text) for a in required)
    return Schema(op, readers, needed, least, 1 << 62 if op.variadic else count)


class InstructionCursor(ShapeCursor):
    """A cursor that reads instructions into a computation of a module."""

    target: Computation  # the computation that is being read

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.module = Module("")
        self.computations: dict[str, Computation] = {}
        self.scope: dict[str, Instruction] = {}  # instructions of the target, by their names in the text
        self.inlined: list[tuple[Computation, str, dict[str, Instruction]]] = []
        # The inline computations of the computation that is being read: each with its name and with its
        # instructions by their names in the text.
        self.invents_operands = False  # in a text of instructions only, unknown operands are parameters
        self.has_stack_frames = False  # without the table, stack frame ids mean nothing
        self._locations: dict[str, SourceLocation | None] = {}

    # One instruction.

    def instruction(self) -> tuple[Instruction, bool]:
        """Reads an instruction into the target; returns it and whether it is marked as ROOT."""
        found = self.match(_FAST)
        if found is not None:
            shape = self._shapes.get(found[3])
            if shape is None:
                end, self.pos = self.pos, found.start(3)
                shape = self.shape()
                if self.pos != found.end(3):
                    self.fail(f"expected an opcode, found {self.saw()}")
                self.pos = end
            opcode, opcode_at = found[4], found.start(4)
        else:
            found = self.match(_START)
            if found is None:
                self._fail_at_start()
            shape = self.shape() if self.looks_like_shape() else None
            opcode, opcode_at = self._opcode()
        name, at = found[2], found.start(2)
        if name in self.scope:
            self.fail(f"there is an instruction '{name}' already in this computation", at)
        inst = self._apply(name, shape, opcode, opcode_at)
        self.scope[name] = inst
        self.module.lines[inst.id] = self.line_of(at)
        return inst, found[1] is not None

    def _fail_at_start(self):
        if self.match(ascii_regex(BLANK + r"(?:ROOT\b)?" + BLANK + f"%?{NAME}")) is None:
            self.fail(f"expected the name of an instruction, found {self.saw()}")
        self.fail(f"expected '=' after the name of an instruction, found {self.saw()}")

    def _opcode(self) -> tuple[str, int]:
        at = self.skip()
        found = self.match(_WORD_BEFORE_PAREN)
        if found is None:
            word = self.word("an opcode")
            if not asynchronous.is_opcode(word):
                self.fail(unknown(word), at)
            self.fail(f"expected '(' to begin the operands of {word}, found {self.saw()}")
        return found[1], found.start(1)

    def _apply(self, name: str, shape: AnyShape | None, opcode: str, at: int) -> Instruction:
        """Reads operands and attributes, after `opcode(`, and adds the instruction to the target."""
        if opcode not in OPS and asynchronous.is_short_form(opcode):
            return self.short_form(name, shape, opcode, at)
        cls = declared(opcode)
        if cls is None:
            self.fail(unknown(opcode), at)
        fields: dict[str, Any] = {}
        operands: tuple[Instruction, ...] = ()
        if cls is Constant:
            if shape is None:
                self.fail("the shape of a constant must be written", at)
            shape = unpacked(shape)
            fields["literal"] = read_literal(self, shape)
            self.expect(")", "to end the constant")
        elif cls is Parameter:
            fields["parameter_number"] = self._parameter_number()
        else:
            operands = self.operands()
        schema = schema_of(cls)
        extra = self.attributes(schema, fields, opcode)
        inst = self.checked(schema, fields, operands, shape, name, extra, at)
        if cls is asynchronous.AsyncStart:
            asynchronous.share_with_called(inst)
        return inst

    def short_form(self, name: str, shape: AnyShape | None, opcode: str, at: int) -> Instruction:
        """Reads an instruction of an asynchronous call in short form, after `opcode(`; Parser implements
        it.
        """
        raise NotImplementedError

    def checked(
        self, schema: Schema, fields: dict[str, Any], operands: tuple[Instruction, ...],
        shape: AnyShape | None, name: str, extra: Extra, at: int,
    ) -> Instruction:  # fmt: skip
        """Adds an instruction to the target if its operand count is right and no attribute is missing; else
        raises ParseError. The arguments are those of `build`.
        """
        opcode = schema.op.opcode
        if not schema.least <= len(operands) <= schema.most:
            self.fail(f"{opcode} takes {_count(schema)}, found {len(operands)}", at)
        if operands and opcode in _UNWRITTEN_ATTRIBUTES:
            self._unwritten_attributes(opcode, fields, operands[0].shape, at)
        for field, text in schema.required:
            if field not in fields:
                self.fail(f"{opcode} needs the attribute {text}", at)
        return self.build(schema, fields, operands, shape, name, extra, at)

    def _unwritten_attributes(self, opcode: str, fields: dict[str, Any], operand: AnyShape, at: int) -> None:
        rank = operand.rank if isinstance(operand, Shape) else 0
        if opcode == "outfeed":
            fields.setdefault("outfeed_shape", operand)
        elif opcode == "map":
            fields["dimensions"] = tuple(range(rank))  # whatever the text says
        elif opcode != "broadcast":
            if not rank:
                fields.setdefault("window", Window(()))
        elif rank and "dimensions" not in fields:
            self.fail(f"broadcast of {show(operand)} needs the attribute dimensions", at)

    def build(
        self, schema: Schema, fields: dict[str, Any], operands: tuple[Instruction, ...],
        shape: AnyShape | None, name: str, extra: Extra, at: int,
    ) -> Instruction:  # fmt: skip
        """Adds an instruction of the op class in `schema` to the target. `fields` are the attributes of the
        op; `at` is the position in error messages. A missing shape is inferred, with the natural layout.
        Raises ParseError if the op, the operands and the shape do not fit together.
        """
        cls = schema.op
        if cls.effect == "transfers" and shape is not None:
            shape = transfer_shape(cls.opcode, operands, shape)
        if cls.holds_shape:
            if shape is None:
                shape = self._inferred_shape(cls, fields, operands, at)
            fields["shape"] = shape
        try:
            op = cls(**fields)
            plain = PLAIN_FORMS.get(cls.opcode)
            if plain is not None:
                op = plain(self, op, operands, at)
            if shape is None:
                shape = with_natural_layout(op, operands, op.infer(*[o.shape for o in operands]))
        except ShapeError as error:
            self.fail(error.message, at)
        if extra.sharding and isinstance(shape, TupleShape):
            extra = replace(extra, sharding=extra.sharding.of_leaves(shape.leaf_count))
        return self.target.add(op, operands, shape, name=name, extra=extra)

    def _inferred_shape(
        self, cls: type[Op], fields: dict[str, Any], operands: tuple[Instruction, ...], at: int
    ) -> AnyShape:
        """Infers the shape of an op that has a field `shape`, where the text omits the shape."""
        if not hasattr(cls, "of") or not all(isinstance(o.shape, Shape) for o in operands):
            self.fail(f"the shape of {cls.opcode} does not follow from its operands: it must be written", at)
        try:
            return cls.of(*[o.shape for o in operands[:2]], **fields).shape  # type: ignore[attr-defined]
        except ShapeError as error:
            self.fail(error.message, at)

    def _parameter_number(self) -> int:
        at = self.skip()
        number = self.integer("the number of the parameter")
        if number < 0:
            self.fail(f"the number of a parameter must be at least 0, found {number}", at)
        self.expect(")", "after the number of the parameter")
        if any(op_of(p, Parameter).parameter_number == number for p in self.target.parameters[-1:]):
            self.fail(f"there is a parameter {number} already in this computation", at)
        return number

    # Operands.

    def operands(self) -> tuple[Instruction, ...]:
        """Reads operands up to and including the closing parenthesis."""
        found = _OPERANDS.match(self.text, self.pos)
        if found is not None:
            inside = found[1]
            if inside is None:
                self.pos = found.end()
                return ()
            if "/" in inside:
                names = [n for n in _OPERAND_NAME.findall(inside) if n]
            else:
                names = [n.strip().lstrip("%") for n in inside.split(",")]
            scope = self.scope
            try:
                operands = tuple([scope[n] for n in names])
            except KeyError:
                pass  # the loop below reports the unknown name, or makes a parameter of it
            else:
                self.pos = found.end()
                return operands
        if self.accept(")"):
            return ()
        result = [self._operand()]
        while self.accept(","):
            result.append(self._operand())
        self.expect(")", "or ',' after an operand")
        return tuple(result)

    def _operand(self) -> Instruction:
        """Reads `[shape] %name`, or an instruction instead of the name; returns the operand."""
        at = self.skip()
        shape = None
        if self.looks_like_shape():
            shape = self.shape()
            self.accept(",")  # XLA accepts a comma after the shape, too
        if _WORD_BEFORE_PAREN.match(self.text, self.pos):
            opcode, opcode_at = self._opcode()
            with self.inside("inline instructions"):
                inst = self._apply(f"{opcode}.anon", shape, opcode, opcode_at)
            self.scope[inst.name] = inst
            return inst
        found = self.take(_OPERAND, "an operand")
        name, *path = found[2].split("#")
        inst = self.scope.get(name)
        if inst is None:
            inst = self._missing_operand(name, shape, found.start(2))
        for index in path:
            inst = self._element(inst, self.as_int64(index, found.start(2)), found.start(2))
        if shape is not None and not compatible(shape, inst.shape):
            declared = f"operand {name} is written with the shape {show(shape)}"
            self.fail(f"{declared}, but has the shape {show(inst.shape)}", at)
        return inst

    def _missing_operand(self, name: str, shape: AnyShape | None, at: int) -> Instruction:
        if not self.invents_operands or shape is None:
            self.fail(f"there is no instruction '{name}' before this one", at)
        computation = self.target
        inst = computation.add(Parameter(shape, len(computation.parameters)), name=name)
        self.scope[name] = inst
        return inst

    def _element(self, inst: Instruction, index: int, at: int) -> Instruction:
        """Adds a get-tuple-element for `%name#2`, an element of the tuple `inst`."""
        if not isinstance(inst.shape, TupleShape):
            self.fail(f"{inst.name}#{index}: {inst.name} is not a tuple", at)
        if index >= len(inst.shape.elements):
            self.fail(f"{inst.name}#{index}: the tuple has {len(inst.shape.elements)} elements", at)
        return self.target.add(GetTupleElement(index), (inst,))

    # Attributes.

    def attributes(self, schema: Schema, fields: dict[str, Any], opcode: str) -> Extra:
        """Reads all `, name=value`. Writes the attributes of the op to `fields`, and returns the attributes
        that every instruction may have.
        """
        common: dict[str, Any] = {}
        more: dict[str, str] = {}
        while (found := self.match(_ATTRIBUTE)) is not None:
            text = found[1]
            if text in schema.readers:
                (field, read), into = schema.readers[text], fields
            elif text in COMMON:
                (field, read), into = COMMON[text], common
            elif text in TEXT_ATTRIBUTES or (opcode, text) in PRINTED_ATTRIBUTES:
                field, read, into = text, InstructionCursor.plain_text, more
            else:
                hint = did_you_mean(text, [*schema.readers, *COMMON, *TEXT_ATTRIBUTES])
                self.fail(f"{opcode} has no attribute '{text}'{hint}", found.start(1))
            if field in into:
                self.fail(f"{opcode} has two attributes {text}", found.start(1))
            into[field] = read(self)
        if more:
            common["more"] = tuple(more.items())
        return Extra(**common) if common else NO_EXTRA

    def plain_text(self) -> str:
        """Reads the text of an attribute that has no codec."""
        return _BETWEEN_BRACES.sub("}, {", self.raw())

    def computation(self) -> Computation:
        """Reads the name of a computation, or a computation in braces."""
        at = self.skip()
        if self.text.startswith("{", at):
            return self.inline_computation()
        name = self.name("a computation")
        found = self.computations.get(name)
        if found is None:
            self.fail(f"there is no computation '{name}' before this one", at)
        return found

    def inline_computation(self) -> Computation:
        """Reads a computation in braces, the value of an attribute; Parser implements it."""
        raise NotImplementedError

    def location(self) -> SourceLocation | None:
        """Reads the value of metadata={op_type="..." op_name="..." source_file="..." source_line=3 ...}."""
        found = self.match(_METADATA)
        if found is None:
            self.expect("{", "to begin the metadata")
            self.raw()
            self.fail("the metadata do not end")
        text = found[1]
        if text not in self._locations:
            end, self.pos = self.pos, found.start(1) + 1
            self._locations[text] = self._read_location(end - 1)
            self.pos = end
        return self._locations[text]

    def _read_location(self, end: int) -> SourceLocation | None:
        fields: dict[str, Any] = {}
        more: dict[str, str] = {}
        while (found := self.match(_METADATA_ENTRY)) is not None and self.pos <= end:
            key, value, at = found[1], found[2], found.start(1)
            if key not in METADATA_KEYS:
                self.fail(f"metadata have no '{key}'", at)
            if key in fields or key in more:
                self.fail(f"metadata have two '{key}'", at)
            kind = METADATA_KEYS[key]
            if kind is not None and (value[0] == '"') != (kind is str):
                message = f"{key} must be {'a string' if kind is str else 'a number'}, found {value[:40]}"
                self.fail(message, found.start(2))
            if key in _PLAIN_KEYS:
                fields[key] = unescape(value[1:-1]) if kind is str else self.as_int64(value, found.start(2))
            elif key != "stack_frame_id" or self.has_stack_frames or self.exact:
                more[key] = value
        self.pos = min(self.pos, end)
        if self.skip() != end:
            self.fail(f"expected name=value in metadata, found {self.saw()}")
        ordered = tuple((k, more[k]) for k in METADATA_KEYS if k in more)
        return SourceLocation(**fields, more=ordered) if fields or ordered else None

    def sharding(self) -> Sharding | None:
        """Reads a sharding in braces; an empty one is None."""
        at = self.skip()
        text = self.raw()
        if not text.startswith("{"):
            self.fail("expected '{' to begin the sharding", at)
        try:
            return read_sharding(text[1:-1])
        except InvalidArgument as error:
            self.fail(error.message, at)

    def named_values(self) -> tuple[tuple[str, str], ...]:
        """Reads {name="value", other={...}}; the result is sorted by name, as in XLA."""
        pairs: dict[str, str] = {}

        def one() -> None:
            name = self.word("the name of a frontend attribute")
            self.expect("=")
            pairs[name] = self.quoted_or_braced()

        self.listed("{", one, "}")
        return tuple(sorted(pairs.items()))

    def quoted_or_braced(self) -> str:
        """Reads a string in quotes, or a value in braces as text."""
        if self.peek('"'):
            return self.quoted()
        if not self.peek("{"):
            self.fail(f"expected a string or a value in braces, found {self.saw()}")
        return self.raw()

    def control_predecessors(self) -> tuple[Instruction, ...]:
        """Reads a list of instruction names in braces. Raises ParseError for a name that is not defined
        yet.
        """

        def one() -> Instruction:
            at = self.skip()
            name = self.name("an instruction")
            if name not in self.scope:
                self.fail(f"there is no instruction '{name}' before this one", at)
            return self.scope[name]

        return tuple(self.listed("{", one, "}"))


def read_attribute(attribute: Attribute, text: str) -> Any:
    """Parses the value of an attribute; raises ParseError for malformed text."""
    cursor = InstructionCursor(text)
    value = codec_of(attribute.type).decode(cursor)
    cursor.end(f"the attribute {attribute.text}")
    return value


COMMON: dict[str, tuple[str, Callable[[InstructionCursor], Any]]] = {
    "metadata": ("location", InstructionCursor.location),
    "sharding": ("sharding", InstructionCursor.sharding),
    "frontend_attributes": ("frontend_attributes", InstructionCursor.named_values),
    "backend_config": ("backend_config", InstructionCursor.quoted_or_braced),
    "control-predecessors": ("control_predecessors", InstructionCursor.control_predecessors),
}
"""Attributes of every instruction: the field of Extra and the reader."""

TEXT_ATTRIBUTES = ("origin", "original_value", "parameter_replication", "result_accuracy", "statistics")
"""Attributes that no op declares: they are kept as text."""

PRINTED_ATTRIBUTES = {("copy-start", "output_to_operand_aliasing")}
"""Attributes that XLA prints on ops that do not declare them (an async-start of a copy): kept as text."""

METADATA_KEYS: dict[str, type | None] = {
    "op_type": str, "op_name": str, "source_file": str, "source_line": int, "source_end_line": int,
    "source_column": int, "source_end_column": int, "profile_type": None, "deduplicated_name": str,
    "metadata_payload": None, "stack_frame_id": int, "scheduling_name": str,
}  # fmt: skip
"""Entries of metadata, in the order in which they are printed, and their types."""

_UNWRITTEN_ATTRIBUTES = ("map", "broadcast", "reduce-window", "select-and-scatter", "outfeed")
_PLAIN_KEYS = ("op_type", "op_name", "source_file", "source_line")


def _count(schema: Schema) -> str:
    if schema.most > 1 << 60:
        return f"at least {schema.least} operands"
    if schema.least != schema.most:
        return f"{schema.least} to {schema.most} operands"
    return f"{schema.least} operand{'' if schema.least == 1 else 's'}"
