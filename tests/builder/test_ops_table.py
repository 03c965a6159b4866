"""Every public name of XLA's Python module `ops` builds what it says."""

import ml_dtypes
import numpy as np
import pytest

import axla.ops
from axla.builder import XlaBuilder, ops
from axla.builder.records import (
    ChannelHandle,
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingType,
    PrecisionConfig,
    PrecisionConfig_Precision,
    ReplicaGroup,
    ScatterDimensionNumbers,
    make_padding_config,
)
from axla.core.dtypes import C64, F32, PRED, S32, U32
from axla.core.errors import InvalidArgument, ShapeError, UnsupportedError
from axla.core.shape import Layout, Shape, TupleShape
from axla.ir.attributes import OutputAlias, Precision
from axla.ir.verify import verify
from axla.text import parse_hlo

FUNCTIONS = [
    "AfterAll", "AllGather", "AllReduce", "ReduceScatter", "AllToAll", "ApproxTopK", "ApproxTopKFallback",
    "ApproxTopKReductionOutputSize", "BitcastConvertType", "Broadcast", "BroadcastInDim", "Call",
    "Cholesky", "Clamp", "Collapse", "CollectivePermute", "ConcatInDim", "Conditional", "Constant",
    "ConstantLiteral", "ConvGeneralDilated", "ConvertElementType", "CreateToken", "CrossReplicaSum",
    "CustomCall", "CustomCallWithLayout", "CustomCallWithAliasing", "CustomCallWithComputation", "Dot",
    "DotGeneral", "DynamicReshape", "DynamicSlice", "DynamicUpdateSlice", "Eigh", "Fft", "Gather",
    "GetDimensionSize", "GetTupleElement", "InfeedWithToken", "Iota", "LU", "Map", "MultiCollectivePermute",
    "NextAfter", "OutfeedWithToken", "Pad", "Parameter", "ProductOfElementaryHouseholderReflectors", "QR",
    "QrDecomposition", "RecvFromHost", "Reduce", "ReducePrecision", "ReduceWindowWithGeneralPadding",
    "RemoveDynamicDimension", "ReplicaId", "Reshape", "Rev", "RngBitGenerator", "RngNormal", "RngUniform",
    "Scatter", "Select", "SelectAndScatterWithGeneralPadding", "SendToHost", "SetDimensionSize", "Slice",
    "SliceInDim", "Sort", "SVD", "TopK", "Transpose", "TriangularSolve", "Tuple", "While", "Igamma",
    "Igammac", "IgammaGradA", "RandomGammaGrad", "RegularizedIncompleteBeta", "Zeta", "Cbrt", "Cos", "Erf",
    "Exp", "Expm1", "Log", "Log1p", "Logistic", "Rsqrt", "Sin", "Sqrt", "Tan", "Tanh", "Eq", "Ne", "Ge",
    "Gt", "Lt", "Le", "Add", "Sub", "Mul", "Div", "Rem", "Max", "Min", "And", "Or", "Xor", "ShiftLeft",
    "ShiftRightArithmetic", "ShiftRightLogical", "Atan2", "Pow", "Complex", "Not", "PopulationCount", "Clz",
    "Abs", "Floor", "Ceil", "Round", "Sign", "IsFinite", "Neg", "Square", "Reciprocal", "Erfc", "ErfInv",
    "Lgamma", "Digamma", "BesselI0e", "BesselI1e", "Acos", "Asin", "Atan", "Acosh", "Asinh", "Atanh",
    "Cosh", "Sinh", "Real", "Imag", "Conj", "OptimizationBarrier", "EqTotalOrder", "NeTotalOrder",
    "GeTotalOrder", "GtTotalOrder", "LtTotalOrder", "LeTotalOrder", "RoundNearestEven", "PadInDim",
    "ReduceAll",
    # Not in the Python module, but in the C++ interface or the documents.
    "BatchNormGrad", "BatchNormInference", "BatchNormTraining", "Conv", "ConvGeneral",
    "ConvWithGeneralDimensions", "ConvWithGeneralPadding", "Infeed", "Outfeed", "PartitionId", "Recv",
    "Polygamma", "ReduceWindow", "RngBernoulli", "SelectAndScatter", "Send",
]  # fmt: skip
RECORDS = [
    "ShapeIndex", "FftType", "PrecisionConfig_Precision", "TriangularSolveOptions_Transpose",
    "RandomAlgorithm", "ResultAccuracy_Mode", "CustomCallSchedule", "CustomCallApiVersion",
]  # fmt: skip

