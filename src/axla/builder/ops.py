"""All functions that add ops, under the names of XLA's Python module `ops`.

    ops.Add(lhs, rhs, broadcast_dimensions)
Operands are `XlaOp`s, literals or NumPy values (constants), or Python numbers, which take the element type of
the other operand. The first argument `builder` is there only where no operand could tell it. Functions whose
ops axla does not have yet are here too and raise UnsupportedError.
"""

from __future__ import annotations

from typing import Any

from axla.builder.calls import (
    AfterAll,
    Call,
    Conditional,
    CreateToken,
    CustomCall,
    CustomCallWithAliasing,
    CustomCallWithComputation,
    CustomCallWithLayout,
    DynamicReshape,
    GetTupleElement,
    Map,
    OptimizationBarrier,
    Reduce,
    ReduceAll,
    Sort,
    TopK,
    Tuple,
    While,
)
from axla.builder.compositions import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Conj,
    Cosh,
    Digamma,
    Erfc,
    ErfInv,
    Lgamma,
    NextAfter,
    Reciprocal,
    Sinh,
    Square,
)
from axla.builder.contraction import Dot, DotGeneral, Gather, Scatter
from axla.builder.elementwise import (
    Abs,
    Add,
    And,
    Atan2,
    BitcastConvertType,
    Cbrt,
    Ceil,
    Clamp,
    Clz,
    Compare,
    Complex,
    ConvertElementType,
    Cos,
    Div,
    Eq,
    EqTotalOrder,
    Erf,
    Exp,
    Expm1,
    Floor,
    Ge,
    GeTotalOrder,
    Gt,
    GtTotalOrder,
    Imag,
    IsFinite,
    Le,
    LeTotalOrder,
    Log,
    Log1p,
    Logistic,
    Lt,
    LtTotalOrder,
    Max,
    Min,
    Mul,
    Ne,
    Neg,
    NeTotalOrder,
    Not,
    Or,
    PopulationCount,
    Pow,
    Real,
    ReducePrecision,
    Rem,
    Round,
    RoundNearestEven,
    Rsqrt,
    Select,
    ShiftLeft,
    ShiftRight,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Sign,
    Sin,
    Sqrt,
    Sub,
    Tan,
    Tanh,
    Xor,
)
from axla.builder.later import LATER, later
from axla.builder.movement import (
    Broadcast,
    BroadcastInDim,
    Collapse,
    ConcatInDim,
    Constant,
    ConstantLiteral,
    DynamicSlice,
    DynamicSliceInDim,
    DynamicUpdateSlice,
    Index,
    Iota,
    One,
    Pad,
    PadInDim,
    Parameter,
    Reshape,
    Rev,
    Slice,
    SliceInDim,
    Transpose,
    Zero,
    ZerosLike,
)
from axla.builder.records import (
    CustomCallApiVersion,
    CustomCallSchedule,
    FftType,
    PrecisionConfig_Precision,
    RandomAlgorithm,
    ResultAccuracy_Mode,
    ShapeIndex,
    TriangularSolveOptions_Transpose,
)

__all__ = [
    "Abs", "Acos", "Acosh", "Add", "AfterAll", "And", "Asin", "Asinh", "Atan", "Atan2", "Atanh",
    "BitcastConvertType", "Broadcast", "BroadcastInDim", "Call", "Cbrt", "Ceil", "Clamp", "Clz", "Collapse",
    "Compare", "Complex", "ConcatInDim", "Conditional", "Conj", "Constant", "ConstantLiteral",
    "ConvertElementType", "Cos", "Cosh", "CreateToken", "CustomCall", "CustomCallApiVersion",
    "CustomCallSchedule", "CustomCallWithAliasing", "CustomCallWithComputation", "CustomCallWithLayout",
    "Digamma", "Div", "Dot", "DotGeneral", "DynamicReshape", "DynamicSlice", "DynamicSliceInDim",
    "DynamicUpdateSlice", "Eq", "EqTotalOrder", "Erf", "ErfInv", "Erfc", "Exp", "Expm1", "FftType", "Floor",
    "Gather", "Ge", "GeTotalOrder", "GetTupleElement", "Gt", "GtTotalOrder", "Imag", "Index", "Iota",
    "IsFinite", "Le", "LeTotalOrder", "Lgamma", "Log", "Log1p", "Logistic", "Lt", "LtTotalOrder", "Map",
    "Max",
    "Min", "Mul", "Ne", "NeTotalOrder", "Neg", "NextAfter", "Not", "One", "OptimizationBarrier", "Or", "Pad",
    "PadInDim", "Parameter", "PopulationCount", "Pow", "PrecisionConfig_Precision", "RandomAlgorithm", "Real",
    "Reciprocal", "Reduce", "ReduceAll", "ReducePrecision", "Rem", "Reshape", "ResultAccuracy_Mode", "Rev",
    "Round", "RoundNearestEven", "Rsqrt", "Scatter", "Select", "ShapeIndex", "ShiftLeft", "ShiftRight",
    "ShiftRightArithmetic", "ShiftRightLogical", "Sign", "Sin", "Sinh", "Slice", "SliceInDim", "Sort", "Sqrt",
    "Square", "Sub", "Tan", "Tanh", "TopK", "Transpose", "TriangularSolveOptions_Transpose", "Tuple", "While",
    "Xor", "Zero", "ZerosLike",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in LATER:
        return later(name)
    raise AttributeError(f"axla.builder.ops has no {name}")


def __dir__() -> list[str]:
    return sorted([*__all__, *LATER])
