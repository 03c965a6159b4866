"""Value types of op attributes: immutable, hashable, compared by value. `axla.text.attributes` reads and
writes them.

Plain attributes are Python's own types: int, float, bool, str (written in quotes), `Word` (written bare),
tuples of int or bool, and these with `| None`, where None means that the text does not give the attribute.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NewType

from axla.core.dataclass import dataclass
from axla.core.errors import ShapeError

Single = NewType("Single", float)
"""A number that is of 32 bits in XLA: text shows six digits of it, or nine where six are not enough."""


class Word(str):
    """A name that the text form writes without quotes."""

    __slots__ = ()


class RawText(str):
    """The text of an attribute's value, kept uninterpreted."""

    __slots__ = ()


class Direction(enum.StrEnum):
    """The relation that `compare` tests."""

    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"

    @property
    def mirrored(self) -> Direction:
        """The direction with the operands exchanged."""
        return _MIRRORED.get(self, self)


_MIRRORED = {
    Direction.GE: Direction.LE, Direction.GT: Direction.LT, Direction.LE: Direction.GE,
    Direction.LT: Direction.GT,
}  # fmt: skip


class CompareType(enum.StrEnum):
    """The order in which `compare` compares; the default depends on the operands' element type."""

    FLOAT = "FLOAT"
    TOTAL_ORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


class FusionKind(enum.StrEnum):
    """XLA's kinds of fusions, by their spelling in HLO text."""

    LOOP = "kLoop"
    INPUT = "kInput"
    OUTPUT = "kOutput"
    CUSTOM = "kCustom"


class Precision(enum.StrEnum):
    """The precision with which a dot or convolution reads an operand."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"
    PACKED_NIBBLE = "packed_nibble"


class FftType(enum.StrEnum):
    """The kind of a Fourier transform: forward or inverse, complex to complex or between real and complex."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


class TransposeA(enum.StrEnum):
    """The form in which `triangular-solve` uses its matrix."""

    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


class RandomDistribution(enum.StrEnum):
    """The distribution of `rng`: uniform over [a, b), or normal with mean and deviation."""

    UNIFORM = "rng_uniform"
    NORMAL = "rng_normal"


class RandomAlgorithm(enum.StrEnum):
    """The algorithm of `rng-bit-generator`."""

    DEFAULT = "rng_default"
    THREE_FRY = "rng_three_fry"
    PHILOX = "rng_philox"


class ApiVersion(enum.StrEnum):
    """The calling convention of a custom call."""

    UNSPECIFIED = "API_VERSION_UNSPECIFIED"
    ORIGINAL = "API_VERSION_ORIGINAL"
    STATUS_RETURNING = "API_VERSION_STATUS_RETURNING"
    STATUS_RETURNING_UNIFIED = "API_VERSION_STATUS_RETURNING_UNIFIED"
    TYPED_FFI = "API_VERSION_TYPED_FFI"


class CustomCallSchedule(enum.StrEnum):
    """How early a custom call may be scheduled, as XLA names it."""

    NONE = "SCHEDULE_NONE"
    LATEST = "SCHEDULE_LATEST"
    EARLIEST = "SCHEDULE_EARLIEST"


class PaddingType(enum.StrEnum):
    """How a window is padded: not at all, or so that sizes stay the same."""

    INVALID = "PADDING_INVALID"
    VALID = "PADDING_VALID"
    SAME = "PADDING_SAME"


@dataclass(frozen=True, slots=True)
class Window:
    """A window moving over an array, one entry per dimension: {size=3x3 stride=2x2 pad=1_1x1_1}."""

    size: tuple[int, ...]
    stride: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    base_dilation: tuple[int, ...] = ()
    window_dilation: tuple[int, ...] = ()
    reversal: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        rank = len(self.size)
        defaults = dict(stride=1, low=0, high=0, base_dilation=1, window_dilation=1, reversal=False)
        for name, default in defaults.items():
            found = getattr(self, name)
            if not found:
                object.__setattr__(self, name, (default,) * rank)
            elif len(found) != rank:
                raise ShapeError(f"window: {len(found)} entries of {name} for {rank} dimensions of size")

    @property
    def rank(self) -> int:
        """The number of dimensions that the window moves along."""
        return len(self.size)

    @property
    def dilated_size(self) -> tuple[int, ...]:
        """The extent of the window along each dimension, dilation included."""
        dilated = zip(self.size, self.window_dilation, strict=True)
        return tuple((size - 1) * by + 1 if size else 0 for size, by in dilated)