F, I, U, C = (np.ones((2, 3), d) for d in (np.float32, np.int32, np.uint32, np.complex64))  # noqa: E741
UNARY_FLOAT = [
    "Cbrt", "Cos", "Erf", "Exp", "Expm1", "Log", "Log1p", "Logistic", "Rsqrt", "Sin", "Sqrt", "Tan", "Tanh",
    "Abs", "Floor", "Ceil", "Round", "Sign", "Neg", "Square", "Reciprocal", "Erfc", "ErfInv", "Lgamma",
    "Digamma", "Acos", "Asin", "Atan", "Acosh", "Asinh", "Atanh", "Cosh", "Sinh", "Real", "Imag", "Conj",
    "OptimizationBarrier", "RoundNearestEven", "BesselI0e", "BesselI1e",
]  # fmt: skip
BINARY_FLOAT = [
    "Add", "Sub", "Mul", "Div", "Rem", "Max", "Min", "Atan2", "Pow", "NextAfter", "Igamma", "Igammac",
    "IgammaGradA", "RandomGammaGrad", "Zeta", "Polygamma",
]  # fmt: skip
BINARY_INT = [
    "And", "Or", "Xor", "ShiftLeft", "ShiftRightArithmetic", "ShiftRightLogical",
]  # fmt: skip
COMPARE = [name + order for name in ["Eq", "Ne", "Ge", "Gt", "Lt", "Le"] for order in ("", "TotalOrder")]


def scalar_computation(b, *opcodes):
    """(x, y) -> (ops of x and y...): a reducer of as many values as ops."""
    sub = b.sub_builder("scalars")
    count = len(opcodes)
    x = [ops.Parameter(sub, n, Shape(F32)) for n in range(2 * count)]
    results = [op(x[n], x[n + count]) for n, op in enumerate(opcodes)]
    return sub.build(results[0] if count == 1 else ops.Tuple(sub, results))


def _unary_computation(b, opcode=ops.Neg):
    sub = b.sub_builder("unary")
    return sub.build(opcode(ops.Parameter(sub, 0, Shape(F32))))


def c(b, value):
    return ops.Constant(b, value)


ROWS = GatherDimensionNumbers(
    offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1
)
ADD_ROWS = ScatterDimensionNumbers([1], [0], [0], 1)
PICK = np.array([[1], [0], [1]], np.int32)
TWO = Shape(F32, (2,))
V, IMAGE, KERNEL = (
    np.ones(3, np.float32),
    np.ones((2, 3, 8, 9), np.float32),
    np.ones((4, 3, 3, 2), np.float32),
)
NHWC = ConvolutionDimensionNumbers(0, 3, [1, 2], 3, 2, [0, 1], 0, 3, [1, 2])
PAIRS, GROUPS, CHANNEL = [(1, 2), (0, 1)], [ReplicaGroup([0, 1]), [2, 3]], ChannelHandle(7)


def _scatter_windows(b, function, padding, source):
    more = (scalar_computation(b, ops.Ge), [2, 2], [2, 2], padding)
    return function(c(b, np.ones((4, 6), np.float32)), *more, source, 0, scalar_computation(b, ops.Add))


