"""Converts the attributes of ops to fields of messages and back: a pair of functions per type, as in
`text.attributes`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import ParseError, UnsupportedError
from axla.core.literal import Literal
from axla.core.regex import regex
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir import attributes
from axla.ir.devices import ReplicaGroups
from axla.ir.graph import Instruction
from axla.proto import sharding
from axla.proto.schema import Field
from axla.proto.values import literal_message, read_literal
from axla.text.literal_printer import literal_text
from axla.text.literals import read_literal as parse_literal
from axla.text.shapes import ShapeCursor

Proto = dict[str, Any]


@dataclass(slots=True)
class Around:
    """The context for converting an attribute: the converter of shapes, and the operands of the
    instruction.
    """

    shapes: Any  # ShapeReader or ShapeWriter
    operands: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldCodec:
    """Converts the value of a field to an attribute (`read`), and back (`write`)."""

    read: Callable[[Any, Around], Any]
    write: Callable[[Any, Around], Any]


@dataclass(frozen=True, slots=True)
class Whole:
    """Converts an attribute that is stored in several fields of a message: `read` takes the message and
    `write` changes it.
    """

    fields: tuple[str, ...]
    read: Callable[[Proto, Around], Any]
    write: Callable[[Any, Proto, Around], None]


def _same(value: Any, around: Around) -> Any:
    return value


def _tuple(value: Any, around: Around) -> tuple:
    return tuple(value)


def _list(value: Any, around: Around) -> list:
    return list(value)


def _rows(name: str, ours: tuple[str, ...], theirs: tuple[str, ...], cls: type) -> FieldCodec:
    """A codec between an attribute whose fields are columns (a window has sizes, strides...) and a list of
    messages that are rows (one for each dimension of the Window message). `ours` are the names of the
    columns, `theirs` the names of the same numbers in a row; `name` is the field with the list, "" if the
    list itself is the value. `cls` is the class of the attribute.
    """

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

    return FieldCodec(read, write)


def _read_conv(value: Proto, around: Around) -> attributes.ConvDims:
    numbers: dict[str, Any] = {}
    for name, label in attributes.CONVOLUTION_DIMENSIONS.items():
        several = name.endswith("dimensions")
        numbers[label] = value.get(name, [] if several else 0)
        if max(numbers[label] if several else [numbers[label]], default=0) > 63:
            raise ParseError(f"convolution_dimension_numbers: a dimension is above 63: {value}")
    return attributes.ConvDims.of(**numbers)


def _write_conv(value: attributes.ConvDims, around: Around) -> Proto:
    message: Proto = {}
    for name, label in attributes.CONVOLUTION_DIMENSIONS.items():
        dims = getattr(value, label)
        message[name] = list(dims) if name.endswith("dimensions") else dims
    return message


def _read_precisions(value: Any, around: Around) -> tuple[attributes.Precision, ...]:
    found = tuple(attributes.Precision(str(name).lower()) for name in value)
    return found if any(p is not attributes.Precision.DEFAULT for p in found) else ()


_ALIAS = ("output_shape_index", "operand_index", "operand_shape_index")


def _read_aliases(value: Any, around: Around) -> tuple[attributes.OutputAlias, ...]:
    output, operand, index = _ALIAS
    return tuple(
        attributes.OutputAlias(tuple(a.get(output, ())), a.get(operand, 0), tuple(a.get(index, ())))
        for a in value
    )


def _write_aliases(value: Any, around: Around) -> list[Proto]:
    return [dict(zip(_ALIAS, (list(a.output), a.operand, list(a.index)), strict=True)) for a in value]


def _read_literal(message: Proto, around: Around) -> attributes.RawText | None:
    if "literal" not in message:
        return None
    literal = read_literal(message["literal"], around.shapes.shape)
    parts = literal.elements if literal.shape.is_tuple else (literal,)
    texts = ", ".join(f"{p.shape} {literal_text(p)}" for p in parts)
    return attributes.RawText(f"( {texts} )" if literal.shape.is_tuple else texts)


def _write_literal(value: str, message: Proto, around: Around) -> None:
    cursor = ShapeCursor(value)
    many = cursor.accept("(")  # XLA writes each element of a tuple with its shape
    parts = [parse_literal(cursor, cursor.shape())] if not many or not cursor.peek(")") else []
    while cursor.accept(","):
        parts.append(parse_literal(cursor, cursor.shape()))
    literal = Literal(TupleShape([p.shape for p in parts]), elements=parts) if many else parts[0]
    message["literal"] = literal_message(literal, around.shapes.shape)


_SIDE = regex(r"(lhs|rhs)=\{sparsity=(\d+)x(\d+) dimension=(\d+) stride=(\d+)\}")
_STORED = ("num_non_zero", "block_size", "dimension", "stride")


def _read_sparsity(message: Proto, around: Around) -> attributes.RawText | None:
    found = message.get("sparsity_config", {})
    sides = [(s, *[found[s].get(name, 0) for name in _STORED]) for s in ("lhs", "rhs") if s in found]
    texts = [f"{s}={{sparsity={a}x{b} dimension={c} stride={d}}}" for s, a, b, c, d in sides]
    return attributes.RawText("{" + " ".join(texts) + "}") if texts else None


def _write_sparsity(value: str, message: Proto, around: Around) -> None:
    sides = _SIDE.findall(value)
    message["sparsity_config"] = {s: dict(zip(_STORED, map(int, n), strict=True)) for s, *n in sides}


def _read_constraints(message: Proto, around: Around) -> tuple[AnyShape, ...] | None:
    found = message.get("operand_shapes_with_layout", ())
    return tuple(map(around.shapes.shape, found)) if message.get("constrain_layout") else None


def _write_constraints(value: tuple[AnyShape, ...], message: Proto, around: Around) -> None:
    message["constrain_layout"] = True
    message["operand_shapes_with_layout"] = [around.shapes.shape(s) for s in value]


def _read_slice_sizes(value: Any, around: Around) -> tuple[tuple[int, ...], ...]:
    """Splits a list with the sizes of all slices, one slice after the other, into slices. The rank of a slice
    is that of the first array among the operands.
    """
    first = around.operands[0].shape if around.operands else None
    first = next(iter(first.leaves()), None) if first is not None else None
    rank = first.rank if isinstance(first, Shape) and first.rank else 1
    return tuple(tuple(value[n : n + rank]) for n in range(0, len(value), rank))


CODECS: dict[Any, FieldCodec] = {
    int: FieldCodec(_same, _same),
    attributes.Single: FieldCodec(_same, _same),
    bool: FieldCodec(_same, _same),
    str: FieldCodec(lambda v, a: v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v, _same),
    tuple[int, ...]: FieldCodec(_tuple, _list),
    tuple[tuple[int, ...], ...]: FieldCodec(_read_slice_sizes, lambda v, a: [n for one in v for n in one]),
    tuple[attributes.Precision, ...]: FieldCodec(_read_precisions, lambda v, a: [p.upper() for p in v]),
    AnyShape: FieldCodec(lambda v, a: a.shapes.shape(v), lambda v, a: a.shapes.shape(v)),
    tuple[AnyShape, ...]: FieldCodec(
        lambda v, a: tuple(map(a.shapes.shape, v)), lambda v, a: [a.shapes.shape(s) for s in v]
    ),
    attributes.Window: _rows(
        "dimensions",
        ("size", "stride", "low", "high", "window_dilation", "base_dilation", "reversal"),
        (
            "size", "stride", "padding_low", "padding_high", "window_dilation", "base_dilation",
            "window_reversal",
        ),
        attributes.Window,
    ),
    attributes.PaddingConfig: _rows(
        "dimensions", ("low", "high", "interior"),
        ("edge_padding_low", "edge_padding_high", "interior_padding"), attributes.PaddingConfig,
    ),
    attributes.SliceDims: _rows(
        "", ("starts", "limits", "strides"), ("start", "limit", "stride"), attributes.SliceDims,
    ),
    attributes.ConvDims: FieldCodec(_read_conv, _write_conv),
    tuple[attributes.OutputAlias, ...]: FieldCodec(_read_aliases, _write_aliases),
}  # fmt: skip
"""The codecs by type of attribute. Those of enumerations and words are made by `codec_of`."""

WHOLE: dict[Any, Whole] = {
    ReplicaGroups: Whole(sharding.GROUP_FIELDS, sharding.read_groups, sharding.write_groups),
    attributes.SourceTargetPairs: Whole(("source_target_pairs",), sharding.read_pairs, sharding.write_pairs),
    "domain": Whole(sharding.DOMAIN_FIELDS, sharding.read_domain, sharding.write_domain),
    "literal": Whole(("literal",), _read_literal, _write_literal),
    "sparsity_config": Whole(("sparsity_config",), _read_sparsity, _write_sparsity),
    "operand_layout_constraints": Whole(
        ("operand_shapes_with_layout", "constrain_layout"), _read_constraints, _write_constraints
    ),
}
"""The codecs of attributes that are stored in several fields, by the attribute's type or name."""


