"""Attributes as HLO text: a decoder and an encoder for each type.

`codec_of(type)` returns both for the annotation of an op's field; `X | None` has the codec of X. A decoder
reads from a `Reader`, the cursor of the parser. An encoder returns the text that XLA prints.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, ShapeError
from axla.core.regex import ascii_regex
from axla.core.shape import AnyShape, Shape
from axla.ir import attributes
from axla.ir.devices import Axis, IotaDevices, IotaGroups, Mesh, MeshAxes, ReplicaGroups
from axla.ir.graph import Computation
from axla.ir.op import attribute_type
from axla.text.strings import named_values, quote


class Marks(Protocol):
    """The methods of a cursor that decoders of numbers and names call."""

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises ParseError at a position, by default the current one."""
        ...

    def skip(self) -> int:
        """Skips blanks and comments; returns the position after them."""
        ...

    def accept(self, mark: str) -> bool:
        """Reads `mark` if it comes next; returns whether it did."""
        ...

    def expect(self, mark: str, where: str = "") -> None:
        """Reads `mark`; raises ParseError, with `where` in the message, if it does not come next."""
        ...

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Reads the text that matches `pattern`; returns None, without reading, if none does."""
        ...

    def take(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Reads the text that matches `pattern`, else raises ParseError; `what` names the wanted text in the
        message.
        """
        ...

    def integer(self, what: str = ...) -> int:
        """Reads an integer; `what` names it in error messages."""
        ...

    def as_int64(self, digits: str, at: int) -> int:
        """The number that `digits`, read at position `at`, stand for; raises ParseError unless it fits in 64
        bits.
        """
        ...

    def listed(self, opening: str, item: Callable[[], Any], closing: str) -> list[Any]:
        """Reads items separated by commas, between the marks `opening` and `closing`."""
        ...


class Reader(Marks, Protocol):
    """The methods of a parser that the decoders of all types call."""

    def peek(self, mark: str) -> bool:
        """Whether `mark` comes next; it is not read."""
        ...

    def word(self, what: str = ...) -> str:
        """Reads a bare word."""
        ...

    def real(self) -> float:
        """Reads a floating-point number."""
        ...

    def boolean(self) -> bool:
        """Reads a boolean."""
        ...

    def quoted(self) -> str:
        """Reads a string in quotes."""
        ...

    def integers(self) -> tuple[int, ...]:
        """Reads integers in braces."""
        ...

    def raw(self) -> str:
        """Reads the text of a value up to the next attribute, without interpreting it."""
        ...

    def shape(self) -> AnyShape:
        """Reads a shape."""
        ...

    def computation(self) -> Computation:
        """Reads the name of a computation that is already defined; returns the computation."""
        ...

    def named_values(self) -> tuple[tuple[str, str], ...]:
        """Reads `{name="value",...}`."""
        ...


@dataclass(frozen=True, slots=True)
class Codec:
    """The functions that read and write one type of attributes as HLO text."""

    decode: Callable[[Any], Any]
    encode: Callable[[Any], str]


def codec_of(type_: Any) -> Codec:
    """The codec for the annotation of an op's field. Raises InvalidArgument if the type has none."""
    found = CODECS.get(type_)
    if found is None:
        plain = attribute_type(type_)
        found = CODECS.get(plain) or Codec(lambda reader: _read_choice(reader, plain), str)
        CODECS[type_] = found
    return found


def _read_choice(reader: Reader, choices: type[enum.StrEnum]) -> enum.StrEnum:
    at = reader.skip()
    word = reader.word()
    try:
        return choices(word.lower() if choices is attributes.Precision else word)
    except ValueError:
        reader.fail(f"expected one of {', '.join(choices)}, found '{word}'", at)


# Numbers, names and lists of them.


def write_integers(values: tuple[int, ...]) -> str:
    """The text of a list of dimensions, such as `{1,2,3}`."""
    return "{" + ",".join(map(str, values)) + "}"