# One call of each function that is more than elementwise, and the shape it gives.
CALLS = {
    "AfterAll": (lambda b: ops.AfterAll(b, [ops.CreateToken(b)]), "token[]"),
    "BitcastConvertType": (lambda b: ops.BitcastConvertType(c(b, F), np.int16), "s16[2,3,2]"),
    "Broadcast": (lambda b: ops.Broadcast(c(b, F), [4, 5]), "f32[4,5,2,3]"),
    "BroadcastInDim": (lambda b: ops.BroadcastInDim(c(b, F[:1]), [2, 9, 3], [0, 2]), "f32[2,9,3]"),
    "Call": (lambda b: ops.Call(b, scalar_computation(b, ops.Add), [c(b, F[0, 0]), c(b, F[0, 0])]), "f32[]"),
    "Clamp": (lambda b: ops.Clamp(0, c(b, F), 1), "f32[2,3]"),
    "Clz": (lambda b: ops.Clz(c(b, I)), "s32[2,3]"),
    "Collapse": (lambda b: ops.Collapse(c(b, np.zeros((2, 3, 4, 5))), [1, 2]), "f64[2,12,5]"),
    "Complex": (lambda b: ops.Complex(c(b, F), 0), "c64[2,3]"),
    "ConcatInDim": (lambda b: ops.ConcatInDim(b, [c(b, F), F], 1), "f32[2,6]"),
    "CompositeCall": (
        lambda b: ops.CompositeCall(b, _unary_computation(b), [F[0, 0]], "own.negate", "{n = 1 : i32}", 2),
        "f32[]",
    ),
    "Conditional": (
        lambda b: ops.Conditional(
            c(b, np.int32(1)),
            [_unary_computation(b), _unary_computation(b, opcode=ops.Abs)],
            [F[0, 0], F[0, 0]],
        ),
        "f32[]",
    ),
    "Constant": (lambda b: ops.Constant(b, ml_dtypes.bfloat16(1)), "bf16[]"),
    "ConstantLiteral": (lambda b: ops.ConstantLiteral(b, F), "f32[2,3]"),
    "ConvertElementType": (lambda b: ops.ConvertElementType(c(b, C), "bf16"), "bf16[2,3]"),
    "CreateToken": (lambda b: ops.CreateToken(b), "token[]"),
    "CustomCall": (lambda b: ops.CustomCall(b, b"f", [c(b, F)], TWO, b"opaque"), "f32[2]"),
    "CustomCallWithLayout": (
        lambda b: ops.CustomCallWithLayout(
            b, b"f", [c(b, F)], TWO, [Shape(F32, (2, 3), layout=Layout((0, 1)))]
        ),
        "f32[2]",
    ),
    "CustomCallWithAliasing": (
        lambda b: ops.CustomCallWithAliasing(
            b,
            b"f",
            [c(b, F)],
            Shape(F32, (2, 3)),
            [Shape(F32, (2, 3))],
            output_operand_aliasing=[(ops.ShapeIndex(()), (0, ops.ShapeIndex(())))],
        ),
        "f32[2,3]",
    ),  # fmt: skip
    "CustomCallWithComputation": (
        lambda b: ops.CustomCallWithComputation(b, b"f", [], _unary_computation(b), TWO),
        "f32[2]",
    ),
    "Dot": (lambda b: ops.Dot(c(b, F), F.T), "f32[2,2]"),
    "DotGeneral": (lambda b: ops.DotGeneral(c(b, F), F, DotDimensionNumbers([1], [1])), "f32[2,2]"),
    "DynamicReshape": (
        lambda b: ops.DynamicReshape(c(b, F), [c(b, np.int32(2)), 3], [2, 3], [True, False]),
        "f32[<=2,3]",
    ),
    "DynamicSlice": (lambda b: ops.DynamicSlice(c(b, F), [c(b, np.int32(1)), 0], [1, 2]), "f32[1,2]"),
    "DynamicUpdateSlice": (lambda b: ops.DynamicUpdateSlice(c(b, F), F[:1], [0, 0]), "f32[2,3]"),
    "Gather": (lambda b: ops.Gather(c(b, F), PICK, ROWS, [1, 3]), "f32[3,3]"),
    "GetTupleElement": (lambda b: ops.GetTupleElement(ops.Tuple(b, [F, I]), 1), "s32[2,3]"),
    "Iota": (lambda b: ops.Iota(b, "s32", 4), "s32[4]"),
    "IsFinite": (lambda b: ops.IsFinite(c(b, F)), "pred[2,3]"),
    "Map": (lambda b: ops.Map(b, [F, F], scalar_computation(b, ops.Add), [0, 1]), "f32[2,3]"),
    "Not": (lambda b: ops.Not(c(b, I)), "s32[2,3]"),
    "Pad": (lambda b: ops.Pad(c(b, F), 0, make_padding_config([(1, 2, 0), (0, 0, 1)])), "f32[5,5]"),
    "PadInDim": (lambda b: ops.PadInDim(c(b, F), 0, 1, 2, 3), "f32[2,8]"),
    "Parameter": (
        lambda b: ops.Parameter(b, 0, TupleShape((TWO, TWO)), "p", [True, False]),
        "(f32[2], f32[2])",
    ),
    "PopulationCount": (lambda b: ops.PopulationCount(c(b, U)), "u32[2,3]"),
    "Reduce": (
        lambda b: ops.Reduce(
            b, [F, F], [np.float32(0), np.float32(1)], scalar_computation(b, ops.Add, ops.Mul), [1]
        ),
        "(f32[2], f32[2])",
    ),
    "ReduceAll": (lambda b: ops.ReduceAll(c(b, F), 0, scalar_computation(b, ops.Add)), "f32[]"),
    "ReducePrecision": (lambda b: ops.ReducePrecision(c(b, F), 8, mantissa_bits=7), "f32[2,3]"),
    "Reshape": (lambda b: ops.Reshape(c(b, F), [3, 2]), "f32[3,2]"),
    "Rev": (lambda b: ops.Rev(c(b, F), [0, 1]), "f32[2,3]"),
    "Scatter": (
        lambda b: ops.Scatter(
            c(b, F), PICK, np.ones((3, 3), np.float32), scalar_computation(b, ops.Add), ADD_ROWS
        ),
        "f32[2,3]",
    ),
    "Select": (lambda b: ops.Select(c(b, np.bool_(True)), F, c(b, F)), "f32[2,3]"),
    "Slice": (lambda b: ops.Slice(c(b, F), [0, 1], [2, 3], [1, 2]), "f32[2,1]"),
    "SliceInDim": (lambda b: ops.SliceInDim(c(b, F), 0, 3, 2, 1), "f32[2,2]"),
    "Sort": (lambda b: ops.Sort(b, [F, I], is_stable=True, comparator=_less(b)), "(f32[2,3], s32[2,3])"),
    "TopK": (lambda b: ops.TopK(c(b, F), 2), "(f32[2,2], s32[2,2])"),
    "Transpose": (lambda b: ops.Transpose(c(b, F), [1, 0]), "f32[3,2]"),
    "Tuple": (lambda b: ops.Tuple(b, [F, c(b, I)]), "(f32[2,3], s32[2,3])"),
    "While": (
        lambda b: ops.While(_below_ten(b), _unary_computation(b, opcode=ops.Square), c(b, F[0, 0])),
        "f32[]",
    ),
}