@dataclass(frozen=True, slots=True)
class PaddingConfig:
    """Edge padding (negative: elements are dropped) and interior padding, per dimension: 1_2x0_0_3."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.interior:
            object.__setattr__(self, "interior", (0,) * len(self.low))
        if not len(self.low) == len(self.high) == len(self.interior):
            counts = f"{len(self.low)} low, {len(self.high)} high and {len(self.interior)} interior"
            raise ShapeError(f"padding: {counts} entries; there must be one of each per dimension")

    @property
    def rank(self) -> int:
        """The number of dimensions that are padded, those by 0 included."""
        return len(self.low)


@dataclass(frozen=True, slots=True)
class SliceDims:
    """Ranges start:limit:stride, per dimension: {[0:4], [1:9:2]}."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.strides:
            object.__setattr__(self, "strides", (1,) * len(self.starts))
        if not len(self.starts) == len(self.limits) == len(self.strides):
            counts = f"{len(self.starts)} starts, {len(self.limits)} limits and {len(self.strides)} strides"
            raise ShapeError(f"slice: {counts}; there must be one of each per dimension")

    @property
    def rank(self) -> int:
        """The number of dimensions of the operand."""
        return len(self.starts)


def _place(labels: str, letter: str) -> Any:
    """A property: the position of a letter in the labels."""
    return property(lambda self: getattr(self, labels).index(letter))


def _spatial(labels: str) -> Any:
    """A property: the positions of the digits, in order."""

    def places(self: ConvDims) -> tuple[int, ...]:
        found = getattr(self, labels)
        return tuple(found.index(str(n)) for n in range(sum(c.isdigit() for c in found)))

    return property(places)


@dataclass(frozen=True, slots=True)
class ConvDims:
    """The roles of the dimensions of a convolution's input, kernel and output: b01f_01io->b01f.

    One character per dimension: b batch, f feature, i and o kernel input and output feature, digits spatial
    dimensions, ? a dimension without a role.
    """

    input: str
    kernel: str
    output: str

    @classmethod
    def of(
        cls, *,
        input_batch: int, input_feature: int, input_spatial: Sequence[int],
        kernel_input: int, kernel_output: int, kernel_spatial: Sequence[int],
        output_batch: int, output_feature: int, output_spatial: Sequence[int],
    ) -> ConvDims:  # fmt: skip
        """Labels from dimension numbers, as the builder and the protocol buffers have them."""
        return cls(
            _labels("b", input_batch, "f", input_feature, input_spatial),
            _labels("i", kernel_input, "o", kernel_output, kernel_spatial),
            _labels("b", output_batch, "f", output_feature, output_spatial),
        )

    input_batch = _place("input", "b")
    input_feature = _place("input", "f")
    input_spatial = _spatial("input")
    kernel_input = _place("kernel", "i")
    kernel_output = _place("kernel", "o")
    kernel_spatial = _spatial("kernel")
    output_batch = _place("output", "b")
    output_feature = _place("output", "f")
    output_spatial = _spatial("output")


CONVOLUTION_DIMENSIONS = {
    "input_batch_dimension": "input_batch",
    "input_feature_dimension": "input_feature",
    "input_spatial_dimensions": "input_spatial",
    "kernel_input_feature_dimension": "kernel_input",
    "kernel_output_feature_dimension": "kernel_output",
    "kernel_spatial_dimensions": "kernel_spatial",
    "output_batch_dimension": "output_batch",
    "output_feature_dimension": "output_feature",
    "output_spatial_dimensions": "output_spatial",
}
"""The names of the builder's records, protocol buffers and StableHLO -> those of ConvDims."""


def _labels(first: str, first_at: int, second: str, second_at: int, spatial: Sequence[int]) -> str:
    places = {first_at: first, second_at: second} | {at: str(n) for n, at in enumerate(spatial)}
    if len(places) != 2 + len(spatial) or min(places) < 0 or len(spatial) > 10:
        raise ShapeError(
            f"convolution: {first}={first_at}, {second}={second_at}, spatial={list(spatial)}: "
            "wanted the number of each dimension once"
        )
    return "".join(places.get(at, "?") for at in range(max(places) + 1))


@dataclass(frozen=True, slots=True)
class SourceTargetPairs:
    """The sources and targets of a collective-permute: {{0,1},{1,0}}. `text` keeps a compact form."""

    pairs: tuple[tuple[int, int], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class OutputAlias:
    """Leaf `output` of the result shares the memory of leaf `index` of operand `operand`."""

    output: tuple[int, ...]
    operand: int
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sparsity:
    """The sparsity of a dot operand's dimension: L.1@2:4."""

    operand: str  # L or R
    dimension: int
    kept: int
    of: int
