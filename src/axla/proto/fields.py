"""Attributes of ops <-> fields of HloInstructionProto: where each one is, and one pair of functions per type.

`schema_of(op)` gives what reads and writes all attributes of an op, made of its declaration and of the tables
here; no op has code of its own. An attribute lies in the field of its name in HLO text, or where PLACES says.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from functools import cache
from typing import Any

from axla.core.errors import ParseError, ShapeError, UnsupportedError
from axla.core.shape import AnyShape, Shape
from axla.hlo.asynchronous import MAIN
from axla.ir.attributes import (
    CompareType,
    ConvDims,
    OutputAlias,
    PaddingConfig,
    Precision,
    RawText,
    ReplicaGroups,
    SliceDims,
    SourceTargetPairs,
    Window,
    Word,
)
from axla.ir.codec import codec_of
from axla.ir.graph import Instruction
from axla.ir.literal_text import literal_text
from axla.ir.op import Attribute, Op
from axla.proto import sharding
from axla.proto.schema import TABLES
from axla.proto.values import literal_message, read_literal
from axla.text.instructions import InstructionCursor
from axla.text.literals import read_literal as parse_literal
from axla.text.shapes import ShapeCursor

Proto = dict[str, Any]

_DOT = "dot_dimension_numbers"
PLACES = {
    "direction": "comparison_direction", "type": "comparison_type", "kind": "fusion_kind",
    "index": "tuple_index", "dim_labels": "convolution_dimension_numbers", "convolution_kind": "conv_kind",
    "slice": "slice_dimensions",
    "padding": "padding_config", "iota_dimension": "dimensions", "inferred_dimension": "dimensions",
    "operand_precision": "precision_config.operand_precision", "algorithm": "precision_config.algorithm",
    "schedule": "custom_call_schedule", "api_version": "custom_call_api_version",
    "output_to_operand_aliasing": "output_operand_aliasing",
    "transpose_a": "triangular_solve_options.transpose_a",
    "operand_layout_constraints": "operand_shapes_with_layout",
    "lhs_batch_dims": f"{_DOT}.lhs_batch_dimensions", "rhs_batch_dims": f"{_DOT}.rhs_batch_dimensions",
    "lhs_contracting_dims": f"{_DOT}.lhs_contracting_dimensions",
    "rhs_contracting_dims": f"{_DOT}.rhs_contracting_dimensions",
    "lhs_ragged_dims": "ragged_dot_dimension_numbers.lhs_ragged_dimensions",
    "rhs_group_dims": "ragged_dot_dimension_numbers.rhs_group_dimensions",
}  # fmt: skip
"""By an attribute's name in HLO text; an op may have a place of its own for it, in PLACES_OF."""


def _inside(field: str, names: str) -> dict[str, str]:
    return {name: f"{field}.{name}" for name in names.split()}


PLACES_OF: dict[str, dict[str, str]] = {
    "rng-bit-generator": {"algorithm": "rng_algorithm"},
    "cholesky": {"lower": "cholesky_options.lower"},
    "triangular-solve": _inside("triangular_solve_options", "left_side lower unit_diagonal"),
    "collective-permute": {"slice_sizes": "dynamic_slice_sizes"},
    "collective-permute-start": {"slice_sizes": "dynamic_slice_sizes"},
    "gather": {"slice_sizes": "gather_slice_sizes"}
    | _inside(
        "gather_dimension_numbers",
        "offset_dims collapsed_slice_dims start_index_map index_vector_dim operand_batching_dims "
        "start_indices_batching_dims",
    ),
    "scatter": _inside(
        "scatter_dimension_numbers",
        "update_window_dims inserted_window_dims scatter_dims_to_operand_dims index_vector_dim "
        "input_batching_dims scatter_indices_batching_dims",
    ),
    "ragged-dot": {
        name: f"ragged_dot_dimension_numbers.{PLACES[name]}"
        for name in ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    },
}

PREFIXES = {"algorithm": "ALG_", "conv_kind": "CONVOLUTION_KIND_"}
"""What the names of an enumeration's values begin with, and those in HLO text do not."""

