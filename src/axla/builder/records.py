"""Records passed to builder functions, with the field names of XLA's protocol buffers."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from axla.builder.values import instance, integer, integers, items, member, refuse, tuples
from axla.core.dataclass import dataclass
from axla.ir import attributes


@dataclass(slots=True)
class PaddingConfigDimension:
    """Padding of one dimension: before it, behind it, and between its elements."""

    edge_padding_low: int = 0
    edge_padding_high: int = 0
    interior_padding: int = 0


@dataclass(slots=True)
class PaddingConfig:
    """Padding of every dimension, as XLA's proto of this name has it."""

    dimensions: list[PaddingConfigDimension] = field(default_factory=list)


def make_padding_config(padding: Iterable[tuple[int, int, int]]) -> PaddingConfig:
    """From (low, high, interior) per dimension."""
    wanted = "(low, high, interior) per dimension"
    triples = tuples(padding, "padding_config", wanted, integer, integer, integer)
    return PaddingConfig([PaddingConfigDimension(*triple) for triple in triples])


def padding_config(value: Any) -> attributes.PaddingConfig:
    """The op attribute for a PaddingConfig, or for (low, high, interior) per dimension."""
    if isinstance(value, attributes.PaddingConfig):
        return value
    if isinstance(value, PaddingConfig):
        value = [(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in value.dimensions]
    dims = make_padding_config(value).dimensions
    return attributes.PaddingConfig(
        tuple(d.edge_padding_low for d in dims), tuple(d.edge_padding_high for d in dims),
        tuple(d.interior_padding for d in dims),
    )  # fmt: skip


@dataclass(slots=True)
class DotDimensionNumbers:
    """Which dimensions of `dot_general` are contracted and which are batch dimensions."""

    lhs_contracting_dimensions: list[int] = field(default_factory=list)
    rhs_contracting_dimensions: list[int] = field(default_factory=list)
    lhs_batch_dimensions: list[int] = field(default_factory=list)
    rhs_batch_dimensions: list[int] = field(default_factory=list)


def make_dot_dimension_numbers(numbers: Any) -> DotDimensionNumbers:
    """From ((lhs contracting, rhs contracting), (lhs batch, rhs batch)), or a record as it is."""
    if isinstance(numbers, DotDimensionNumbers):
        return numbers
    wanted = "DotDimensionNumbers or ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))"
    pairs = tuples(numbers, "dimension_numbers", wanted, integers, integers)
    if len(pairs) != 2:
        refuse("dimension_numbers", numbers, wanted)
    return DotDimensionNumbers(*(list(dims) for pair in pairs for dims in pair))


@dataclass(slots=True)
class GatherDimensionNumbers:
    """How the indices of `gather` select slices, with the names of XLA's proto."""

    offset_dims: Sequence[int] = ()
    collapsed_slice_dims: Sequence[int] = ()
    start_index_map: Sequence[int] = ()
    index_vector_dim: int = 0
    operand_batching_dims: Sequence[int] = ()
    start_indices_batching_dims: Sequence[int] = ()


@dataclass(slots=True)
class ScatterDimensionNumbers:
    """How the indices of `scatter` place updates, with the names of XLA's proto."""

    update_window_dims: Sequence[int] = ()
    inserted_window_dims: Sequence[int] = ()
    scatter_dims_to_operand_dims: Sequence[int] = ()
    index_vector_dim: int = 0
    input_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


@dataclass(slots=True)
class ConvolutionDimensionNumbers:
    """Which dimensions of input, kernel and output are batch, feature and spatial."""

    input_batch_dimension: int = 0
    input_feature_dimension: int = 1
    input_spatial_dimensions: list[int] = field(default_factory=list)
    kernel_output_feature_dimension: int = 0
    kernel_input_feature_dimension: int = 1
    kernel_spatial_dimensions: list[int] = field(default_factory=list)
    output_batch_dimension: int = 0
    output_feature_dimension: int = 1
    output_spatial_dimensions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ReplicaGroup:
    """The participants of one group of a collective."""

    replica_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ChannelHandle:
    """The number of a channel and its type, with the numbers of XLA's proto."""

    handle: int = 0
    type: int = 0


class PrecisionConfig_Precision(enum.Enum):
    """The precision with which a dot or convolution reads an operand."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


@dataclass(slots=True)
class PrecisionConfig:
    """The precision of each operand of a dot or convolution."""

    Precision = PrecisionConfig_Precision
    operand_precision: list[PrecisionConfig_Precision] = field(default_factory=list)


def operand_precision(config: PrecisionConfig | None) -> tuple[attributes.Precision, ...]:
    """The op attribute; empty when every operand has the default."""
    if config is None:
        return ()
    what = "precision_config"
    given = items(instance(PrecisionConfig, config, what).operand_precision, what)
    found = [attributes.Precision[member(PrecisionConfig_Precision, p, what).name] for p in given]
    return () if all(p is attributes.Precision.DEFAULT for p in found) else tuple(found)


class ResultAccuracy_Mode(enum.Enum):
    """The accuracy mode of a function."""

    DEFAULT = 0
    HIGHEST = 1


@dataclass(slots=True)
class ResultAccuracy:
    """The requested accuracy of a transcendental function: a mode, or a tolerance."""

    mode: ResultAccuracy_Mode | str = "DEFAULT"


class FftType(enum.Enum):
    """The kind of a Fourier transform."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


class TriangularSolveOptions_Transpose(enum.Enum):
    """Whether a triangular solve transposes its matrix first."""

    TRANSPOSE_INVALID = 0
    NO_TRANSPOSE = 1
    TRANSPOSE = 2
    ADJOINT = 3


class RandomAlgorithm(enum.IntEnum):
    """The algorithm that generates random bits."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


class CustomCallSchedule(enum.Enum):
    """The position of a custom call in the schedule."""

    SCHEDULE_NONE = 0
    SCHEDULE_LATEST = 1
    SCHEDULE_EARLIEST = 2


class CustomCallApiVersion(enum.IntEnum):
    """The calling convention of a custom call."""

    API_VERSION_ORIGINAL = 1
    API_VERSION_STATUS_RETURNING = 2
    API_VERSION_STATUS_RETURNING_UNIFIED = 3
    API_VERSION_TYPED_FFI = 4


class ShapeIndex(tuple[int, ...]):
    """A path into nested tuples."""

    __slots__ = ()


class PaddingType(enum.Enum):
    """The padding of a window op: SAME keeps the size, VALID has no padding."""

    SAME = 1
    VALID = 2


class FrontendAttributes(dict[str, str]):
    """Attributes that a front end puts on ops."""