# The same for windows, linear algebra, random numbers, collectives and transfers.
CALLS |= {
    "Conv": (lambda b: ops.Conv(c(b, IMAGE), KERNEL, [2, 1], PaddingType.SAME), "f32[2,4,4,9]"),
    "ConvWithGeneralPadding": (
        lambda b: ops.ConvWithGeneralPadding(c(b, IMAGE), KERNEL, [1, 1], PAIRS), "f32[2,4,9,9]"
    ),
    "ConvWithGeneralDimensions": (
        lambda b: ops.ConvWithGeneralDimensions(
            c(b, IMAGE.transpose(0, 2, 3, 1)), KERNEL.transpose(2, 3, 1, 0), [1, 1], PaddingType.VALID, NHWC
        ),
        "f32[2,6,8,4]",
    ),
    "ConvGeneral": (
        lambda b: ops.ConvGeneral(
            c(b, IMAGE.transpose(0, 2, 3, 1)), KERNEL.transpose(2, 3, 1, 0), [1, 2], PAIRS, NHWC
        ),
        "f32[2,9,5,4]",
    ),
    "ConvGeneralDilated": (
        lambda b: ops.ConvGeneralDilated(
            c(b, IMAGE.transpose(0, 2, 3, 1)), KERNEL[:3, :1].transpose(2, 3, 1, 0), [1, 1], PAIRS, [2, 1],
            [1, 3], NHWC, 3, 1, None, "f64", [True, False],
        ),
        "f64[2,16,7,3]",
    ),
    "ReduceWindow": (
        lambda b: ops.ReduceWindow(
            c(b, F), 0, scalar_computation(b, ops.Add), [2, 2], [1, 2], PaddingType.SAME
        ),
        "f32[2,2]",
    ),
    "ReduceWindowWithGeneralPadding": (
        lambda b: ops.ReduceWindowWithGeneralPadding(
            [c(b, F), F], [np.float32(0), np.float32(1)], scalar_computation(b, ops.Add, ops.Mul),
            [2, 2], [1, 1], [1, 2], [1, 2], PAIRS,
        ),
        "(f32[4,4], f32[4,4])",
    ),
    "SelectAndScatter": (
        lambda b: _scatter_windows(b, ops.SelectAndScatter, PaddingType.VALID, np.ones((2, 3), np.float32)),
        "f32[4,6]",
    ),
    "SelectAndScatterWithGeneralPadding": (
        lambda b: _scatter_windows(
            b, ops.SelectAndScatterWithGeneralPadding, [(1, 1), (0, 2)], np.ones((3, 4), np.float32)
        ),
        "f32[4,6]",
    ),
    "Fft": (lambda b: ops.Fft(c(b, F), ops.FftType.RFFT, [2, 3]), "c64[2,2]"),
    "Cholesky": (lambda b: ops.Cholesky(c(b, np.eye(3))), "f64[3,3]"),
    "TriangularSolve": (
        lambda b: ops.TriangularSolve(
            c(b, np.eye(3)), np.ones((3, 2)), True, True, False,
            ops.TriangularSolveOptions_Transpose.TRANSPOSE,
        ),
        "f64[3,2]",
    ),
    "BatchNormTraining": (
        lambda b: ops.BatchNormTraining(c(b, F), V, V, 0.5, 1), "(f32[2,3], f32[3], f32[3])"
    ),
    "BatchNormInference": (lambda b: ops.BatchNormInference(c(b, F), V, V, V, V, 0.5, 1), "f32[2,3]"),
    "BatchNormGrad": (
        lambda b: ops.BatchNormGrad(c(b, F), V, V, V, F, 0.5, 1), "(f32[2,3], f32[3], f32[3])"
    ),
    "RngUniform": (lambda b: ops.RngUniform(c(b, np.int32(1)), 9, Shape(S32, (4,))), "s32[4]"),
    "RngNormal": (lambda b: ops.RngNormal(c(b, V[0]), 2, Shape(F32, (4,))), "f32[4]"),
    "RngBernoulli": (lambda b: ops.RngBernoulli(c(b, V[0]), Shape(U32, (4,))), "u32[4]"),
    "RngBitGenerator": (
        lambda b: ops.RngBitGenerator(
            ops.RandomAlgorithm.RNG_PHILOX, c(b, np.uint64([1, 2, 3])), Shape(U32, (4,))
        ),
        "(u64[3], u32[4])",
    ),
    "AllReduce": (
        lambda b: ops.AllReduce(
            ops.Tuple(b, [F, V]), scalar_computation(b, ops.Add), GROUPS, CHANNEL, None, True
        ),
        "(f32[2,3], f32[3])",
    ),
    "CrossReplicaSum": (lambda b: ops.CrossReplicaSum(c(b, F), GROUPS), "f32[2,3]"),
    "AllGather": (lambda b: ops.AllGather(c(b, F), 1, 2, GROUPS, CHANNEL), "f32[2,6]"),
    "ReduceScatter": (
        lambda b: ops.ReduceScatter(c(b, F), scalar_computation(b, ops.Add), 0, 2, GROUPS), "f32[1,3]"
    ),
    "AllToAll": (lambda b: ops.AllToAll(c(b, F), 0, 1, 2, GROUPS), "f32[1,6]"),
    "CollectivePermute": (lambda b: ops.CollectivePermute(c(b, F), PAIRS, CHANNEL), "f32[2,3]"),
    "MultiCollectivePermute": (
        lambda b: ops.MultiCollectivePermute([c(b, F), c(b, V)], PAIRS), "(f32[2,3], f32[3])"
    ),
    "ReplicaId": (lambda b: ops.ReplicaId(b), "u32[]"),
    "PartitionId": (lambda b: ops.PartitionId(b), "u32[]"),
    "GetDimensionSize": (lambda b: ops.GetDimensionSize(ops.SetDimensionSize(c(b, F), 2, 1), 1), "s32[]"),
    "SetDimensionSize": (lambda b: ops.SetDimensionSize(c(b, F), 2, -1), "f32[2,<=3]"),
    "RemoveDynamicDimension": (
        lambda b: ops.RemoveDynamicDimension(ops.SetDimensionSize(c(b, F), 2, 1), 1), "f32[2,3]"
    ),
    "Infeed": (lambda b: ops.Infeed(b, TWO), "f32[2]"),
    "InfeedWithToken": (
        lambda b: ops.InfeedWithToken(ops.CreateToken(b), TWO, "config"), "(f32[2], token[])"
    ),
    "Outfeed": (lambda b: ops.Outfeed(c(b, F), Shape(F32, (2, 3))), "()"),
    "OutfeedWithToken": (
        lambda b: ops.OutfeedWithToken(c(b, F), ops.CreateToken(b), Shape(F32, (2, 3)), "config"), "token[]"
    ),
    "Send": (lambda b: ops.Send(c(b, F), CHANNEL), "()"),
    "SendToHost": (
        lambda b: ops.SendToHost(c(b, F), ops.CreateToken(b), Shape(F32, (2, 3)), CHANNEL), "token[]"
    ),
    "Recv": (lambda b: ops.Recv(b, TWO, CHANNEL), "f32[2]"),
    "ApproxTopK": (lambda b: _best(b, ops.ApproxTopK), "(f32[2,2], s32[2,2])"),
    "ApproxTopKFallback": (lambda b: _best(b, ops.ApproxTopKFallback), "(f32[2,2], s32[2,2])"),
    "RegularizedIncompleteBeta": (lambda b: ops.RegularizedIncompleteBeta(c(b, F), 2.0, F), "f32[2,3]"),
    "LU": (lambda b: ops.Tuple(b, ops.LU(c(b, F))), "(f32[2,3], s32[2], s32[2])"),
    "QR": (lambda b: ops.Tuple(b, ops.QR(c(b, F.T), True)), "(f32[3,3], f32[3,2])"),
    "QrDecomposition": (lambda b: ops.Tuple(b, ops.QrDecomposition(c(b, F))), "(f32[2,3], f32[2])"),
    "ProductOfElementaryHouseholderReflectors": (
        lambda b: ops.ProductOfElementaryHouseholderReflectors(*ops.QrDecomposition(c(b, C.T))), "c64[3,2]"
    ),
    "Eigh": (
        lambda b: ops.Tuple(b, ops.Eigh(c(b, np.eye(3, dtype=np.complex64)), False)), "(c64[3,3], f32[3])"
    ),
    "SVD": (lambda b: ops.Tuple(b, ops.SVD(c(b, C))), "(c64[2,2], f32[2], c64[3,3])"),
    "RecvFromHost": (lambda b: ops.RecvFromHost(ops.CreateToken(b), TWO, CHANNEL), "(f32[2], token[])"),
}  # fmt: skip


