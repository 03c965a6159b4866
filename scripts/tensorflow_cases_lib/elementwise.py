"""Draws operands for elementwise operations, reductions, prefix sums, argmax and top-k."""

from __future__ import annotations

import numpy as np

from tensorflow_cases_lib.draw import Draw, rule

_SLACK = (
    (
        20.0,
        "MatrixInverse MatrixSolve MatrixTriangularSolve Cholesky Qr Svd SelfAdjointEigV2 "
        "LogMatrixDeterminant MatrixDeterminant TridiagonalSolve XlaSvd XlaSelfAdjointEig FFT FFT2D "
        "FFT3D IFFT IFFT2D IFFT3D RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D",
    ),
    (
        2.0,
        "Sum Mean Prod EuclideanNorm Cumsum Cumprod CumulativeLogsumexp MatMul BatchMatMul "
        "BatchMatMulV2 BatchMatMulV3 Conv Conv2D Conv3D Conv2DBackpropFilter Conv2DBackpropInput "
        "Conv3DBackpropFilterV2 Conv3DBackpropInputV2 DepthwiseConv2dNative "
        "DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Einsum XlaDot XlaDotV2 "
        "XlaConv XlaConvV2 XlaEinsum AvgPool AvgPoolGrad AvgPool3D AvgPool3DGrad BiasAddGrad "
        "SparseMatMul L2Loss FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad "
        "FusedBatchNormGradV2 FusedBatchNormGradV3 _FusedConv2D _FusedBatchNormEx "
        "UnsortedSegmentSum SegmentSum SegmentSumV2 SegmentMean TridiagonalMatMul ResizeBilinearGrad "
        "ResizeBilinear AddN StatelessParameterizedTruncatedNormal AccumulateNV2 "
        "SoftmaxCrossEntropyWithLogits "
        "SparseSoftmaxCrossEntropyWithLogits LRN LRNGrad AdjustContrastv2",
    ),
)
SLACK = {name: slack for slack, names in _SLACK for name in names.split()}
"""The factor by which an operation may exceed the tolerance, relative to the largest element."""

BROADCAST = (
    "Add AddV2 Sub Mul Div RealDiv DivNoNan MulNoNan FloorDiv TruncateDiv Maximum Minimum Atan2 "
    "Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr SquaredDifference Xdivy "
    "Xlogy Xlog1py NextAfter BitwiseAnd BitwiseOr BitwiseXor Complex Mod FloorMod TruncateMod"
)


def plain(c: Draw) -> None:
    """Draws operands of one common shape."""
    c.special = True