ABSENT = {
    "feature_group_count": 1, "batch_group_count": 1, "inferred_dimension": -1,
    "async_execution_thread": MAIN,
}  # fmt: skip
"""What it means that a field is not there, where that is not the zero of its type."""

BODY_FIRST = {"while": ("body", "condition")}
"""The order of called computations, where it is not that of the op's fields."""

UNREAD = {"async-update", "async-done"}
"""Ops that repeat what another one says: nothing of it is read or written."""


@dataclass(slots=True)
class Around:
    """What a conversion may need besides the attribute: shapes, and the instruction's operands."""

    shapes: Any  # ShapeReader or ShapeWriter
    operands: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class Codec:
    """From the value of a field to an attribute and back; of `whole` ones, from and into all the fields."""

    read: Callable[[Any, Around], Any]
    write: Callable[[Any, Any], Any]  # a whole one is given the message
    fields: tuple[str, ...] = ()  # of a whole one: what it looks at


def _same(value: Any, around: Around) -> Any:
    return value


def _tuple(value: Any, around: Around) -> tuple:
    return tuple(value)


def _list(value: Any, around: Around) -> list:
    return list(value)


def _rows(name: str, ours: tuple[str, ...], theirs: tuple[str, ...], cls: type) -> Codec:
    """Columns in ours, rows in theirs: a window has sizes, strides...; a Window has dimensions."""

    def read(value: Any, around: Around) -> Any:
        rows = value.get(name, ()) if name else value
        columns = {
            our: tuple(int(row.get(their, 0)) for row in rows)
            for our, their in zip(ours, theirs, strict=True)
        }
        if "reversal" in columns:
            columns["reversal"] = tuple(map(bool, columns["reversal"]))
        return cls(**columns)

    def write(value: Any, around: Around) -> Any:
        columns = zip(*(getattr(value, our) for our in ours), strict=True)
        rows = [dict(zip(theirs, row, strict=True)) for row in columns]
        return {name: rows} if name else rows

    return Codec(read, write)


