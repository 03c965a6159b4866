"""`ComputationBuilder`, the builder of XLA's first documents: ops are methods, errors wait until Build.

Every method has its CamelCase name and a snake_case one. By default the first mistake is kept: the methods
called after it do nothing, and Build raises it. After `set_die_immediately_on_error(True)` mistakes raise
where they are made. A method that axla does not support raises UnsupportedError at once in both modes.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from axla.builder import ops
from axla.builder.coerce import operands, several
from axla.builder.computation import XlaComputation
from axla.builder.records import ConvolutionDimensionNumbers
from axla.builder.values import boolean, element_type, instance, integer
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import F32, PRED, DType
from axla.core.errors import AxlaError, InvalidArgument, ShapeError, UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Layout, Shape
from axla.hlo.family import show
from axla.interpreter import evaluate

ComputationDataHandle = XlaOp


class _Failed(XlaOp):
    """The result of a method after a mistake; its use raises the error."""

    __slots__ = ("error",)

    def __init__(self, builder: XlaBuilder, error: AxlaError) -> None:
        self.builder = builder
        self.error = error

    @property
    def instruction(self) -> Any:
        raise self.error

    def __repr__(self) -> str:
        return f"<failed: {self.error.message}>"


def _deferred(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a method keep the first mistake instead of raising it, unless the builder raises mistakes at
    once.
    """

    @functools.wraps(function)
    def method(self: ComputationBuilder, *arguments: Any, **named: Any) -> Any:
        if self._error is not None:
            return _Failed(self._builder, self._error)
        try:
            return function(self, *arguments, **named)
        except UnsupportedError:
            raise
        except AxlaError as error:
            if self._die_immediately:
                raise
            self._error = error
            return _Failed(self._builder, error)

    return method


