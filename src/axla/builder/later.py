"""Functions of XLA's builder whose ops come later: they raise UnsupportedError that names what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from axla.core.errors import UnsupportedError

LATER: dict[str, str] = {}
"""XLA's function -> the op, or what else is missing."""


def _later(name: str, missing: str) -> Callable[..., Any]:
    """A function that takes anything and raises; it is noted in LATER."""
    LATER[name] = missing

    def function(*arguments: object, **named: object) -> NoReturn:
        raise UnsupportedError(f"{name}: axla does not implement {missing} yet")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises UnsupportedError: {missing} comes later."
    return function


ApproxTopK = _later("ApproxTopK", "approx-top-k")
ApproxTopKFallback = _later("ApproxTopKFallback", "approx-top-k")
ApproxTopKReductionOutputSize = _later("ApproxTopKReductionOutputSize", "approx-top-k")
BesselI0e = _later("BesselI0e", "the Bessel function i0e")
BesselI1e = _later("BesselI1e", "the Bessel function i1e")
Eigh = _later("Eigh", "the eigenvalue decomposition eigh")
Igamma = _later("Igamma", "the incomplete gamma function igamma")
IgammaGradA = _later("IgammaGradA", "the derivative of igamma")
Igammac = _later("Igammac", "the incomplete gamma function igammac")
LU = _later("LU", "the LU decomposition")
ProductOfElementaryHouseholderReflectors = _later(
    "ProductOfElementaryHouseholderReflectors", "the product of Householder reflectors"
)
QR = _later("QR", "the QR decomposition")
QrDecomposition = _later("QrDecomposition", "the QR decomposition")
RandomGammaGrad = _later("RandomGammaGrad", "the derivative of gamma samples")
RegularizedIncompleteBeta = _later("RegularizedIncompleteBeta", "the regularized incomplete beta function")
SVD = _later("SVD", "the singular value decomposition")
Zeta = _later("Zeta", "the Hurwitz zeta function")
