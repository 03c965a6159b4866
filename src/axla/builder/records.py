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
    """Padding of one dimension: the number of elements before it, after it, and between its elements."""

    edge_padding_low: int = 0
    edge_padding_high: int = 0
    interior_padding: int = 0


@dataclass(slots=True)
class PaddingConfig:
    """The padding of every dimension. Fields as in XLA's proto of this name."""

    dimensions: list[PaddingConfigDimension] = field(default_factory=list)


def make_padding_config(padding: Iterable[tuple[int, int, int]]) -> PaddingConfig:
    """Makes a PaddingConfig from (low, high, interior) per dimension."""
    wanted = "(low, high, interior) per dimension"
    triples = tuples(padding, "padding_config", wanted, integer, integer, integer)
    return PaddingConfig([PaddingConfigDimension(*triple) for triple in triples])


def padding_config(value: Any) -> attributes.PaddingConfig:
    """Converts a PaddingConfig, or (low, high, interior) per dimension, to the attribute of a `pad` op."""
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
    """Selects the contracting dimensions and the batch dimensions of the operands of a `dot`."""

    lhs_contracting_dimensions: list[int] = field(default_factory=list)
    rhs_contracting_dimensions: list[int] = field(default_factory=list)
    lhs_batch_dimensions: list[int] = field(default_factory=list)
    rhs_batch_dimensions: list[int] = field(default_factory=list)


def make_dot_dimension_numbers(numbers: Any) -> DotDimensionNumbers:
    """Makes the record from ((lhs contracting, rhs contracting), (lhs batch, rhs batch)). A
    DotDimensionNumbers is returned unchanged.
    """
    if isinstance(numbers, DotDimensionNumbers):
        return numbers
    wanted = "DotDimensionNumbers or ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))"
    pairs = tuples(numbers, "dimension_numbers", wanted, integers, integers)
    if len(pairs) != 2:
        refuse("dimension_numbers", numbers, wanted)
    return DotDimensionNumbers(*(list(dims) for pair in pairs for dims in pair))


@dataclass(slots=True)
class GatherDimensionNumbers:
    """Defines which slices the indices of a `gather` select. Fields as in XLA's proto of this name."""

    offset_dims: Sequence[int] = ()
    collapsed_slice_dims: Sequence[int] = ()
    start_index_map: Sequence[int] = ()
    index_vector_dim: int = 0
    operand_batching_dims: Sequence[int] = ()
    start_indices_batching_dims: Sequence[int] = ()


@dataclass(slots=True)
class ScatterDimensionNumbers:
    """Defines where the indices of a `scatter` put the updates. Fields as in XLA's proto of this name."""

    update_window_dims: Sequence[int] = ()
    inserted_window_dims: Sequence[int] = ()
    scatter_dims_to_operand_dims: Sequence[int] = ()
    index_vector_dim: int = 0
    input_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


@dataclass(slots=True)
class ConvolutionDimensionNumbers:
    """Selects the batch, feature and spatial dimensions of input, kernel and output of a convolution."""

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
    """The ids of the replicas or partitions that take part in a collective together."""

    replica_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ChannelHandle:
    """The number of a channel and its type. Types are numbered as in XLA's proto of this name."""

    handle: int = 0
    type: int = 0


class PrecisionConfig_Precision(enum.Enum):
    """The precision to which a dot or convolution may round the elements of an operand."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


@dataclass(slots=True)
class PrecisionConfig:
    """The precision of each operand of a dot or convolution."""

    Precision = PrecisionConfig_Precision
    operand_precision: list[PrecisionConfig_Precision] = field(default_factory=list)


def operand_precision(config: PrecisionConfig | None) -> tuple[attributes.Precision, ...]:
    """Converts a PrecisionConfig to the attribute of an op; an empty tuple if all operands have the
    default.
    """
    if config is None:
        return ()
    what = "precision_config"
    given = items(instance(PrecisionConfig, config, what).operand_precision, what)
    found = [attributes.Precision[member(PrecisionConfig_Precision, p, what).name] for p in given]
    return () if all(p is attributes.Precision.DEFAULT for p in found) else tuple(found)


class ResultAccuracy_Mode(enum.Enum):
    """The requested accuracy of a transcendental function."""

    DEFAULT = 0
    HIGHEST = 1


@dataclass(slots=True)
class ResultAccuracy:
    """The requested accuracy of a transcendental function, as a mode."""

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
    """Whether a custom call is scheduled as early or as late as possible."""

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
    """The path to a part of nested tuples: the index of an element at each level."""

    __slots__ = ()


class PaddingType(enum.Enum):
    """The padding at the edges of a window op: SAME pads so that stride 1 keeps the size, VALID does not
    pad.
    """

    SAME = 1
    VALID = 2


class FrontendAttributes(dict[str, str]):
    """Attributes that a frontend adds to ops, as pairs of strings."""