def _best(b, function):
    return function(b, [c(b, F), I], [np.float32(0), np.int32(-1)], 2, 1, _less(b), 0.95, True, -1)


def _less(b):
    sub = b.sub_builder("less")
    x, y, *_ = [ops.Parameter(sub, n, Shape(F32 if n < 2 else S32)) for n in range(4)]
    return sub.build(x < y)


def _below_ten(b):
    sub = b.sub_builder("below_ten")
    return sub.build(ops.Parameter(sub, 0, Shape(F32)) < 10.0)


def test_every_function_has_a_case():
    cases = {"ApproxTopKReductionOutputSize", *CALLS, *UNARY_FLOAT, *BINARY_FLOAT, *BINARY_INT, *COMPARE}
    assert set(FUNCTIONS) - cases == set()


@pytest.mark.parametrize("name", FUNCTIONS + RECORDS)
def test_public_name(name):
    assert getattr(axla.ops, name) is getattr(ops, name)
    assert name in ops.__all__
    assert getattr(ops, name).__doc__


def test_unknown_name():
    with pytest.raises(AttributeError):
        _ = ops.NoSuchOp


@pytest.mark.parametrize("name", CALLS)
def test_call(b, name):
    make, shape = CALLS[name]
    op = make(b)
    assert op.shape.to_string(layout=False) == shape
    computation = b.build(op)
    assert computation.program_shape.result is op.shape
    verify(computation.module)
    text = computation.as_hlo_text()
    assert parse_hlo(text).to_string() == text