class ComputationBuilder:
    """Builds a computation for a client; see the module's docstring."""

    kConvBatchDimension: ClassVar[int] = 0
    kConvFeatureDimension: ClassVar[int] = 1
    kConvFirstSpatialDimension: ClassVar[int] = 2
    kConvSecondSpatialDimension: ClassVar[int] = 3
    kConvKernelOutputDimension: ClassVar[int] = 0
    kConvKernelInputDimension: ClassVar[int] = 1
    kConvKernelFirstSpatialDimension: ClassVar[int] = 2
    kConvKernelSecondSpatialDimension: ClassVar[int] = 3

    def __init__(
        self, client: Any, computation_name: str, parent: ComputationBuilder | None = None
    ) -> None:  # fmt: skip
        self._client = client
        self._parent = None if parent is None else instance(ComputationBuilder, parent, "parent")
        self._builder = XlaBuilder(computation_name)
        self._die_immediately = parent._die_immediately if parent is not None else False
        self._error: AxlaError | None = None
        self._return_value: XlaOp | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def client(self) -> Any:
        """The client the builder was made with."""
        return self._client

    def name(self) -> str:
        """The name of the computation."""
        return self._builder.name

    def set_die_immediately_on_error(self, enabled: bool) -> None:
        """Sets whether a mistake raises where it is made, rather than from Build."""
        self._die_immediately = boolean(enabled, "set_die_immediately_on_error")

    SetDieImmediatelyOnError = set_die_immediately_on_error

    # Shapes.

    def GetShape(self, operand: XlaOp) -> AnyShape:
        """The inferred shape of a value; raises the first mistake, if there is one."""
        self._raise_noted()
        return self._op("GetShape", operand).shape

    def CheckShape(self, operand: XlaOp, expected_shape: AnyShape) -> XlaOp:
        """Returns the operand if it has this shape (ignoring layouts); otherwise raises ShapeError."""
        instance(AnyShape, expected_shape, "CheckShape: expected_shape", "a shape")
        if self._error is not None:
            return operand
        found = self._op("CheckShape", operand)
        if found.shape.logical is not expected_shape.logical:
            wanted = show(expected_shape)
            raise ShapeError(f"CheckShape: {found.instruction!r}: wanted {wanted}")
        return found

    def CheckSameShape(self, lhs: XlaOp, rhs: XlaOp) -> None:
        """Raises ShapeError at once if two values have different shapes."""
        if self._error is not None:
            return
        lhs, rhs = self._op("CheckSameShape", lhs), self._op("CheckSameShape", rhs)
        if lhs.shape.logical is not rhs.shape.logical:
            raise ShapeError(f"CheckSameShape: {lhs.instruction!r} and {rhs.instruction!r} differ")

    def _op(self, what: str, value: object) -> XlaOp:
        return operands(what, value, builder=self._builder)[0]

    # Parameters and constants.

    @_deferred
    def Parameter(self, parameter_number: int, shape: AnyShape, name: str = "") -> XlaOp:
        """Parameter number `parameter_number` of the computation."""
        return self._builder.parameter(parameter_number, shape, name)

    @_deferred
    def ConstantLiteral(self, literal: object) -> XlaOp:
        """A constant with the value of a literal."""
        return self._builder.constant(literal)

    @_deferred
    def ConstantR0(self, value: object, native_type: Any = None) -> XlaOp:
        """A scalar constant. Python's bool becomes pred, int s32, float f32, complex c64; NumPy's scalars
        keep their type. `native_type` selects another element type.
        """
        return self._constant(value, 0, native_type)

    @_deferred
    def ConstantR1(self, values: Any, value: Any = None, native_type: Any = None) -> XlaOp:
        """A constant vector of values; ConstantR1(length, value) repeats one value."""
        if value is not None:
            return ops.Broadcast(self._constant(value, 0, native_type), [values])
        return self._constant(values, 1, native_type)

    @_deferred
    def ConstantR2(self, values: Any, native_type: Any = None) -> XlaOp:
        """A constant matrix; its element type is chosen as in ConstantR0."""
        return self._constant(values, 2, native_type)

    ConstantR2FromArray2D = ConstantR2

    @_deferred
    def ConstantR3FromArray3D(self, values: Any, native_type: Any = None) -> XlaOp:
        """A constant array of three dimensions; its element type is chosen as in ConstantR0."""
        return self._constant(values, 3, native_type)

    @_deferred
    def ConstantR4FromArray4D(self, values: Any, native_type: Any = None) -> XlaOp:
        """A constant array of four dimensions; its element type is chosen as in ConstantR0."""
        return self._constant(values, 4, native_type)

    def _constant(self, values: Any, rank: int, native_type: Any) -> XlaOp:
        array = _native(values, native_type)
        if array.ndim != rank:
            raise ShapeError(f"ConstantR{rank}: found {array.ndim} dimensions, wanted {rank}")
        return self._builder.constant(array)

    # Ops whose methods differ from the functions of `ops`.

    @_deferred
    def Dot(self, lhs: Any, rhs: Any) -> XlaOp:
        """Contracts the last dimension of `lhs` with the last but one of `rhs`; scalars multiply."""
        lhs, rhs = operands("Dot", lhs, rhs, builder=self._builder)
        left, right = lhs.shape, rhs.shape
        if not isinstance(left, Shape) or not isinstance(right, Shape) or not left.rank or not right.rank:
            return ops.Mul(lhs, rhs)
        numbers = (([left.rank - 1], [max(0, right.rank - 2)]), ([], []))
        return ops.DotGeneral(lhs, rhs, numbers)

    @_deferred
    def Trans(self, operand: XlaOp) -> XlaOp:
        """The transpose of a matrix."""
        operand = self._op("Trans", operand)
        shape = operand.shape
        if not isinstance(shape, Shape) or shape.rank != 2:
            self._builder.fail("Trans", (operand,), "the operand must have rank 2  [trans_rank]")
        return ops.Transpose(operand, (1, 0))

    @_deferred
    def Sort(self, operand: XlaOp) -> XlaOp:
        """The operand with its elements sorted along the last dimension, in ascending order."""
        return ops.Sort(self._builder, [operand])

    def _typed(self, what: str, dtype: DType, *values: object) -> list[XlaOp]:
        found = operands(what, *values, builder=self._builder)
        if any(not isinstance(v.shape, Shape) or v.shape.dtype is not dtype for v in found):
            self._builder.fail(what, found, f"the operands must be {dtype}  [{dtype}_only]")
        return found

    @_deferred
    def LogicalAnd(self, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> XlaOp:
        """Computes for each element whether both operands, arrays of pred, are true."""
        return ops.And(*self._typed("LogicalAnd", PRED, lhs, rhs), broadcast_dimensions)

    @_deferred
    def LogicalOr(self, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> XlaOp:
        """Computes for each element whether at least one of the operands, arrays of pred, is true."""
        return ops.Or(*self._typed("LogicalOr", PRED, lhs, rhs), broadcast_dimensions)

    @_deferred
    def LogicalNot(self, operand: Any) -> XlaOp:
        """Computes for each element whether the operand, an array of pred, is false."""
        return ops.Not(*self._typed("LogicalNot", PRED, operand))

    @_deferred
    def Map(
        self, operands: Sequence[XlaOp], computation: XlaComputation, static_operands: Sequence[XlaOp] = ()
    ) -> XlaOp:
        """Applies a computation element by element. Static operands are scalars that are the same for all
        elements.
        """
        values = several("Map", self._builder, operands)
        dims = getattr(values[0].shape, "dims", ()) if values else ()
        return ops.Map(self._builder, values, computation, range(len(dims)), static_operands)

    @_deferred
    def ReduceWindowWithGeneralPadding(
        self, operand: XlaOp, init_value: XlaOp, computation: XlaComputation,
        window_dimensions: Sequence[int], window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
    ) -> XlaOp:  # fmt: skip
        """Combines the elements of a window at each of its positions. `padding` has (low, high) per
        dimension.
        """
        return ops.ReduceWindowWithGeneralPadding(
            operand, init_value, computation, window_dimensions, window_strides, (), (), padding
        )

    @_deferred
    def Trace(self, tag: str, operand: XlaOp) -> None:
        """Logs the operand, under a tag, when the program runs."""
        ops.Trace(tag, operand)

    # Convolutions.

    @staticmethod
    def CreateDefaultConvDimensionNumbers() -> ConvolutionDimensionNumbers:
        """The dimension numbers for input [batch, feature, height, width] and kernel [output feature, input
        feature, height, width].
        """
        return ComputationBuilder.CreateConvDimensionNumbers(0, 1, 2, 3, 0, 1, 2, 3)

    @staticmethod
    def CreateConvDimensionNumbers(
        batch: int, feature: int, first_spatial: int, second_spatial: int,
        kernel_output_feature: int, kernel_input_feature: int, kernel_first_spatial: int,
        kernel_second_spatial: int,
    ) -> ConvolutionDimensionNumbers:  # fmt: skip
        """The dimension numbers of a convolution, with the numbers of each dimension; InvalidArgument if two
        dimensions of the input or of the kernel have the same number.
        """
        for what, places in (
            ("input", (batch, feature, first_spatial, second_spatial)),
            (
                "kernel",
                (kernel_output_feature, kernel_input_feature, kernel_first_spatial, kernel_second_spatial),
            ),
        ):
            if len({integer(place, f"convolution: the {what} dimensions") for place in places}) != 4:
                message = f"convolution: the {what} dimensions {places} are not four different numbers"
                raise InvalidArgument(message)
        return ConvolutionDimensionNumbers(
            batch, feature, [first_spatial, second_spatial],
            kernel_output_feature, kernel_input_feature, [kernel_first_spatial, kernel_second_spatial],
            batch, feature, [first_spatial, second_spatial],
        )  # fmt: skip

    # Constants, sub-builders and the result.

    def IsConstant(self, operand: XlaOp) -> bool:
        """Whether ComputeConstant can compute the value: it does not depend on parameters."""
        self._raise_noted()
        return self._builder.is_constant(operand, random=True)

    def ComputeConstant(self, handle: XlaOp, output_layout: Layout | None = None) -> Any:
        """The value of a handle that depends on no parameter, as data of the client (as a Literal without a
        client). Random numbers may differ from call to call.
        """
        self._raise_noted()
        computation = self._builder.build_constant_subgraph(handle, random=True)
        literal = evaluate(computation.module, [])
        if output_layout is not None:
            instance(Layout, output_layout, "ComputeConstant: output_layout")
            shape = instance(Shape, literal.shape, "ComputeConstant with a layout", "an array")
            literal = Literal(shape.with_layout(output_layout), literal.array)
        return literal if self._client is None else self._client.TransferToServer(literal)

    def CreateSubBuilder(self, computation_name: str) -> ComputationBuilder:
        """A builder for a computation that only this builder uses; it raises mistakes at once if this builder
        does.
        """
        return ComputationBuilder(self._client, computation_name, parent=self)

    def SetReturnValue(self, operand: XlaOp) -> None:
        """Makes `operand` the result of the computation, which is otherwise the op added last."""
        self._raise_noted()
        if instance(XlaOp, operand, "SetReturnValue").builder is not self._builder:
            raise InvalidArgument("SetReturnValue: the operand belongs to another builder")
        self._return_value = operand

    def Build(self) -> XlaComputation:
        """The computation; raises the first mistake, if there is one."""
        error, self._error = self._error, None
        result, self._return_value = self._return_value, None
        if error is not None:
            self._builder = XlaBuilder(self._builder.name)
            raise error
        return self._builder.build(result)

    def BuildAndNoteError(self) -> XlaComputation:
        """Returns the computation, as Build does. A mistake becomes the mistake of the parent builder instead
        of being raised; the returned computation is then empty.
        """
        if self._parent is None:
            raise InvalidArgument(f"BuildAndNoteError: builder '{self.name()}' has no parent; use Build")
        try:
            return self.Build()
        except AxlaError as error:
            if self._parent._die_immediately:
                raise
            if self._parent._error is None:
                self._parent._error = error
            return XlaComputation()

    def first_error(self) -> AxlaError | None:
        """The mistake that Build will raise; None if there is none."""
        return self._error

    def _raise_noted(self) -> None:
        if self._error is not None:
            raise self._error


_NATIVE = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}


def _native(values: Any, native_type: Any) -> np.ndarray:
    """Converts values to an array. Its element type follows the table of native types in XLA's documents."""
    if native_type is not None:
        kind = _NATIVE.get(native_type) if isinstance(native_type, type) else None
        return _array(values, element_type(kind or native_type, "native_type").numpy)
    if isinstance(values, (np.ndarray, np.generic)):
        return np.asarray(values)
    if isinstance(values, Literal):
        return values.array
    array = _array(values)
    first = values
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    if isinstance(first, np.generic):
        return array  # NumPy's scalars keep their type
    wanted = _NATIVE.get({"b": bool, "i": int, "f": float, "c": complex}.get(array.dtype.kind))
    if wanted is None:
        raise InvalidArgument(f"constant: found {array.dtype} values, wanted bool, int, float or complex")
    if wanted is np.int32 and array.size and not -(2**31) <= array.min() <= array.max() < 2**31:
        raise InvalidArgument("constant: the values do not fit in s32; give native_type=np.int64")
    return array.astype(wanted)


def _array(values: Any, dtype: Any = None) -> np.ndarray:
    try:
        return np.asarray(values, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"constant: {error}") from None


def _method(function: Callable[..., XlaOp]) -> Callable[..., Any]:
    """Makes a method of a function of `ops`. If the function's first argument is a builder, the method passes
    the builder of its own object.
    """
    parameters = list(inspect.signature(function).parameters.values())
    takes_builder = parameters[0].name == "builder"

    @functools.wraps(function)
    def method(self: ComputationBuilder, *arguments: Any, **named: Any) -> Any:
        given = (self._builder, *arguments) if takes_builder else arguments
        found = function(*given, **named)
        if found.builder is not self._builder:
            raise InvalidArgument(f"{function.__name__}: an operand belongs to another builder")
        return found

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = inspect.Signature([own, *parameters[takes_builder:]])  # type: ignore[attr-defined]
    return _deferred(method)


def _f32_method(name: str) -> Callable[..., Any]:
    """Makes a method of the function `name` of `ops`. It accepts only f32 arrays, as in XLA's first
    documents.
    """

    def method(self: ComputationBuilder, operand: Any) -> XlaOp:
        value = self._typed(f"{name}F32", F32, operand)
        return getattr(ops, name)(*value)

    method.__doc__ = f"{getattr(ops, name).__doc__} Of f32 arrays."
    return _deferred(method)


def snake_case(name: str) -> str:
    """The snake_case form of a CamelCase name: ConstantR2FromArray2D becomes constant_r2_from_array2d."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])", "_", name).lower()


def _install() -> None:
    for name, function in sorted(ops.FUNCTIONS.items()):
        if not hasattr(ComputationBuilder, name) and function.__annotations__.get("return") == "XlaOp":
            setattr(ComputationBuilder, name, _method(function))
    for alias, name in (("CustomCallOp", "CustomCall"), ("Concatenate", "ConcatInDim")):
        setattr(ComputationBuilder, alias, getattr(ComputationBuilder, name))
    for name in ("Sqrt", "Square", "Reciprocal"):
        setattr(ComputationBuilder, f"{name}F32", _f32_method(name))
    for name, method in list(vars(ComputationBuilder).items()):
        if name[0].isupper() and snake_case(name) not in vars(ComputationBuilder):
            setattr(ComputationBuilder, snake_case(name), method)


_install()
