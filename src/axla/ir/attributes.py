"""The types of the attributes of ops: immutable, hashable, compared by value. `axla.text.attributes` reads
and writes them in HLO text.

Simple attributes have Python's own types: int, float, bool, str (written in quotes), `Word` (written without
quotes), and tuples of int or bool. Any type may be combined with `| None`; None means that the text does not
have the attribute.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NewType

from axla.core.dataclass import dataclass
from axla.core.errors import ShapeError

Single = NewType("Single", float)
"""A number that XLA stores as f32: the text has six digits, or nine if six do not determine it."""


class Word(str):
    """A name that HLO text has without quotes."""

    __slots__ = ()


class RawText(str):
    """The text of an attribute's value, which axla keeps without interpreting it."""

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
        """The direction to use when the operands are exchanged: GT for LT."""
        return _MIRRORED.get(self, self)


_MIRRORED = {
    Direction.GE: Direction.LE, Direction.GT: Direction.LT, Direction.LE: Direction.GE,
    Direction.LT: Direction.GT,
}  # fmt: skip


class CompareType(enum.StrEnum):
    """The order in which `compare` orders its operands. The default depends on the element type of the
    operands.
    """

    FLOAT = "FLOAT"
    TOTAL_ORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


class FusionKind(enum.StrEnum):
    """The kinds of fusions in XLA, as HLO text spells them."""

    LOOP = "kLoop"
    INPUT = "kInput"
    OUTPUT = "kOutput"
    CUSTOM = "kCustom"


class Precision(enum.StrEnum):
    """The precision to which a dot or convolution may round an operand."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"
    PACKED_NIBBLE = "packed_nibble"


class FftType(enum.StrEnum):
    """The kind of a Fourier transform: complex to complex, forward or inverse, or between real and
    complex.
    """

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


class TransposeA(enum.StrEnum):
    """The operation that `triangular-solve` applies to its matrix: none, the transpose or the adjoint."""

    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


class RandomDistribution(enum.StrEnum):
    """The distribution of `rng`: uniform over [first, second), or normal with mean `first` and standard
    deviation `second`.
    """

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
    """XLA's hint for the scheduler: whether a custom call should run as early or as late as possible."""

    NONE = "SCHEDULE_NONE"
    LATEST = "SCHEDULE_LATEST"
    EARLIEST = "SCHEDULE_EARLIEST"


class PaddingType(enum.StrEnum):
    """XLA's types of padding of a window: VALID (none) and SAME (sizes stay the same)."""

    INVALID = "PADDING_INVALID"
    VALID = "PADDING_VALID"
    SAME = "PADDING_SAME"


@dataclass(frozen=True, slots=True)
class Window:
    """A window that moves over an array, with one entry per dimension in each field: {size=3x3 stride=2x2
    pad=1_1x1_1}.
    """

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
                raise ShapeError(f"window: {name} has {len(found)} entries, but size has {rank}")

    @property
    def rank(self) -> int:
        """The number of dimensions of the window."""
        return len(self.size)

    @property
    def dilated_size(self) -> tuple[int, ...]:
        """The extent of the window along each dimension, with the gaps of its dilation."""
        dilated = zip(self.size, self.window_dilation, strict=True)
        return tuple((size - 1) * by + 1 if size else 0 for size, by in dilated)


@dataclass(frozen=True, slots=True)
class PaddingConfig:
    """Edge padding and interior padding, one entry per dimension: 1_2x0_0_3. Negative edge padding removes
    elements.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.interior:
            object.__setattr__(self, "interior", (0,) * len(self.low))
        if not len(self.low) == len(self.high) == len(self.interior):
            counts = f"{len(self.low)} low, {len(self.high)} high and {len(self.interior)} interior"
            raise ShapeError(f"padding: {counts} entries; their numbers must be equal")

    @property
    def rank(self) -> int:
        """The number of dimensions, including those with a padding of 0."""
        return len(self.low)


@dataclass(frozen=True, slots=True)
class SliceDims:
    """The ranges start:limit:stride of a slice, one per dimension: {[0:4], [1:9:2]}."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.strides:
            object.__setattr__(self, "strides", (1,) * len(self.starts))
        if not len(self.starts) == len(self.limits) == len(self.strides):
            counts = f"{len(self.starts)} starts, {len(self.limits)} limits and {len(self.strides)} strides"
            raise ShapeError(f"slice: {counts}; their numbers must be equal")

    @property
    def rank(self) -> int:
        """The number of dimensions of the operand."""
        return len(self.starts)


def _place(labels: str, letter: str) -> Any:
    """A property: the index of a letter in the field `labels`."""
    return property(lambda self: getattr(self, labels).index(letter))


def _spatial(labels: str) -> Any:
    """A property: the indices of the digits in the field `labels`, in the order of the digits."""

    def places(self: ConvDims) -> tuple[int, ...]:
        found = getattr(self, labels)
        return tuple(found.index(str(n)) for n in range(sum(c.isdigit() for c in found)))

    return property(places)


@dataclass(frozen=True, slots=True)
class ConvDims:
    """The roles of the dimensions of a convolution's input, kernel and output: b01f_01io->b01f.

    Each field has one character per dimension: b batch, f feature, i and o input and output feature of the
    kernel, digits spatial dimensions, ? a dimension without a role.
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
        """Makes the labels from the number of each dimension, as the builder and the protocol buffers have
        them.
        """
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
"""Maps the names that the builder's records, protocol buffers and StableHLO use to the names in ConvDims."""


def _labels(first: str, first_at: int, second: str, second_at: int, spatial: Sequence[int]) -> str:
    places = {first_at: first, second_at: second} | {at: str(n) for n, at in enumerate(spatial)}
    if len(places) != 2 + len(spatial) or min(places) < 0 or len(spatial) > 10:
        raise ShapeError(
            f"convolution: {first}={first_at}, {second}={second_at}, spatial={list(spatial)}: "
            "each dimension must have a different number"
        )
    return "".join(places.get(at, "?") for at in range(max(places) + 1))


@dataclass(frozen=True, slots=True)
class SourceTargetPairs:
    """The (source, target) pairs of a collective-permute: {{0,1},{1,0}}. If HLO text has them in a compact
    form, `text` is that form, and `pairs` is empty.
    """

    pairs: tuple[tuple[int, int], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class OutputAlias:
    """Says that leaf `output` of the result shares the memory of leaf `index` of operand `operand`."""

    output: tuple[int, ...]
    operand: int
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sparsity:
    """The sparsity of a dimension of a dot operand, L.1@2:4: of every `of` neighbouring elements, `kept` are
    stored.
    """

    operand: str  # L: the left operand; R: the right one
    dimension: int
    kept: int
    of: int
