"""Literals whose elements lie in another order in memory: as plain ones, and put in order once."""

import pickle

import ml_dtypes
import numpy as np
import pytest

from axla.core.dtypes import from_numpy
from axla.core.literal import Literal, MovedLiteral
from axla.core.shape import Shape
from axla.lowering.pipeline import constants_segment

TYPES = [np.bool_, np.int8, np.float16, ml_dtypes.bfloat16, np.float32, np.complex64, np.complex128]


def moved(dtype, dims=(40, 6, 24, 2), order=(2, 0, 3, 1)) -> tuple[MovedLiteral, np.ndarray]:
    array = np.random.default_rng(0).integers(0, 2**7, dims).astype(dtype).transpose(order)
    return MovedLiteral(Shape(from_numpy(array.dtype), array.shape), array), array


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", [(2, 0, 3, 1), (3, 2, 1, 0), (0, 2, 3, 1)])
def test_it_is_the_literal_of_the_same_elements(dtype, order):
    literal, array = moved(dtype, order=order)
    plain = Literal.of(np.ascontiguousarray(array))
    assert literal == plain and plain == literal and hash(literal) == hash(plain)
    assert literal.digest == plain.digest and list(literal.leaves()) == [literal]
    assert literal.array.flags.c_contiguous and not literal.array.flags.writeable
    copy = pickle.loads(pickle.dumps(literal))
    assert type(copy) is Literal and copy == literal
    assert moved(dtype, order=(0, 1, 2, 3))[0] != literal


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_segment_has_it_in_order(dtype, byte_order):
    literal, array = moved(dtype)
    plain = Literal.of(np.ascontiguousarray(array))
    backwards = MovedLiteral(literal.shape, np.ascontiguousarray(array)[::-1])
    second = -(-array.nbytes // 64) * 64
    found = constants_segment({literal: 0, backwards: second}, byte_order)
    assert found[: array.nbytes] == constants_segment({plain: 0}, byte_order)[: array.nbytes]
    assert found[second:] == constants_segment({Literal.of(array[::-1].copy()): 0}, byte_order)


def test_one_with_another_hash_differs_somewhere():
    array = np.zeros(100_000, np.float32)
    one = Literal.of(array)
    array[7] = 1
    assert one != Literal.of(array)
