"""Special functions, element by element."""

from __future__ import annotations

import math

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.ops.common import widened
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, matched

RECORDS = """
Erf Erfc Lgamma Digamma BesselI0e BesselI1e: x:T -> y:T ; hlo
Erfinv: x:T -> y:T ; hlo ErfInv
Ndtri BesselI0 BesselI1: x:T -> y:T
BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Dawsn Expint FresnelCos FresnelSin
    Spence: x:T -> y:T ; none there is no such function in XLA
Igamma Igammac: a:T x:T -> z:T
IgammaGradA Polygamma: a:T x:T -> z:T ; hlo
RandomGammaGrad: alpha:T sample:T -> output:T ; hlo
Zeta: x:T q:T -> z:T ; hlo
Betainc: a:T b:T x:T -> z:T ; hlo RegularizedIncompleteBeta
"""


@lowering("Ndtri")
def _ndtri(call: OpCall, x: XlaOp) -> XlaOp:
    """The quantile function of the normal distribution."""
    return ops.ErfInv(2 * x - 1) * math.sqrt(2)


@lowering("BesselI0", "BesselI1")
def _bessel(call: OpCall, x: XlaOp) -> XlaOp:
    wide = widened(x)
    scaled = ops.BesselI0e(wide) if call.node.op == "BesselI0" else ops.BesselI1e(wide)
    return ops.ConvertElementType(ops.Exp(abs(wide)) * scaled, x.dtype)


@lowering("Igamma", "Igammac")
def _igamma(call: OpCall, a: XlaOp, x: XlaOp) -> XlaOp:
    """The regularized incomplete gamma functions (lower and upper). Where `a` is not positive, the lower one
    is NaN and the upper one 1; the upper one is also 1 where x is not positive.
    """
    a, x = matched(a, x)
    if call.node.op == "Igamma":
        return ops.Select(a <= 0, math.nan, ops.Igamma(a, x))
    return ops.Select((a <= 0) | (x <= 0), 1, ops.Igammac(a, x))