@pytest.mark.parametrize("name", UNARY_FLOAT)
def test_unary(b, name):
    assert getattr(ops, name)(c(b, F)).shape is Shape(F32, (2, 3))


@pytest.mark.parametrize("name", BINARY_FLOAT)
def test_binary(b, name):
    assert getattr(ops, name)(c(b, F), F).shape is Shape(F32, (2, 3))


@pytest.mark.parametrize("name", BINARY_INT)
def test_binary_integer(b, name):
    assert getattr(ops, name)(c(b, I), 1, []).shape is Shape(S32, (2, 3))


@pytest.mark.parametrize("name", COMPARE)
def test_compare(b, name):
    op = getattr(ops, name)(c(b, F), F[0], broadcast_dimensions=[1])
    assert op.shape is Shape(PRED, (2, 3))
    assert op.instruction.op.is_total_order == name.endswith("TotalOrder")


# Details.


def test_total_order_of_integers_is_their_own(b):
    assert ops.LtTotalOrder(c(b, I), I).instruction.op.type is None


def test_result_accuracy_other_than_default_is_refused(b):
    from axla.builder.records import ResultAccuracy

    assert ops.Exp(c(b, F), ResultAccuracy()).shape is Shape(F32, (2, 3))
    with pytest.raises(UnsupportedError, match="result_accuracy"):
        ops.Exp(c(b, F), ResultAccuracy("HIGHEST"))


def test_reduce_of_one_array(b, value):
    total = ops.Reduce(c(b, F), 0, scalar_computation(b, ops.Add), [-1])
    assert value(total).tolist() == [3, 3]
    with pytest.raises(InvalidArgument, match="Reduce: found"):
        ops.Reduce(c(b, F))


def test_conditional_by_pred(b, value):
    negate, same = _unary_computation(b), _unary_computation(b, opcode=ops.Abs)
    for flag, expected in ((True, -5), (False, 5)):
        pred, x = c(b, np.bool_(flag)), np.float32(5)
        assert value(ops.Conditional(pred, x, negate, x, same)) == expected
    with pytest.raises(InvalidArgument, match="Conditional: found"):
        ops.Conditional(c(b, np.bool_(True)), negate)


@pytest.mark.parametrize("pred", [np.int32(1), np.bool_([True]), np.uint8(0)])
def test_conditional_by_anything_but_pred_is_refused(b, pred):
    x, f = np.float32(5), _unary_computation(b)
    with pytest.raises(ShapeError, match="the predicate must be a pred of rank 0"):
        ops.Conditional(c(b, pred), x, f, x, f)