def codec_of(type_: Any, field: Field) -> FieldCodec:
    """The codec for attributes of the type `type_` that are stored in `field`."""
    if isinstance(type_, type) and issubclass(type_, enum.StrEnum):
        return _enum_codec(type_, field)
    if type_ is attributes.Word:
        return _word_codec(field)
    if type_ is bool and field.enum is not None:
        return FieldCodec(lambda v, a: v == "TRI_STATE_TRUE", lambda v, a: f"TRI_STATE_{str(v).upper()}")
    return CODECS[AnyShape if type_ is Shape else type_]


def _enum_codec(type_: type[enum.StrEnum], field: Field) -> FieldCodec:
    upper = field.enum is not None

    def read(value: Any, around: Around) -> enum.StrEnum:
        for name in (str(value), str(value).lower()):
            if name in type_.__members__.values():
                return type_(name)
        raise ParseError(f"{field.name}: {value} is not one of {', '.join(type_)}")

    return FieldCodec(read, lambda value, around: value.upper() if upper else str(value))


def _word_codec(field: Field) -> FieldCodec:
    prefix, numbers = PREFIXES.get(field.name, ""), field.enum.numbers if field.enum else {}

    def read(value: Any, around: Around) -> attributes.Word | None:
        return attributes.Word(str(value).removeprefix(prefix).lower()) if numbers.get(value) != 0 else None

    def write(value: str, around: Around) -> str:
        name = prefix + value.upper()
        if name not in numbers:
            raise UnsupportedError(f"{value} is not a value of {field.name} in XLA's protos")
        return name

    return FieldCodec(read, write)


PREFIXES = {"algorithm": "ALG_", "conv_kind": "CONVOLUTION_KIND_"}
"""Prefixes of the names of values of an enumeration, which protos have and HLO text does not."""