def pair(c: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast to a common one."""
    whole = c.dims(0, 4, 0 if c.chance(0.1) else 1)
    one, two = ([1 if c.chance(0.2) else n for n in whole] for _ in range(2))
    return tuple(one[c.int(0, len(one)) if c.chance(0.3) else 0 :]), tuple(two)


@rule(BROADCAST)
def broadcast(c: Draw) -> None:
    c.special = c.op not in ("FloorDiv", "TruncateDiv", "Mod", "FloorMod", "TruncateMod")
    shapes = pair(c)
    if c.chance(0.5):
        shapes = shapes[::-1]
    for operand, shape in zip(c.record.operands, shapes, strict=True):
        value = c.data(operand.name, shape)
        if operand is c.record.operands[1] and value.dtype.kind in "iu" and ("Div" in c.op or "Mod" in c.op):
            value[value == 0] = 3
    _fix_complex(c)


def _fix_complex(c: Draw) -> None:
    if "Tout" in c.types and "T" in c.types:
        c.attr(
            "Tout",
            {"DT_FLOAT": "DT_COMPLEX64", "DT_DOUBLE": "DT_COMPLEX128"}.get(c.type("T"), "DT_COMPLEX64"),
        )


@rule("Real Imag Angle ComplexAbs")
def parts(c: Draw) -> None:
    c.attr("Tout", "DT_FLOAT" if c.type("T") == "DT_COMPLEX64" else "DT_DOUBLE")


@rule("LeftShift RightShift")
def shifts(c: Draw) -> None:
    one, two = pair(c)
    bits = c.data("x", one).dtype.itemsize * 8
    c.data("y", two, 0, bits - 1)


@rule("Pow")
def power(c: Draw) -> None:
    one, two = pair(c)
    c.data("x", one, *((-3, 3) if "INT" in c.type("T") else (0.1, 3)))
    c.data("y", two, *((0, 4) if "INT" in c.type("T") else (-3, 3)))


@rule("Igamma Igammac IgammaGradA RandomGammaGrad Zeta Polygamma Betainc")
def gammas(c: Draw) -> None:
    shape = c.dims(0, 2)
    names = [o.name for o in c.record.operands]
    for name in names:
        c.data(name, () if c.chance(0.2) and c.op != "Betainc" else shape, 0.2, 6.0)
    if c.op == "Betainc":
        c.data("x", shape, 0.0, 1.0)
    if c.op == "Zeta":
        c.data("x", shape, 1.2, 6.0)
    if c.op == "Polygamma":
        c.put("a", np.floor(c.operands["a"][0]).clip(1))


@rule(
    "BesselJ0 BesselJ1 BesselK0 BesselK1 BesselK0e BesselK1e BesselY0 BesselY1 BesselI0 BesselI1 "
    "Lgamma Digamma Dawsn"
)
def positive(c: Draw) -> None:
    c.data("x", c.dims(), 0.1, 20.0)


@rule("Erfinv Ndtri Acos Asin Atanh")
def small(c: Draw) -> None:
    c.data("x", c.dims(), 0.01, 0.99)


@rule("ClipByValue")
def clip(c: Draw) -> None:
    shape = c.dims()
    c.data("t", shape)
    c.data("clip_value_min", () if c.chance(0.5) else shape, 0, 2)
    c.data("clip_value_max", () if c.chance(0.5) else shape, 3, 6)


@rule("CheckNumerics CheckNumericsV2 PreventGradient")
def message(c: Draw) -> None:
    c.attr("message", "found")


@rule("AddN")
def add_n(c: Draw) -> None:
    """Draws operands of one common shape."""


@rule("Cast")
def cast(c: Draw) -> None:
    c.scale = 5.0
    if "UINT" in c.type("DstT"):
        c.data("x", c.dims(), 0, 50)


@rule("Bitcast")
def bitcast(c: Draw) -> None:
    c.data("input", (*c.dims(0, 2), c.one(1, 2, 4, 8)))


@rule("ApproximateEqual")
def nearly(c: Draw) -> None:
    c.attr("tolerance", c.one(1e-5, 0.5, 2.0))


@rule("Cross")
def cross(c: Draw) -> None:
    c.common = (*c.dims(0, 2), 3)


@rule("Select")
def select(c: Draw) -> None:
    shape = c.dims(1, 3)
    c.common = shape
    c.data("condition", c.one(shape, shape[:1], ()))


@rule("SelectV2")
def select_broadcast(c: Draw) -> None:
    one, two = pair(c)
    c.data("condition", one), c.data("t", two), c.data("e", c.one(one, two))


@rule("_UnaryOpsComposition")
def composition(c: Draw) -> None:
    c.attr(
        "op_names", tuple(c.one("Abs", "Neg", "Exp", "Tanh", "Relu", "Square", "Sigmoid") for _ in range(3))
    )
    c.data("x", c.dims(1, 3))


@rule("LeakyRelu LeakyReluGrad")
def leaky(c: Draw) -> None:
    c.attr("alpha", c.one(0.2, 0.01, 1.5, 0.0))


# reductions, prefix sums


@rule("Sum Prod Max Min Mean Any All EuclideanNorm")
def reduction(c: Draw) -> None:
    c.special = c.op in ("Max", "Min")
    shape = c.dims(0, 4, 0 if c.chance(0.1) else 1)
    c.data("input", shape)
    axes = [n - c.one(0, len(shape)) for n in range(len(shape)) if c.chance(0.5)]
    if len(axes) == 1 and c.chance(0.5):
        axes = axes[0]
    c.const("reduction_indices", np.array(axes, int))


@rule("ArgMax ArgMin")
def extreme(c: Draw) -> None:
    shape = c.dims(1, 4)
    c.data("input", shape)
    c.const("dimension", c.int(-len(shape), len(shape) - 1))


@rule("Cumsum Cumprod CumulativeLogsumexp")
def prefixes(c: Draw) -> None:
    shape = c.dims(1, 3, 0 if c.chance(0.1) else 1)
    c.data("x", shape)
    c.const("axis", c.int(-len(shape), len(shape) - 1))


@rule("BiasAdd BiasAddV1")
def bias(c: Draw) -> None:
    shape = c.dims(3 if c.op == "BiasAdd" else 2, 4)
    c.data("value", shape)
    first = c.op == "BiasAdd" and c.attr("data_format", c.one("NHWC", "NCHW")) == "NCHW"
    c.data("bias", (shape[1] if first else shape[-1],))


@rule("BiasAddGrad")
def bias_grad(c: Draw) -> None:
    c.data("out_backprop", c.dims(3, 4))


@rule("Softmax LogSoftmax")
def softmax(c: Draw) -> None:
    c.data("logits", c.dims(1, 3))


@rule("SoftmaxCrossEntropyWithLogits")
def entropy(c: Draw) -> None:
    shape = c.dims(2, 2)
    c.data("features", shape)
    labels = c.array(shape, "T", 0.05, 1.0)
    c.fed("labels", labels / labels.sum(-1, keepdims=True))


@rule("SparseSoftmaxCrossEntropyWithLogits")
def sparse_entropy(c: Draw) -> None:
    rows, columns = c.dims(2, 2)
    c.data("features", (rows, columns)), c.data("labels", (rows,), 0, columns - 1)


@rule("Bincount DenseBincount")
def bincount(c: Draw) -> None:
    shape = c.dims(1, 2)
    c.data("arr" if c.op == "Bincount" else "input", shape, 0, 7)
    c.const("size", c.int(3, 9))
    c.data("weights", c.one(shape, (0,)))


@rule("Bucketize")
def bucketize(c: Draw) -> None:
    c.attr("boundaries", tuple(sorted(float(c.int(-8, 8)) for _ in range(c.int(1, 5)))))


@rule("HistogramFixedWidth")
def histogram(c: Draw) -> None:
    c.attr("dtype", c.one("DT_INT32", "DT_INT64"))
    c.data("values", c.dims(1, 2)), c.const("value_range", [-3, 4]), c.const("nbins", c.int(1, 6))


@rule("LowerBound UpperBound")
def bounds(c: Draw) -> None:
    rows, columns, found = c.dims(3, 3)
    c.fed("sorted_inputs", np.sort(c.array((rows, columns), "T"), -1))
    c.data("values", (rows, found))


@rule("TopK TopKV2 NthElement ApproxTopK InTopK InTopKV2")
def largest(c: Draw) -> None:
    shape = c.dims(1, 3)
    if c.op == "TopK":
        c.producer = 6
    if c.op == "NthElement":
        c.data("input", shape), c.const("n", c.int(0, shape[-1] - 1))
        return
    if c.op.startswith("InTopK"):
        rows, columns = c.dims(2, 2)
        c.data("predictions", (rows, columns)), c.data("targets", (rows,), 0, columns - 1)
        (c.attr if c.op == "InTopK" else c.const)("k", c.int(1, columns))
        return
    c.data("input", shape)
    (c.const if c.op == "TopKV2" else c.attr)("k", c.int(1, shape[-1]))
    if c.op != "ApproxTopK":
        c.attr("sorted", True)
