"""Every op of HLO, one declaration each. Importing this package fills `axla.ir.op.OPS`.

Read `elementwise.py` first, with `family.py` (what families of ops share) and `numeric.py` (arithmetic as HLO
defines it).
"""

# ruff: noqa: F403, F405  (the names are in __all__)

from axla.hlo.asynchronous import *
from axla.hlo.collective import *
from axla.hlo.contraction import *
from axla.hlo.control import *
from axla.hlo.conversion import *
from axla.hlo.dynamic_size import *
from axla.hlo.elementwise import *
from axla.hlo.grouped_dot import *
from axla.hlo.indexing import *
from axla.hlo.linear_algebra import *
from axla.hlo.movement import *
from axla.hlo.random import *
from axla.hlo.random_bits import *
from axla.hlo.reduction import *
from axla.hlo.slicing import *
from axla.hlo.sorting import *
from axla.hlo.transfer import *
from axla.hlo.window import *
from axla.ir.op import OPS
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple

__all__ = [
    "OPS",
    "Abs", "Acos", "Acosh", "Add", "AddDependency", "AfterAll", "AllGather", "AllGatherDone",
    "AllGatherStart", "AllReduce", "AllReduceDone", "AllReduceStart", "AllToAll", "And", "Asin", "Asinh",
    "AsyncDone", "AsyncStart", "AsyncUpdate", "Atan2", "Atanh", "BatchNormGrad", "BatchNormInference",
    "BatchNormTraining", "Bitcast", "BitcastConvert", "Broadcast", "Call", "Cbrt", "Ceil", "Cholesky",
    "Clamp", "CollectiveBroadcast", "CollectivePermute", "CollectivePermuteDone", "CollectivePermuteStart",
    "CollectiveReduce", "Compare", "Complex", "Concatenate", "Conditional", "Constant", "Convert",
    "Convolution", "Copy", "CopyDone", "CopyStart", "Cosh", "Cosine", "CountLeadingZeros", "CustomCall",
    "Divide", "Domain", "Dot", "DynamicReshape", "DynamicSlice", "DynamicUpdateSlice", "Erf", "Exponential",
    "ExponentialMinusOne", "Fft", "Floor", "Fusion", "Gather", "GetDimensionSize", "GetTupleElement",
    "Imag", "Infeed", "Iota", "IsFinite", "Log", "LogPlusOne", "Logistic", "Map", "Maximum", "Minimum",
    "Mulhi", "Multiply", "Negate", "Not", "OptBarrier", "Or", "Outfeed", "Pad", "Parameter", "PartitionId",
    "Popcnt", "Power", "RaggedAllToAll", "RaggedDot", "Real", "Recv", "RecvDone", "Reduce",
    "ReducePrecision", "ReduceScatter", "ReduceWindow", "Remainder", "ReplicaId", "Reshape", "Reverse",
    "Rng", "RngBitGenerator", "RngGetAndUpdateState", "RoundNearestAfz", "RoundNearestEven", "Rsqrt",
    "ScaledDot", "Scan", "Scatter", "Select", "SelectAndScatter", "Send", "SendDone", "SetDimensionSize",
    "ShiftLeft", "ShiftRightArithmetic", "ShiftRightLogical", "Sign", "Sine", "Sinh", "Slice", "Sort",
    "Sqrt", "StochasticConvert", "Subtract", "Tan", "Tanh", "TopK", "Transpose", "TriangularSolve", "Tuple",
    "While", "Xor", "call_site",
]  # fmt: skip
