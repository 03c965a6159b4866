"""The names of the Python module `xla_client` that XLA once had, for programs and tutorials written for it.

from axla import xla_client as xc
b = xc.XlaBuilder("f")
x = xc.ops.Parameter(b, 0, xc.Shape.array_shape(np.dtype(np.float32), (3,)))
executable = xc.make_cpu_client().compile(b.build(xc.ops.Sin(x)))
[y] = xc.execute_with_python_values(executable, [np.float32([1, 2, 3])])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axla.builder import OpMetadata, XlaBuilder, XlaComputation, XlaOp, ops
from axla.builder.records import (
    ChannelHandle,
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    FftType,
    FrontendAttributes,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingConfigDimension,
    PaddingType,
    PrecisionConfig,
    RandomAlgorithm,
    ReplicaGroup,
    ResultAccuracy,
    ScatterDimensionNumbers,
    ShapeIndex,
    make_dot_dimension_numbers,
    make_padding_config,
)
from axla.builder.values import booleans, element_type, instance, integers, items
from axla.builder.windows import window_padding_type_to_pad_values
from axla.compatibility.client import Client, ClientLibrary, GlobalData, LocalClient
from axla.compatibility.computation_builder import ComputationBuilder
from axla.core import dtypes
from axla.core.dtypes import DType
from axla.core.errors import AxlaError
from axla.core.literal import Literal
from axla.core.shape import OPAQUE, TOKEN, AnyShape, Layout, ProgramShape, TupleShape
from axla.core.shape import Shape as ArrayShape
from axla.ir.graph import Module

XlaRuntimeError = AxlaError
HloModule = Module


class PrimitiveType:
    """The element types under their names in XLA. TUPLE, OPAQUE_TYPE and TOKEN are missing, since they are
    kinds of shapes.
    """

    PRED = dtypes.PRED
    S2, S4, S8, S16, S32, S64 = dtypes.S2, dtypes.S4, dtypes.S8, dtypes.S16, dtypes.S32, dtypes.S64
    U2, U4, U8, U16, U32, U64 = dtypes.U2, dtypes.U4, dtypes.U8, dtypes.U16, dtypes.U32, dtypes.U64
    F16, BF16, F32, F64 = dtypes.F16, dtypes.BF16, dtypes.F32, dtypes.F64
    C64, C128 = dtypes.C64, dtypes.C128
    F4E2M1FN = dtypes.F4E2M1FN
    F8E3M4, F8E4M3, F8E4M3FN, F8E4M3FNUZ = dtypes.F8E3M4, dtypes.F8E4M3, dtypes.F8E4M3FN, dtypes.F8E4M3FNUZ
    F8E4M3B11FNUZ, F8E5M2, F8E5M2FNUZ = dtypes.F8E4M3B11FNUZ, dtypes.F8E5M2, dtypes.F8E5M2FNUZ
    F8E8M0FNU = dtypes.F8E8M0FNU


XLA_ELEMENT_TYPE_TO_DTYPE = {dtype: dtype.numpy for dtype in dtypes.ALL}


def dtype_to_etype(dtype: Any) -> DType:
    """The element type of a NumPy type."""
    return element_type(dtype, "dtype_to_etype")


class Shape:
    """Makes shapes of `axla.core.shape`: `Shape("f32[2,3]{1,0}")` from text, and by the factory methods of
    XLA's class.
    """

    def __new__(cls, text: str) -> AnyShape:
        """Parses a shape from HLO text."""
        from axla.text.shapes import parse_shape

        return parse_shape(instance(str, text, "Shape", "a text such as 'f32[2,3]'"))

    @staticmethod
    def array_shape(
        type: Any,
        dims: Sequence[int],
        layout: Sequence[int] | None = None,
        dynamic_dimensions: Sequence[bool] = (),
    ) -> ArrayShape:
        """The shape of an array. `layout` lists the dimensions from minor to major; `dynamic_dimensions` says
        which ones are dynamic.
        """
        order = None if layout is None else Layout(integers(layout, "layout"))
        dynamic = booleans(dynamic_dimensions or (), "dynamic_dimensions")
        return ArrayShape(element_type(type), integers(dims, "dims"), dynamic, order)

    @staticmethod
    def scalar_shape(type: Any) -> ArrayShape:
        """The shape of a scalar."""
        return ArrayShape(element_type(type))

    @staticmethod
    def tuple_shape(shapes: Sequence[AnyShape]) -> TupleShape:
        """The shape of a tuple."""
        what = "tuple_shape"
        return TupleShape([instance(AnyShape, shape, what, "shapes") for shape in items(shapes, what)])

    @staticmethod
    def token_shape() -> AnyShape:
        """The shape of a token."""
        return TOKEN

    @staticmethod
    def opaque_shape() -> AnyShape:
        """The shape of an opaque value."""
        return OPAQUE


def shape_from_pyval(pyval: Any, layout: Sequence[int] | None = None) -> AnyShape:
    """The shape of a NumPy value, or of nested tuples of NumPy values."""
    if isinstance(pyval, tuple):
        return TupleShape([shape_from_pyval(value) for value in pyval])
    array = np.asarray(pyval)
    return Shape.array_shape(array.dtype, array.shape, layout)


class LoadedExecutable:
    """A compiled computation with the interface of the old client: it takes and returns lists of arrays."""

    def __init__(self, client: CpuClient, computation: XlaComputation, options: Any = None) -> None:
        self.client = client
        self._computation = computation
        devices = client.library.device_client
        compiled = client.library.Compile(computation) if options is None else None
        self._executable = compiled or devices.compile(computation.module, options)

    def execute(self, arguments: Sequence[Any]) -> list[Any]:
        """Runs the program with one value for each parameter leaf, and returns the leaves of the result."""
        return self._executable.execute(list(arguments))

    def hlo_modules(self) -> list[Module]:
        """The module that was compiled, in a list."""
        return [self._computation.module]


class CpuClient:
    """The client that `make_cpu_client` returns."""

    def __init__(self, backend: str) -> None:
        self.library = ClientLibrary.GetOrCreateLocalClient(backend)

    @property
    def platform(self) -> str:
        """The name of the backend."""
        return self.library.backend

    def device_count(self) -> int:
        """The number of devices of the backend in this process."""
        return self.library.device_count()

    def compile(
        self, computation: XlaComputation | Module, compile_options: object = None
    ) -> LoadedExecutable:
        """Compiles a computation. Options are axla's or XLA's CompileOptions, or the bytes of their proto."""
        wrapped = computation if isinstance(computation, XlaComputation) else XlaComputation(computation)
        return LoadedExecutable(self, wrapped, compile_options)

    def buffer_from_pyval(self, pyval: Any, device: object = None) -> Any:
        """The value as an array of the device."""
        return self.library.TransferToServer(pyval).leaves[0]


def make_cpu_client(backend: str = "cpu") -> CpuClient:
    """A client of a CPU backend, with the methods of jaxlib's client."""
    return CpuClient(backend)