_CONV = {
    "input": ("bf", "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    "kernel": (
        "io", "kernel_input_feature_dimension", "kernel_output_feature_dimension",
        "kernel_spatial_dimensions",
    ),
    "output": ("bf", "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
}  # fmt: skip


def _read_conv(value: Proto, around: Around) -> ConvDims:
    numbers: dict[str, Any] = {}
    for side, (letters, first, second, spatial) in _CONV.items():
        names = ("batch", "feature") if letters == "bf" else ("input", "output")
        numbers |= {f"{side}_{names[0]}": value.get(first, 0), f"{side}_{names[1]}": value.get(second, 0)}
        numbers[f"{side}_spatial"] = value.get(spatial, [])
        if max(value.get(first, 0), value.get(second, 0), *value.get(spatial, []), 0) > 63:
            raise ParseError(f"convolution_dimension_numbers name dimensions above 63: {value}")
    return ConvDims.of(**numbers)


def _write_conv(value: ConvDims, around: Around) -> Proto:
    message: Proto = {}
    for side, (letters, first, second, spatial) in _CONV.items():
        labels = getattr(value, side)
        message[first], message[second] = (labels.index(letter) for letter in letters)
        message[spatial] = list(getattr(value, f"{side}_spatial"))
    return message


def _read_precisions(value: Any, around: Around) -> tuple[Precision, ...]:
    found = tuple(Precision(str(name).lower()) for name in value)
    return found if any(p is not Precision.DEFAULT for p in found) else ()


def _read_aliases(value: Any, around: Around) -> tuple[OutputAlias, ...]:
    return tuple(
        OutputAlias(
            tuple(a.get("output_shape_index", ())), a.get("operand_index", 0),
            tuple(a.get("operand_shape_index", ())),
        )
        for a in value
    )  # fmt: skip


def _write_aliases(value: Any, around: Around) -> list[Proto]:
    return [
        {
            "output_shape_index": list(a.output), "operand_index": a.operand,
            "operand_shape_index": list(a.index),
        }
        for a in value
    ]  # fmt: skip


def _read_literal(value: Any, around: Around) -> RawText:
    literal = read_literal(value, around.shapes.shape)
    parts = literal.elements if literal.shape.is_tuple else (literal,)
    texts = [f"{p.shape.to_string()} {literal_text(p)}" for p in parts]
    return RawText(f"( {', '.join(texts)} )" if literal.shape.is_tuple else texts[0])


def _write_literal(value: str, around: Around) -> Proto:
    cursor = ShapeCursor(value)
    if cursor.accept("("):  # XLA writes the shape of each element
        from axla.core.literal import Literal
        from axla.core.shape import TupleShape

        parts = []
        while not cursor.accept(")"):
            parts.append(parse_literal(cursor, cursor.shape()))
            cursor.accept(",")
        literal = Literal(TupleShape([p.shape for p in parts]), elements=parts)
    else:
        literal = parse_literal(cursor, cursor.shape())
    return literal_message(literal, around.shapes.shape)


def _read_slice_sizes(value: Any, around: Around) -> tuple[tuple[int, ...], ...]:
    """All in one row there: the sizes of a slice for each dimension, slice after slice."""
    first = around.operands[0].shape if around.operands else None
    first = next(iter(first.leaves()), None) if first is not None else None
    rank = first.rank if isinstance(first, Shape) and first.rank else 1
    return tuple(tuple(value[n : n + rank]) for n in range(0, len(value), rank))


CODECS: dict[Any, Codec] = {
    int: Codec(_same, _same),
    float: Codec(_same, _same),
    bool: Codec(_same, _same),
    str: Codec(lambda v, a: v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v, _same),
    tuple[int, ...]: Codec(_tuple, _list),
    tuple[tuple[int, ...], ...]: Codec(_read_slice_sizes, lambda v, a: [n for one in v for n in one]),
    tuple[Precision, ...]: Codec(_read_precisions, lambda v, a: [p.upper() for p in v]),
    AnyShape: Codec(lambda v, a: a.shapes.shape(v), lambda v, a: a.shapes.shape(v)),
    tuple[AnyShape, ...]: Codec(
        lambda v, a: tuple(map(a.shapes.shape, v)), lambda v, a: [a.shapes.shape(s) for s in v]
    ),
    Window: _rows(
        "dimensions",
        ("size", "stride", "low", "high", "window_dilation", "base_dilation", "reversal"),
        (
            "size", "stride", "padding_low", "padding_high", "window_dilation", "base_dilation",
            "window_reversal",
        ),
        Window,
    ),
    PaddingConfig: _rows(
        "dimensions", ("low", "high", "interior"),
        ("edge_padding_low", "edge_padding_high", "interior_padding"), PaddingConfig,
    ),
    SliceDims: _rows("", ("starts", "limits", "strides"), ("start", "limit", "stride"), SliceDims),
    ConvDims: Codec(_read_conv, _write_conv),
    tuple[OutputAlias, ...]: Codec(_read_aliases, _write_aliases),
}  # fmt: skip
"""By an attribute's type; enumerations and words are made when they are asked for."""

WHOLE: dict[Any, Codec] = {
    ReplicaGroups: Codec(
        lambda m, a: sharding.read_groups(m),
        sharding.write_groups,
        (
            "replica_groups", "collective_device_list", "iota_collective_device_list",
            "mesh_axes_replica_group_list",
        ),
    ),
    SourceTargetPairs: Codec(
        lambda m, a: sharding.read_pairs(m), sharding.write_pairs, ("source_target_pairs",)
    ),
}  # fmt: skip
"""Types that take several fields; `write` gets the value and the message."""


def _enum_codec(type_: type[enum.StrEnum], field: Any) -> Codec:
    upper = field.enum is not None

    def read(value: Any, around: Around) -> enum.StrEnum:
        for name in (str(value), str(value).lower()):
            if name in type_.__members__.values():
                return type_(name)
        raise ParseError(f"{value} is none of {', '.join(type_)}")

    return Codec(read, lambda value, around: value.upper() if upper else str(value))


def _word_codec(prefix: str, numbers: dict[str, int]) -> Codec:
    def read(value: Any, around: Around) -> Word | None:
        return Word(str(value).removeprefix(prefix).lower()) if numbers.get(value) != 0 else None

    def write(value: str, around: Around) -> str:
        name = prefix + value.upper()
        if name not in numbers:
            raise UnsupportedError(f"{value} has no number in XLA's protos")
        return name

    return Codec(read, write)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attribute is and how it is read and written there."""

    name: str  # the op's field
    path: tuple[str, ...]
    codec: Codec
    whole: bool
    one: bool  # a list there, its only element here
    absent: Any  # what it means that nothing is there
    optional: bool  # None here


@dataclass(frozen=True, slots=True)
class OpFields:
    """All that an op's message says besides operands."""

    places: tuple[Place, ...]
    other: tuple[Attribute, ...]  # XLA's protos have no field for these: in axla_attributes, as text
    called: tuple[str, ...]  # fields with computations, in the order of the message
    names: frozenset[str]  # the fields of the message that are read


_COMMON = frozenset(
    """
    name opcode shape metadata id operand_ids control_predecessor_ids called_computation_ids sharding
    backend_config frontend_attributes axla_attributes parameter_replication result_accuracy statistics_viz
    original_value
    """.split()  # noqa: SIM905
)


@cache
def fields_of(op: type[Op]) -> OpFields:
    """The places of an op's attributes, from its declaration."""
    names: set[str] = set(_COMMON)
    places, other = [], []
    for attribute in op.attributes:
        if attribute.name in op.computation_fields or attribute.name in _ELSEWHERE or op.opcode in UNREAD:
            continue
        place = _place(op, attribute)
        if place is None:
            other.append(attribute)
            continue
        places.append(place)
        names.update(place.codec.fields or (place.path[0],))
    own = {"constant": "literal", "parameter": "parameter_number"}.get(op.opcode)
    names |= {own} if own else set()
    if op.opcode == "custom-call":
        names |= {"literal", "constrain_layout"}
    if op.opcode == "domain":
        names |= {"domain_entry_sharding", "domain_exit_sharding"}
    called = BODY_FIRST.get(op.opcode, op.computation_fields)
    return OpFields(tuple(places), tuple(other), called, frozenset(names))


_ELSEWHERE = ("literal", "parameter_number", "domain")


def _place(op: type[Op], attribute: Attribute) -> Place | None:
    type_ = attribute.type
    optional = isinstance(type_, types.UnionType)
    if optional:
        [type_] = [t for t in typing.get_args(type_) if t is not type(None)]
    if type_ in WHOLE:
        return Place(attribute.name, (), WHOLE[type_], True, False, None, optional)
    text = attribute.text
    path = tuple(PLACES_OF.get(op.opcode, {}).get(text, PLACES.get(text, text)).split("."))
    table: Any = TABLES["HloInstructionProto"]
    for part in path[:-1]:
        table = table.fields[part].message
    field = table.fields.get(path[-1])
    if field is None:
        return None
    one = field.repeated and type_ is int
    if isinstance(type_, type) and issubclass(type_, enum.StrEnum):
        codec = _enum_codec(type_, field)
    elif type_ is Word:
        codec = _word_codec(PREFIXES.get(path[-1], ""), field.enum.numbers if field.enum else {})
    elif type_ is bool and field.enum is not None:
        codec = Codec(
            lambda v, a: v == "TRI_STATE_TRUE", lambda v, a: "TRI_STATE_TRUE" if v else "TRI_STATE_FALSE"
        )
    else:
        codec = CODECS[Shape if type_ is Shape else type_] if type_ is not Shape else CODECS[AnyShape]
    if text in ABSENT and not optional:
        absent = ABSENT[text]
    elif optional:
        absent = None
    else:
        absent = _zero(type_, field)
    return Place(attribute.name, path, codec, False, one, absent, optional)


def _zero(type_: Any, field: Any) -> Any:
    """The attribute of a message without the field."""
    if field.enum is not None and type_ is not bool and not field.repeated:
        return MISSING  # the name of number 0 is looked up when it is needed: some have none in HLO
    if isinstance(type_, type) and issubclass(type_, enum.StrEnum):
        return MISSING
    if typing.get_origin(type_) is tuple:
        return ()
    if type_ in (Window, SliceDims, PaddingConfig):
        return type_(*[()] * (1 if type_ is Window else 2))
    if type_ in (int, float, bool, str):
        return type_()
    return MISSING


def read_attributes(op: type[Op], message: Proto, around: Around) -> dict[str, Any]:
    """The attributes of an op, computations left out; ParseError for what cannot be one."""
    fields: dict[str, Any] = {}
    for place in fields_of(op).places:
        try:
            fields[place.name] = _read_place(place, message, around)
        except (ShapeError, ValueError, TypeError, OverflowError) as error:
            raise ParseError(f"{'.'.join(place.path)}: {error}") from None
    written = {e.get("key"): e.get("value", "") for e in message.get("axla_attributes", {}).get("map", ())}
    for attribute in fields_of(op).other:
        if attribute.text in written:
            fields[attribute.name] = codec_of(attribute.type).decode(
                InstructionCursor(written[attribute.text])
            )
    if op.opcode == "custom-call":
        constrained = message.get("constrain_layout")
        fields["operand_layout_constraints"] = (
            (fields["operand_layout_constraints"] or ()) if constrained else None
        )
    if op.opcode == "custom-call" and "literal" in message:
        fields["literal"] = _read_literal(message["literal"], around)
    if op.opcode == "domain":
        fields["domain"] = sharding.read_domain(message)
    return fields


def _read_place(place: Place, message: Proto, around: Around) -> Any:
    if place.whole:
        return place.codec.read(message, around)
    value: Any = message
    for part in place.path:
        value = value.get(part)
        if value is None:
            if place.absent is not MISSING:
                return place.absent
            field = TABLES["HloInstructionProto"].fields[place.path[0]]
            for name in place.path[1:]:
                field = field.message.fields[name]  # type: ignore[union-attr]
            if field.enum is None:
                raise ParseError(f"{place.path[-1]} is not there")
            value = field.enum.names[0]
            break
    if place.one:
        if len(value) > 1:
            raise ParseError(f"{place.path[-1]} has {len(value)} numbers, 1 is wanted")
        return value[0] if value else place.absent
    return place.codec.read(value, around)


def write_attributes(op: Op, message: Proto, around: Around) -> None:
    """Adds the fields that the attributes of an op are in."""
    for place in fields_of(type(op)).places:
        value = getattr(op, place.name)
        if value is None:
            continue
        if place.whole:
            place.codec.write(value, message)
            continue
        inner = message
        for part in place.path[:-1]:
            inner = inner.setdefault(part, {})
        if place.one:
            inner[place.path[-1]] = [value] if value != ABSENT.get(place.name) else []
        else:
            inner[place.path[-1]] = place.codec.write(value, around)
    other = [(a, getattr(op, a.name)) for a in fields_of(type(op)).other]
    if texts := [{"key": a.text, "value": codec_of(a.type).encode(v)} for a, v in other if v != a.default]:
        message["axla_attributes"] = {"map": texts}
    if op.opcode == "custom-call":
        if op.operand_layout_constraints is not None:  # type: ignore[attr-defined]
            message["constrain_layout"] = True
        if op.literal is not None:  # type: ignore[attr-defined]
            message["literal"] = _write_literal(op.literal, around)  # type: ignore[attr-defined]
    if op.opcode == "domain":
        sharding.write_domain(op.domain, message)  # type: ignore[attr-defined]
    if op.opcode == "compare" and "comparison_type" not in message:
        message["comparison_type"] = str(implied_type(around.operands[0].shape))


def implied_type(shape: AnyShape) -> CompareType:
    """As what `compare` compares operands of a shape, where the op does not say."""
    if isinstance(shape, Shape) and shape.dtype.is_inexact:
        return CompareType.FLOAT
    return CompareType.SIGNED if isinstance(shape, Shape) and shape.dtype.is_signed else CompareType.UNSIGNED