def _write_single(value: float) -> str:
    short = format(value, "g")
    return short if np.float32(short) == np.float32(value) else format(value, ".9g")


def _write_float(value: float) -> str:
    short = format(value, "g")
    return short if float(short) == value else repr(value)


def _list_of(item: Codec, separator: str) -> Codec:
    """A codec for tuples of items, written in braces; the text of tuples is printed with `separator` between
    the items.
    """
    return Codec(
        lambda reader: tuple(reader.listed("{", lambda: item.decode(reader), "}")),
        lambda values: "{" + separator.join(map(item.encode, values)) + "}",
    )


def _read_groups(reader: Reader) -> tuple[tuple[int, ...], ...]:
    return tuple(reader.listed("{", reader.integers, "}"))


def _write_groups(groups: tuple[tuple[int, ...], ...]) -> str:
    return "{" + ",".join(map(write_integers, groups)) + "}"


def _read_precisions(reader: Reader) -> tuple[attributes.Precision, ...]:
    found = tuple(reader.listed("{", lambda: _read_choice(reader, attributes.Precision), "}"))
    return found if any(p is not attributes.Precision.DEFAULT for p in found) else ()


# Windows, padding, slices.

_BLANK = r"\s*+"
_SIZES = ascii_regex(_BLANK + r"(-?\d++(?:x-?\d++)*+)")
_PADS = ascii_regex(_BLANK + r"(-?\d++_-?\d++(?:_\d++)?(?:x-?\d++_-?\d++(?:_\d++)?+)*+)")
_WINDOW_FIELDS = {
    "size": "size", "stride": "stride", "lhs_dilate": "base_dilation", "rhs_dilate": "window_dilation",
    "rhs_reversal": "reversal",
}  # fmt: skip


def _read_sizes(reader: Reader) -> tuple[int, ...]:
    found = reader.take(_SIZES, "sizes such as 3x3")
    return tuple(reader.as_int64(part, found.start(1)) for part in found[1].split("x"))


def _read_pads(reader: Reader) -> list[tuple[int, ...]]:
    found = reader.take(_PADS, "padding such as 0_1x1_0")
    return [
        tuple(reader.as_int64(n, found.start(1)) for n in part.split("_")) for part in found[1].split("x")
    ]


def _read_window(reader: Reader) -> attributes.Window:
    start = reader.skip()
    reader.expect("{", "to begin the window")
    fields: dict[str, tuple] = {}
    while not reader.accept("}"):
        at = reader.skip()
        key = reader.word("a field of the window, such as size or stride")
        reader.expect("=")
        if key in fields or (key == "pad" and "low" in fields):
            reader.fail(f"the window has two fields '{key}'", at)
        if key == "pad":
            pads = _read_pads(reader)
            if any(len(p) != 2 for p in pads):
                reader.fail("pad of a window takes two numbers per dimension", at)
            fields["low"], fields["high"] = (tuple(p[n] for p in pads) for n in (0, 1))
        elif key in _WINDOW_FIELDS:
            fields[_WINDOW_FIELDS[key]] = _read_sizes(reader)
        else:
            reader.fail(f"'{key}' is not a field of a window", at)
    if "reversal" in fields:
        # XLA lets the last values be left out.
        missing = len(fields.get("size", ())) - len(fields["reversal"])
        fields["reversal"] = tuple(map(bool, fields["reversal"])) + (False,) * missing
    if fields and "size" not in fields:
        reader.fail("the window has no size", start)
    return _checked(reader, start, lambda: attributes.Window(fields.pop("size", ()), **fields))


