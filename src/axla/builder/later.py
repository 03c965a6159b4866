"""Functions of XLA's builder whose ops come later: they raise UnsupportedError that names the op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from axla.core.errors import UnsupportedError

# XLA's function -> the op, or what else is missing.
LATER: dict[str, str] = {
    "AllGather": "all-gather",
    "AllReduce": "all-reduce",
    "AllToAll": "all-to-all",
    "ApproxTopK": "approx-top-k",
    "ApproxTopKFallback": "approx-top-k",
    "ApproxTopKReductionOutputSize": "approx-top-k",
    "BatchNormGrad": "batch-norm-grad",
    "BatchNormInference": "batch-norm-inference",
    "BatchNormTraining": "batch-norm-training",
    "BesselI0e": "the Bessel function i0e",
    "BesselI1e": "the Bessel function i1e",
    "Cholesky": "cholesky",
    "CollectivePermute": "collective-permute",
    "Conv": "convolution",
    "ConvGeneral": "convolution",
    "ConvGeneralDilated": "convolution",
    "ConvWithGeneralDimensions": "convolution",
    "ConvWithGeneralPadding": "convolution",
    "CrossReplicaSum": "all-reduce",
    "Eigh": "the eigenvalue decomposition eigh",
    "Fft": "fft",
    "GetDimensionSize": "get-dimension-size",
    "Igamma": "the incomplete gamma function igamma",
    "IgammaGradA": "the derivative of igamma",
    "Igammac": "the incomplete gamma function igammac",
    "Infeed": "infeed",
    "InfeedWithToken": "infeed",
    "LU": "the LU decomposition",
    "MultiCollectivePermute": "collective-permute",
    "Outfeed": "outfeed",
    "OutfeedWithToken": "outfeed",
    "ProductOfElementaryHouseholderReflectors": "the product of Householder reflectors",
    "QR": "the QR decomposition",
    "QrDecomposition": "the QR decomposition",
    "RandomGammaGrad": "the derivative of gamma samples",
    "Recv": "recv",
    "RecvFromHost": "recv",
    "ReduceScatter": "reduce-scatter",
    "ReduceWindow": "reduce-window",
    "ReduceWindowWithGeneralPadding": "reduce-window",
    "RegularizedIncompleteBeta": "the regularized incomplete beta function",
    "RemoveDynamicDimension": "set-dimension-size",
    "ReplicaId": "replica-id",
    "RngBernoulli": "rng",
    "RngBitGenerator": "rng-bit-generator",
    "RngNormal": "rng",
    "RngUniform": "rng",
    "SVD": "the singular value decomposition",
    "SelectAndScatter": "select-and-scatter",
    "SelectAndScatterWithGeneralPadding": "select-and-scatter",
    "Send": "send",
    "SendToHost": "send",
    "SetDimensionSize": "set-dimension-size",
    "TriangularSolve": "triangular-solve",
    "Zeta": "the Hurwitz zeta function",
}


def unsupported(name: str) -> NoReturn:
    raise UnsupportedError(f"{name}: axla does not implement {LATER[name]} yet")


def later(name: str) -> Callable[..., Any]:
    """A function that takes anything and raises."""

    def function(*arguments: object, **named: object) -> NoReturn:
        unsupported(name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises UnsupportedError: {LATER[name]} comes later."
    return function
