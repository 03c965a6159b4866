"""The sources of the semantics of ops: sections of XLA's page on operation semantics."""

from __future__ import annotations

import re

from axla.hlo.family import Elementwise
from axla.ir.op import OPS, package_of

PAGE = "https://openxla.org/xla/operation_semantics"

UNARY, BINARY = "Element-wise unary functions", "Element-wise binary arithmetic operations"

SECTIONS = {
    "after-all": "AfterAll", "all-gather": "AllGather", "all-gather-done": "AllGather",
    "all-gather-start": "AllGather", "all-reduce": "AllReduce", "all-reduce-done": "AllReduce",
    "all-reduce-start": "AllReduce", "all-to-all": "AllToAll", "batch-norm-grad": "BatchNormGrad",
    "batch-norm-inference": "BatchNormInference", "batch-norm-training": "BatchNormTraining",
    "bitcast-convert": "BitcastConvertType", "broadcast": "BroadcastInDim", "call": "Call",
    "cholesky": "Cholesky", "clamp": "Clamp", "collective-permute": "CollectivePermute",
    "collective-permute-done": "CollectivePermute", "collective-permute-start": "CollectivePermute",
    "compare": "Element-wise comparison operations", "concatenate": "Concatenate",
    "conditional": "Conditional", "convert": "ConvertElementType",
    "convolution": "ConvWithGeneralPadding (convolution)", "custom-call": "CustomCall", "dot": "DotGeneral",
    "dynamic-slice": "DynamicSlice", "dynamic-update-slice": "DynamicUpdateSlice", "fft": "Fft",
    "gather": "Gather", "get-dimension-size": "GetDimensionSize", "get-tuple-element": "GetTupleElement",
    "infeed": "Infeed", "iota": "Iota", "map": "Map", "opt-barrier": "OptimizationBarrier", "pad": "Pad",
    "recv": "Recv", "recv-done": "Recv", "reduce": "Reduce", "reduce-precision": "ReducePrecision",
    "reduce-scatter": "ReduceScatter", "reduce-window": "ReduceWindow", "replica-id": "ReplicaId",
    "reshape": "Reshape", "reverse": "Rev (reverse)", "rng": "RngUniform",
    "rng-bit-generator": "RngBitGenerator", "scatter": "Scatter", "select": "Select",
    "select-and-scatter": "SelectAndScatter", "send": "Send", "send-done": "Send",
    "set-dimension-size": "SetDimensionSize", "slice": "Slice", "sort": "Sort", "transpose": "Transpose",
    "triangular-solve": "TriangularSolve", "tuple": "Tuple", "while": "While",
}  # fmt: skip

# Elementwise ops that are not on the page.
ABSENT = {"acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "mulhi", "stochastic-convert"}


def section(opcode: str) -> str:
    """The section that defines an op; "" if there is none."""
    if opcode in SECTIONS or opcode in ABSENT or not issubclass(OPS[opcode], Elementwise):
        return SECTIONS.get(opcode, "")
    return UNARY if len(OPS[opcode].operand_names) == 1 else BINARY


def source(opcode: str) -> str:
    """The source of the semantics of an op, in words."""
    package = package_of(OPS[opcode])
    if package != "axla":
        return f"the package `{package}`."
    title = section(opcode)
    if not title:
        return "HLO text as XLA prints it; XLA's page on operation semantics does not have the op."
    anchor = re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "_")
    return f"[{title}]({PAGE}#{anchor}) in XLA's page on operation semantics, and the results of XLA:CPU."
