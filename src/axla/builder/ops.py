"""All functions that add ops, under the names of XLA's Python module `ops`.

    ops.Add(lhs, rhs, broadcast_dimensions)
Operands are `XlaOp`s, literals or NumPy values (constants), or Python numbers, which take the element type of
the other operand. The first argument `builder` is there only where no operand could tell it.
"""

# ruff: noqa: F403, F405  (the names are in __all__)

from axla.builder.approximate import *
from axla.builder.bessel import *
from axla.builder.beta import *
from axla.builder.calls import *
from axla.builder.collective import *
from axla.builder.compositions import *
from axla.builder.contraction import *
from axla.builder.decompositions import *
from axla.builder.elementwise import *
from axla.builder.gamma import *
from axla.builder.linear_algebra import *
from axla.builder.movement import *
from axla.builder.operators import FUNCTIONS
from axla.builder.random import *
from axla.builder.records import *
from axla.builder.transfer import *
from axla.builder.windows import *
from axla.builder.zeta import *

__all__ = [
    "Abs", "Acos", "Acosh", "Add", "AfterAll", "AllGather", "AllReduce", "AllToAll", "And", "ApproxTopK",
    "ApproxTopKFallback", "ApproxTopKReductionOutputSize", "Asin", "Asinh", "Atan", "Atan2", "Atanh",
    "BatchNormGrad", "BatchNormInference", "BatchNormTraining", "BesselI0e", "BesselI1e",
    "BitcastConvertType", "Broadcast", "BroadcastInDim", "Call", "Cbrt", "Ceil", "Cholesky", "Clamp",
    "Clz", "Collapse", "CollectivePermute", "Compare", "Complex", "CompositeCall", "ConcatInDim",
    "Conditional", "Conj", "Constant", "ConstantLiteral", "Conv", "ConvGeneral", "ConvGeneralDilated",
    "ConvWithGeneralDimensions", "ConvWithGeneralPadding", "ConvertElementType", "Cos", "Cosh",
    "CreateToken", "CrossReplicaSum", "CustomCall", "CustomCallApiVersion", "CustomCallSchedule",
    "CustomCallWithAliasing", "CustomCallWithComputation", "CustomCallWithLayout", "Digamma", "Div",
    "Dot", "DotGeneral", "DynamicReshape", "DynamicSlice", "DynamicSliceInDim", "DynamicUpdateSlice",
    "Eigh", "Eq", "EqTotalOrder", "Erf", "ErfInv", "Erfc", "Exp", "Expm1", "Fft", "FftType", "Floor",
    "Gather", "Ge", "GeTotalOrder", "GetDimensionSize", "GetTupleElement", "Gt", "GtTotalOrder", "Igamma",
    "IgammaGradA", "Igammac", "Imag", "Index", "Infeed", "InfeedWithToken", "Iota", "IsFinite", "LU",
    "Le", "LeTotalOrder", "Lgamma", "Log", "Log1p", "Logistic", "Lt", "LtTotalOrder", "Map", "Max", "Min",
    "Mul", "MultiCollectivePermute", "Ne", "NeTotalOrder", "Neg", "NextAfter", "Not", "One",
    "OptimizationBarrier", "Or", "Outfeed", "OutfeedWithToken", "Pad", "PadInDim", "Parameter",
    "PartitionId", "Polygamma", "PopulationCount", "Pow", "PrecisionConfig_Precision",
    "ProductOfElementaryHouseholderReflectors", "QR", "QrDecomposition", "RandomAlgorithm",
    "RandomGammaGrad", "Real", "Reciprocal", "Recv", "RecvFromHost", "Reduce", "ReduceAll",
    "ReducePrecision", "ReduceScatter", "ReduceWindow", "ReduceWindowWithGeneralPadding",
    "RegularizedIncompleteBeta", "Rem", "RemoveDynamicDimension", "ReplicaId", "Reshape",
    "ResultAccuracy_Mode", "Rev", "RngBernoulli", "RngBitGenerator", "RngNormal", "RngUniform", "Round",
    "RoundNearestEven", "Rsqrt", "SVD", "Scatter", "Select", "SelectAndScatter",
    "SelectAndScatterWithGeneralPadding", "Send", "SendToHost", "SetDimensionSize", "ShapeIndex",
    "ShiftLeft", "ShiftRight", "ShiftRightArithmetic", "ShiftRightLogical", "Sign", "Sin", "Sinh",
    "Slice", "SliceInDim", "Sort", "Sqrt", "Square", "Sub", "Tan", "Tanh", "TopK", "Trace", "Transpose",
    "TriangularSolve", "TriangularSolveOptions_Transpose", "Tuple", "While", "Xor", "Zero", "ZerosLike",
    "Zeta",
]  # fmt: skip

FUNCTIONS.update({name: globals()[name] for name in __all__})