def _write_window(window: attributes.Window) -> str:
    def sizes(name: str, values: tuple[int, ...], default: int) -> str:
        return f"{name}={'x'.join(str(int(v)) for v in values)}" if any(v != default for v in values) else ""

    parts = [
        f"size={'x'.join(map(str, window.size))}" if window.size else "",
        sizes("stride", window.stride, 1),
    ]
    if any(window.low) or any(window.high):
        pads = zip(window.low, window.high, strict=True)
        parts.append("pad=" + "x".join(f"{low}_{high}" for low, high in pads))
    parts.append(sizes("lhs_dilate", window.base_dilation, 1))
    parts.append(sizes("rhs_dilate", window.window_dilation, 1))
    parts.append(sizes("rhs_reversal", window.reversal, False))
    return "{" + " ".join(p for p in parts if p) + "}"


def _checked(reader: Reader, at: int, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ShapeError as error:
        reader.fail(error.message, at)


def _read_padding(reader: Reader) -> attributes.PaddingConfig:
    if reader.match(_NO_PADS):
        return attributes.PaddingConfig((), ())
    pads = _read_pads(reader)
    interior = tuple(p[2] if len(p) == 3 else 0 for p in pads)
    return attributes.PaddingConfig(tuple(p[0] for p in pads), tuple(p[1] for p in pads), interior)


_NO_PADS = ascii_regex(r"[ \t]*+(?=[,}\r\n]|\Z)|" + _BLANK + r'(?:""|\{\})')
"""The text of the padding of a scalar. XLA prints an empty text, which its own parser rejects."""


def _write_padding(padding: attributes.PaddingConfig) -> str:
    # XLA writes the interior of all dimensions or of none.
    columns = [padding.low, padding.high] + ([padding.interior] if any(padding.interior) else [])
    return "x".join("_".join(map(str, entry)) for entry in zip(*columns, strict=True))


def _read_slice(reader: Reader) -> attributes.SliceDims:
    def one() -> tuple[int, int, int]:
        reader.expect("[")
        start = reader.integer()
        reader.expect(":")
        limit = reader.integer()
        stride = reader.integer() if reader.accept(":") else 1
        reader.expect("]")
        return start, limit, stride

    ranges = reader.listed("{", one, "}")
    return attributes.SliceDims(*(tuple(r[n] for r in ranges) for n in range(3)))


def _write_slice(dims: attributes.SliceDims) -> str:
    ranges = zip(dims.starts, dims.limits, dims.strides, strict=True)
    # The strides are left out if all are one.
    if all(stride == 1 for stride in dims.strides):
        return "{" + ", ".join(f"[{a}:{b}]" for a, b, _ in ranges) + "}"
    return "{" + ", ".join(f"[{a}:{b}:{c}]" for a, b, c in ranges) + "}"


# Convolution dimensions.

_CONV_DIMS = ascii_regex(_BLANK + r"([0-9bf?]++)_([0-9io?]++)->([0-9bf?]++)")


def _read_conv_dims(reader: Reader) -> attributes.ConvDims:
    found = reader.take(_CONV_DIMS, "dimension labels such as b01f_01io->b01f")
    at = found.start(1)
    for labels, letters in ((found[1], "bf"), (found[2], "io"), (found[3], "bf")):
        named = labels.replace("?", "")
        spatial = sorted(c for c in named if c.isdigit())
        if sorted(c for c in named if c.isalpha()) != sorted(letters):
            message = f"dimension labels '{labels}' must have each of {letters[0]} and {letters[1]} once"
            reader.fail(message, at)
        if spatial != [str(n) for n in range(len(spatial))]:
            reader.fail(f"dimension labels '{labels}' must number the spatial dimensions 0, 1, 2, ...", at)
    counts = [sum(c.isdigit() for c in found[n]) for n in (1, 2, 3)]
    if len(set(counts)) > 1:
        reader.fail(
            "input, kernel and output must have the same number of spatial dimensions, "
            f"found {counts[0]}, {counts[1]} and {counts[2]}", at,
        )  # fmt: skip
    return attributes.ConvDims(*(found[n].rstrip("?") for n in (1, 2, 3)))


# Collectives.

_NUMBERS = r"\s*+(\d++(?:\s*+,\s*+\d++)*+)\s*+"
_IOTA = ascii_regex(_BLANK + rf"\[{_NUMBERS}\](?:\s*+T\({_NUMBERS}\))?+")
_PLACES = ascii_regex(_BLANK + rf"\[{_NUMBERS}\]")
_LISTED = ascii_regex(_BLANK + _NUMBERS)
_DEVICE_IDS = ascii_regex(_BLANK + r",\s*+device_ids\s*+=\s*+\(")
_AXIS = ascii_regex(_BLANK + r"'(\w++)'")
_PART = ascii_regex(_BLANK + r":\s*+\(\s*+(\d++)\s*+\)\s*+(\d++)")


def _numbers(reader: Marks, text: str | None, at: int) -> tuple[int, ...]:
    return tuple(reader.as_int64(n.strip(), at) for n in text.split(",")) if text else ()


def read_iota(reader: Marks, mark: str) -> IotaDevices | None:
    """Reads an order of devices such as [2,2]T(1,0) after `mark`; returns None if the mark does not come
    next.
    """
    if not reader.accept(mark):
        return None
    at = reader.skip()
    found = reader.take(_IOTA, "the sizes of devices, [n,...]")
    try:
        return IotaDevices.of(_numbers(reader, found[1], at), _numbers(reader, found[2], at))
    except InvalidArgument as error:
        reader.fail(error.message, at)


def _axis_name(reader: Marks) -> str:
    return reader.take(_AXIS, "the name of an axis in quotes")[1]


def read_mesh(reader: Marks) -> Mesh:
    """Reads the text after `mesh`: ['x'=2,'y'=4], device_ids=(0,1,...)."""

    def axis() -> tuple[str, int]:
        name = _axis_name(reader)
        reader.expect("=")
        return name, reader.integer()

    at = reader.skip()
    axes, devices = tuple(reader.listed("[", axis, "]")), None
    if reader.match(_DEVICE_IDS):
        found = reader.match(_LISTED)
        devices = _numbers(reader, found[1], at) if found else read_iota(reader, "")
        reader.expect(")")
    try:
        return Mesh(axes, devices)
    except InvalidArgument as error:
        reader.fail(error.message, at)


def read_axes(reader: Marks) -> tuple[tuple[Axis, ...], bool]:
    """Reads axes such as {'x', 'y':(1)2, ?}; also returns whether the list is closed, without a question
    mark.
    """
    closed = True
    found: list[Axis] = []

    def one() -> None:
        nonlocal closed
        if reader.accept("?"):
            closed = False
            return
        name, part = _axis_name(reader), reader.match(_PART)
        found.append(Axis(name, int(part[1]), int(part[2])) if part else Axis(name))

    reader.listed("{", one, "}")
    return tuple(found), closed


def _read_replica_groups(reader: Reader) -> ReplicaGroups:
    if reader.peek("{"):
        return ReplicaGroups(_read_groups(reader))
    at = reader.skip()
    try:
        if reader.accept("mesh"):
            return ReplicaGroups((), MeshAxes(read_mesh(reader), read_axes(reader)[0]))
        found = reader.match(_PLACES)
        sizes, devices = _numbers(reader, found and found[1], at), read_iota(reader, "<=")
        if devices is not None and len(sizes) == 2:
            return ReplicaGroups((), IotaGroups(*sizes, devices))
    except InvalidArgument as error:
        reader.fail(error.message, at)
    reader.fail("expected groups: {{0,1},...}, [n,m]<=[...] or mesh['axis'=n,...] {'axis'}", at)


def _read_pairs(reader: Reader) -> attributes.SourceTargetPairs:
    if not reader.peek("{"):
        return attributes.SourceTargetPairs((), reader.raw())
    at = reader.skip()
    pairs = _read_groups(reader)
    if any(len(p) != 2 for p in pairs):
        reader.fail("source_target_pairs takes pairs {source,target}", at)
    return attributes.SourceTargetPairs(tuple((source, target) for source, target in pairs))


# Custom calls and sparsity.


def _read_output_aliases(reader: Reader) -> tuple[attributes.OutputAlias, ...]:
    def one() -> attributes.OutputAlias:
        output = reader.integers()
        reader.expect(":")
        reader.expect("(")
        operand = reader.integer()
        reader.expect(",")
        index = reader.integers()
        reader.expect(")")
        return attributes.OutputAlias(output, operand, index)

    return tuple(reader.listed("{", one, "}"))


def _write_output_aliases(aliases: tuple[attributes.OutputAlias, ...]) -> str:
    entries = (f"{write_integers(a.output)}: ({a.operand}, {write_integers(a.index)})" for a in aliases)
    return "{" + ", ".join(entries) + "}"


_SPARSITY = ascii_regex(_BLANK + r"([LR])\.(\d++)@(\d++):(\d++)")


def _read_sparsity(reader: Reader) -> tuple[attributes.Sparsity, ...]:
    found: list[attributes.Sparsity] = []
    while not found or reader.match(_UNDERSCORE):
        one = reader.take(_SPARSITY, "a sparsity such as L.1@2:4")
        found.append(attributes.Sparsity(one[1], *(reader.as_int64(one[n], one.start(n)) for n in (2, 3, 4))))
    return tuple(found)


_UNDERSCORE = ascii_regex("_")


def _write_sparsity(values: tuple[attributes.Sparsity, ...]) -> str:
    return "_".join(f"{v.operand}.{v.dimension}@{v.kept}:{v.of}" for v in values)


_BOOLEAN = Codec(lambda r: r.boolean(), lambda v: "true" if v else "false")
_SHAPE = Codec(lambda r: r.shape(), str)
_COMPUTATION = Codec(lambda r: r.computation(), lambda computation: f"%{computation.name}")

CODECS: dict[Any, Codec] = {
    int: Codec(lambda r: r.integer(), str),
    float: Codec(lambda r: r.real(), _write_float),
    attributes.Single: Codec(lambda r: r.real(), _write_single),
    bool: _BOOLEAN,
    str: Codec(lambda r: r.quoted(), quote),
    attributes.Word: Codec(lambda r: attributes.Word(r.word()), str),
    attributes.RawText: Codec(lambda r: attributes.RawText(r.raw()), str),
    tuple[int, ...]: Codec(lambda r: r.integers(), write_integers),
    tuple[bool, ...]: _list_of(_BOOLEAN, ","),
    tuple[tuple[int, ...], ...]: Codec(_read_groups, _write_groups),
    tuple[attributes.Precision, ...]: Codec(_read_precisions, lambda values: "{" + ",".join(values) + "}"),
    tuple[tuple[str, str], ...]: Codec(lambda r: r.named_values(), named_values),
    AnyShape: _SHAPE,
    Shape: _SHAPE,
    tuple[AnyShape, ...]: _list_of(_SHAPE, ", "),
    Computation: _COMPUTATION,
    tuple[Computation, ...]: _list_of(_COMPUTATION, ", "),
    attributes.Window: Codec(_read_window, _write_window),
    attributes.PaddingConfig: Codec(_read_padding, _write_padding),
    attributes.SliceDims: Codec(_read_slice, _write_slice),
    attributes.ConvDims: Codec(_read_conv_dims, lambda dims: f"{dims.input}_{dims.kernel}->{dims.output}"),
    ReplicaGroups: Codec(_read_replica_groups, str),
    attributes.SourceTargetPairs: Codec(_read_pairs, lambda v: v.text or _write_groups(v.pairs)),
    tuple[attributes.OutputAlias, ...]: Codec(_read_output_aliases, _write_output_aliases),
    tuple[attributes.Sparsity, ...]: Codec(_read_sparsity, _write_sparsity),
}
"""The codecs of `axla.ir.op.ATTRIBUTE_TYPES`; `codec_of` adds those of enumerations."""