def test_reduce_precision_by_the_names_of_its_numbers(b):
    x = c(b, F)
    for op in (
        ops.ReducePrecision(x, exponent_bits=5, mantissa_bits=10),
        ops.ReducePrecision(x, mantissa_bits=10, exponent_bits=5),
        ops.ReducePrecision(x, 5, mantissa_bits=10),
        ops.ReducePrecision(x, 10, exponent_bits=5),
    ):
        assert (op.instruction.op.exponent_bits, op.instruction.op.mantissa_bits) == (5, 10)
    assert ops.ReducePrecision(x, 8, 8).instruction.op.mantissa_bits == 8
    for wrong in (lambda: ops.ReducePrecision(x, 5, 10), lambda: ops.ReducePrecision(x, 5),
                  lambda: ops.ReducePrecision(x, 5, 5, mantissa_bits=5)):  # fmt: skip
        with pytest.raises(InvalidArgument, match="wanted exponent_bits=... and mantissa_bits=... by name"):
            wrong()


def test_map_with_a_scalar_static_operand(b, value):
    f = scalar_computation(b, ops.Mul)
    assert value(ops.Map(b, [F * 2], f, [0, 1], [np.float32(3)])).tolist() == [[6] * 3] * 2
    with pytest.raises(ShapeError, match="call_called"):
        ops.Map(b, [F], f, [0, 1], [F])


def test_composite_call_runs_everywhere(b):
    x = ops.Parameter(b, 0, Shape(F32, (2,)), "x")
    sub = b.sub_builder("decomposition")
    body = sub.build(ops.Neg(ops.Parameter(sub, 0, Shape(F32, (2,)), "y")))
    module = b.build(ops.CompositeCall(b, body, [x], b"own.negate", version=3)).module
    assert module.entry.root.op.is_composite
    said = dict(module.entry.root.extra.frontend_attributes)
    assert (said["composite.name"], said["composite.version"]) == ("own.negate", "3")
    for backend in ("interpreter", "cpu", "one-lane"):
        result = axla.compile(module, backend=backend)(np.float32([1, 2]))
        assert np.asarray(result).tolist() == [-1, -2]
    for wrong in ({"name": ""}, {"name": "n", "version": -1}):
        with pytest.raises(InvalidArgument, match="CompositeCall"):
            ops.CompositeCall(b, body, [], **wrong)


def test_select_of_tuples(b):
    from axla.interpreter import evaluate

    first, second = ops.Tuple(b, [F, I]), ops.Tuple(b, [F * 2, I * 2])
    chosen = ops.Select(c(b, np.bool_(False)), first, second)
    found = evaluate(b.build(chosen).module, [])
    assert [e.array.max() for e in found.elements] == [2, 2]


def test_select_of_tuples_needs_a_scalar(b):
    with pytest.raises(ShapeError, match="select_tuple"):
        ops.Select(c(b, np.bool_([True])), ops.Tuple(b, [F]), ops.Tuple(b, [F]))


def test_select_broadcasts_scalars(b, value):
    assert value(ops.Select(c(b, F) > 0, 7.0, c(b, F))).tolist() == [[7] * 3] * 2
    with pytest.raises(InvalidArgument, match="has no dtype, and no operand is an array"):
        ops.Select(c(b, np.bool_(True)), 1, 2)


def test_dot_ranks(b):
    with pytest.raises(ShapeError, match="dot_ranks"):
        ops.Dot(c(b, F[None]), F)


def test_dot_types(b):
    with pytest.raises(ShapeError, match="dot_types"):
        ops.Dot(c(b, np.int8([1])), np.int32([1]))
    assert ops.Dot(c(b, np.int8([1])), np.int8([1]), preferred_element_type="s32").shape is Shape(S32)


def test_dot_precision(b):
    config = PrecisionConfig([PrecisionConfig_Precision.HIGHEST, PrecisionConfig_Precision.DEFAULT])
    op = ops.Dot(c(b, F), F.T, config).instruction.op
    assert op.operand_precision == (Precision.HIGHEST, Precision.DEFAULT)
    assert ops.Dot(c(b, F), F.T, PrecisionConfig()).instruction.op.operand_precision == ()


def test_custom_call_attributes(b):
    op = ops.CustomCallWithAliasing(
        b, b"f", [c(b, F)], Shape(F32, (2, 3)), [Shape(F32, (2, 3))], b"config", True,
        [((), (0, ()))], schedule=ops.CustomCallSchedule.SCHEDULE_LATEST,
        api_version=ops.CustomCallApiVersion.API_VERSION_TYPED_FFI,
    ).instruction  # fmt: skip
    assert (op.op.custom_call_target, op.extra.backend_config) == ("f", "config")
    assert op.op.output_to_operand_aliasing == (OutputAlias((), 0, ()),)
    assert op.op.custom_call_has_side_effect and op.op.api_version == "API_VERSION_TYPED_FFI"
    with pytest.raises(UnsupportedError, match="literal"):
        ops.CustomCallWithComputation(b, b"f", [], _unary_computation(b), TWO, literal=F)


