import numpy as np
import pytest

from axla.builder import XlaBuilder
from axla.interpreter import evaluate


@pytest.fixture
def b() -> XlaBuilder:
    return XlaBuilder("test")


@pytest.fixture
def value():
    """The value of an op without parameters, as NumPy."""

    def compute(op) -> np.ndarray:
        return evaluate(op.builder.build(op).module, []).array

    return compute
