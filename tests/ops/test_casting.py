"""convert, bitcast-convert, reduce-precision, stochastic-convert."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import axla.hlo as hlo
from axla.core import dtypes
from axla.core.dtypes import ALL, BF16, C64, F16, F32, F64, PRED, S4, S8, S32, S64, U4, U8, U32, U64
from axla.core.errors import ShapeError
from axla.core.shape import Shape
from axla.hlo.casting import bitcast, convert, reduce_precision, reinterpret, stochastic_convert

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        (S32, [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -1, 300, 0]),
        (U8, [0, 255, 0, 255, 0, 0, 255, 0]),
        (S8, [0, 127, -128, 127, -128, -1, 127, 0]),
        (U32, [0, 2**32 - 1, 0, 2**32 - 1, 0, 0, 300, 0]),
        (S64, [0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), -1, 300, 0]),
        (U64, [0, 2**64 - 1, 0, 2**64 - 1, 0, 0, 300, 0]),
        (S4, [0, 7, -8, 7, -8, -1, 7, 0]),
        (U4, [0, 15, 0, 15, 0, 0, 15, 0]),
        (PRED, [True, True, True, True, True, True, True, False]),
    ],
)
@pytest.mark.parametrize("of", [F32, F64])
def test_floats_saturate(of, to, wanted):
    x = np.array([NAN, INF, -INF, 1e30, -1e30, -1.9, 300.5, 0.0], of.numpy)
    assert [int(v) for v in convert(x, to)] == [int(v) for v in wanted]


def test_integers_wrap_and_round():
    assert convert(np.array([300, -1], np.int32), U8).tolist() == [44, 255]
    assert convert(np.array([9, -9], np.int32), S4).astype(int).tolist() == [-7, 7]
    assert convert(np.array([2**24 + 1], np.int32), F32).tolist() == [2.0**24]
    assert convert(np.array([5], ml_dtypes.int4), C64).tolist() == [5 + 0j]
    assert convert(np.array([2049, 65519, 65520], np.int32), F16).tolist() == [2048, 65504, INF]


def test_every_pair_of_types_converts():
    for of in ALL:
        for to in ALL:
            if of.is_complex and not to.is_complex:
                continue
            found = convert(np.array([0, 1], np.int8).astype(of.numpy), to)
            assert found.dtype == to.numpy, (of, to)
            # f8e8m0fnu has no zero, s1 no one.
            if dtypes.F8E8M0FNU not in (of, to) and "s1" not in (of.name, to.name):
                assert found.astype(np.complex128).tolist() == [0, 1], (of, to)


def test_bitcast():
    assert bitcast(np.array([1.0], np.float32), U8).tolist() == [[0, 0, 0x80, 0x3F]]
    assert bitcast(np.array([[0, 0, 0x80, 0x3F]], np.uint8), F32).tolist() == [1.0]
    assert bitcast(np.float32(1.0).reshape(()), U8).tolist() == [0, 0, 0x80, 0x3F]
    assert bitcast(np.array([0x1F], np.uint8), S4).astype(int).tolist() == [[-1, 1]]
    assert bitcast(np.array([[-1, 1]], ml_dtypes.int4), U8).tolist() == [0x1F]
    assert bitcast(np.array([-1], ml_dtypes.int4), U4).astype(int).tolist() == [15]


@pytest.mark.parametrize(
    ("of", "to"), [(F32, S32), (F64, U8), (U8, S4), (BF16, U4), (S8, dtypes.F8E5M2), (F16, dtypes.S2)]
)
def test_bitcast_there_and_back(of, to):
    raw = np.random.default_rng(1).integers(0, 256, 4 * of.itemsize, np.uint8).view(of.numpy)
    there = hlo.BitcastConvert(Shape(to, (4,) if of.bits == to.bits else (4, of.bits // to.bits)))
    assert there.infer(Shape(of, (4,))) is there.shape
    back = bitcast(bitcast(raw, to), of)
    assert back.tobytes() == raw.tobytes()


@pytest.mark.parametrize(
    ("op", "shape", "label"),
    [
        (hlo.BitcastConvert(Shape(S32, (2,))), Shape(F64, (2,)), "bitcast_convert_c2"),
        (hlo.BitcastConvert(Shape(C64, (2,))), Shape(F64, (2,)), "bitcast_convert_c1"),
        (hlo.Convert(Shape(S32, (3,))), Shape(F32, (2,)), "convert_c1"),
        (hlo.Convert(Shape(F32, (2,))), Shape(C64, (2,)), "convert_c2"),
        (hlo.Bitcast(Shape(F32, (3,))), Shape(F32, (2,)), "bitcast_c1"),
        (hlo.ReducePrecision(0, 3), Shape(F32), "reduce_precision_c2"),
        (hlo.ReducePrecision(4, 3), Shape(S32), "reduce_precision_c1"),
    ],
)
def test_rejects(op, shape, label):
    with pytest.raises(ShapeError, match=rf"\[{label}\]$"):
        op.infer(shape)


@pytest.mark.parametrize(("to", "exponent", "mantissa"), [(np.float16, 5, 10), (ml_dtypes.bfloat16, 8, 7)])
def test_reduce_precision_is_a_conversion_there_and_back(to, exponent, mantissa):
    bits = np.random.default_rng(2).integers(0, 2**32, 4000, np.uint32)
    x = np.concatenate(
        [bits.view(np.float32), np.array([0, -0.0, INF, -INF, NAN, 65519, 65520, 1 + 2**-11], np.float32)]
    )
    found, wanted = reduce_precision(x, exponent, mantissa), x.astype(to).astype(np.float32)
    smallest = float(ml_dtypes.finfo(to).smallest_normal)
    normal = ~(np.abs(x) < smallest)
    assert np.array_equal(found[normal], wanted[normal], equal_nan=True)
    if exponent < 8:  # with fewer exponent bits there are no denormals
        assert (found[~normal & (np.abs(x) < smallest / 2)] == 0).all()


def test_reduce_precision_keeps_signs_and_nan():
    found = reduce_precision(np.array([-1e-30, 1e30, -1e30, NAN], np.float32), 5, 10)
    assert np.signbit(found[0]) and found[0] == 0
    assert found[1] == INF and found[2] == -INF and np.isnan(found[3])


def test_stochastic_convert():
    x = np.array([1.25, 1.25, -1.25, -1.25, 3.0, 300.0, NAN], np.float32)
    quarter = 1 << 30
    random = np.array([quarter - 1, quarter, quarter - 1, quarter, 0, 0, 0], np.uint32)
    assert stochastic_convert(x, random, S8).tolist() == [2, 1, -2, -1, 3, 127, 0]


def test_reinterpret_between_types():
    x = np.arange(4, dtype=np.uint32)
    assert reinterpret(x, Shape(U8, (2, 8))).tobytes() == x.tobytes()
    assert reinterpret(x, Shape(S4, (32,))).shape == (32,)