def test_sort_defaults(b, value):
    x = np.float32([[3, 1, 2], [-0.0, 0.0, -5]])
    assert np.array_equal(value(ops.Sort(b, [x])), np.sort(x))
    assert np.array_equal(value(ops.Sort(b, [x], dimension=0)), np.sort(x, 0))


def test_top_k(b):
    from axla.interpreter import evaluate

    x = np.float32([[3, 1, 3], [0, 9, -5]])
    values, places = evaluate(b.build(ops.TopK(c(b, x), 2)).module, []).elements
    assert values.array.tolist() == [[3, 3], [9, 0]] and places.array.tolist() == [[0, 2], [1, 0]]


def test_reshape_of_the_first_documents(b, value):
    v = np.arange(24, dtype=np.int32).reshape(4, 2, 3)
    assert np.array_equal(value(ops.Reshape(c(b, v), [1, 2, 0], [8, 3])), v.transpose(1, 2, 0).reshape(8, 3))


def test_reshape_keeps_whole_dynamic_dimensions(b):
    x = ops.Parameter(b, 0, Shape(F32, (4, 6), (True, False)))
    assert ops.Reshape(x, [4, 2, 3]).shape.to_string(layout=False) == "f32[<=4,2,3]"
    with pytest.raises(ShapeError, match="reshape_dynamic"):
        ops.Reshape(x, [24])


def test_collapse_c1(b):
    with pytest.raises(ShapeError, match="collapse_c1"):
        ops.Collapse(c(b, np.zeros((2, 3, 4))), [0, 2])


@pytest.mark.parametrize(
    "label, sizes, places",
    [
        ("broadcast_in_dim_count", [2, 3], [0]),
        ("broadcast_in_dim_range", [2, 3], [0, 2]),
        ("broadcast_in_dim_order", [3, 2], [1, 0]),
        ("broadcast_in_dim_size", [2, 4], [0, 1]),
    ],
)
def test_broadcast_in_dim_constraints(b, label, sizes, places):
    with pytest.raises(ShapeError, match=label):
        ops.BroadcastInDim(c(b, F), sizes, places)


def test_operands_that_must_be_arrays(b):
    pair = ops.Tuple(b, [F, F])
    with pytest.raises(ShapeError, match="operand_array"):
        ops.Reshape(pair, [6])
    with pytest.raises(ShapeError, match="operand_array"):
        ops.ConvertElementType(pair, F32)
    with pytest.raises(ShapeError, match="dot_ranks"):
        ops.Dot(pair, pair)
    with pytest.raises(ShapeError, match="dot_array"):
        ops.DotGeneral(pair, pair, DotDimensionNumbers())


def test_element_types(b):
    for spelled in ("s32", "S32", np.int32, np.dtype("int32"), S32):
        assert ops.ConvertElementType(c(b, F), spelled).dtype is S32
    with pytest.raises(InvalidArgument, match="wanted an element type"):
        ops.ConvertElementType(c(b, F), "s33")
    assert ops.ConvertElementType(c(b, F), C64).dtype is C64
    assert ops.ConvertElementType(c(b, F), U32).dtype is U32


def test_start_indices_as_a_vector(b, value):
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(value(ops.DynamicSlice(c(b, x), c(b, np.int64([1, 2])), [2, 2])), x[1:3, 2:4])
    with pytest.raises(ShapeError, match="start_indices"):
        ops.DynamicSlice(c(b, x), c(b, np.int64([[1, 2]])), [2, 2])


def test_constants(b):
    with pytest.raises(InvalidArgument, match="tuple literal"):
        ops.Constant(b, (1.0, 2.0))
    with pytest.raises(InvalidArgument, match="constant: "):
        ops.Constant(b, "text")


def test_padding_config_is_checked(b):
    with pytest.raises(InvalidArgument, match="low, high, interior"):
        ops.Pad(c(b, F), 0, [(1, 2), (0, 0)])


def test_an_operation_on_a_fresh_builder_needs_an_operand():
    with pytest.raises(InvalidArgument, match="at least one operand"):
        ops.Neg(np.float32(1))
    assert ops.Iota(XlaBuilder("i"), Shape(S32, (2, 3)), 1).shape is Shape(S32, (2, 3))
    with pytest.raises(InvalidArgument, match="Iota: found 1 arguments"):
        ops.Iota(XlaBuilder("i"), Shape(S32, (2, 3)))