def execute_with_python_values(
    executable: LoadedExecutable, arguments: Sequence[Any] = (), backend: object = None
) -> list[np.ndarray]:
    """Runs an executable on NumPy values and returns NumPy arrays."""
    return [np.asarray(leaf) for leaf in executable.execute([np.asarray(a) for a in arguments])]


__all__ = [
    "ChannelHandle", "Client", "ClientLibrary", "ComputationBuilder", "ConvolutionDimensionNumbers",
    "CpuClient",
    "DotDimensionNumbers", "FftType", "FrontendAttributes", "GatherDimensionNumbers", "GlobalData",
    "HloModule",
    "Layout", "Literal", "LoadedExecutable", "LocalClient", "OpMetadata", "PaddingConfig",
    "PaddingConfigDimension",
    "PaddingType", "PrecisionConfig", "PrimitiveType", "ProgramShape", "RandomAlgorithm", "ReplicaGroup",
    "ResultAccuracy", "ScatterDimensionNumbers", "Shape", "ShapeIndex", "XLA_ELEMENT_TYPE_TO_DTYPE",
    "XlaBuilder",
    "XlaComputation", "XlaOp", "XlaRuntimeError", "dtype_to_etype", "execute_with_python_values",
    "make_cpu_client",
    "make_dot_dimension_numbers", "make_padding_config", "ops", "shape_from_pyval",
    "window_padding_type_to_pad_values",
]  # fmt: skip
