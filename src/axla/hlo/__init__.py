"""Every op of HLO, one declaration each. Importing this package fills `axla.ir.op.OPS`.

Read `elementwise.py` first, with `family.py` (what families of ops share) and `numeric.py` (arithmetic as HLO
defines it).
"""

from axla.hlo.asynchronous import AsyncDone, AsyncStart, AsyncUpdate
from axla.hlo.collective import (
    AllGather,
    AllGatherDone,
    AllGatherStart,
    AllReduce,
    AllReduceDone,
    AllReduceStart,
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
    CollectivePermuteDone,
    CollectivePermuteStart,
    CollectiveReduce,
    PartitionId,
    RaggedAllToAll,
    ReduceScatter,
    ReplicaId,
)  # fmt: skip
from axla.hlo.contraction import Dot
from axla.hlo.control import (
    AddDependency,
    AfterAll,
    Call,
    Conditional,
    CustomCall,
    Fusion,
    OptBarrier,
    While,
    call_site,
)  # fmt: skip
from axla.hlo.conversion import Bitcast, BitcastConvert, Convert, ReducePrecision, StochasticConvert
from axla.hlo.dynamic_size import GetDimensionSize, SetDimensionSize
from axla.hlo.elementwise import (
    Abs,
    Acos,
    Acosh,
    Add,
    And,
    Asin,
    Asinh,
    Atan2,
    Atanh,
    Cbrt,
    Ceil,
    Clamp,
    Compare,
    Complex,
    Cosh,
    Cosine,
    CountLeadingZeros,
    Divide,
    Erf,
    Exponential,
    ExponentialMinusOne,
    Floor,
    Imag,
    IsFinite,
    Log,
    Logistic,
    LogPlusOne,
    Maximum,
    Minimum,
    Mulhi,
    Multiply,
    Negate,
    Not,
    Or,
    Popcnt,
    Power,
    Real,
    Remainder,
    RoundNearestAfz,
    RoundNearestEven,
    Rsqrt,
    Select,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Sign,
    Sine,
    Sinh,
    Sqrt,
    Subtract,
    Tan,
    Tanh,
    Xor,
)  # fmt: skip
from axla.hlo.grouped_dot import RaggedDot, ScaledDot
from axla.hlo.indexing import Gather, Scatter
from axla.hlo.linear_algebra import (
    BatchNormGrad,
    BatchNormInference,
    BatchNormTraining,
    Cholesky,
    Fft,
    TriangularSolve,
)  # fmt: skip
from axla.hlo.movement import Broadcast, Copy, DynamicReshape, Iota, Reshape, Reverse, Transpose
from axla.hlo.random import Rng, RngGetAndUpdateState
from axla.hlo.random_bits import RngBitGenerator
from axla.hlo.reduction import Map, Reduce, Scan, Sort
from axla.hlo.slicing import Concatenate, DynamicSlice, DynamicUpdateSlice, Pad, Slice
from axla.hlo.sorting import TopK
from axla.hlo.transfer import CopyDone, CopyStart, Domain, Infeed, Outfeed, Recv, RecvDone, Send, SendDone
from axla.hlo.window import Convolution, ReduceWindow, SelectAndScatter
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
