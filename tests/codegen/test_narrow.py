"""Products with few columns, whose vectors have several steps of k."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from products import Compiled, Product, check, wanted
from test_gemm import TARGETS

from axla.core.dtypes import BF16, F16, F32, F64, S8, S32
from axla.kernels.dot import GemmSpec

SIZES = list(itertools.product((1, 2), (8, 17, 700), (2, 3, 5, 8), (64, 77, 131)))
TYPES = [(F32, F32), (F64, F64), (BF16, F32), (F16, F16), (S8, S32), (S32, S32)]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize(("dtype", "result"), TYPES, ids=str)
def test_few_columns(dtype, result, target):
    sizes = SIZES if dtype is F32 else SIZES[::5]
    turned = itertools.cycle((False, True, False))
    compiled = Compiled([Product(GemmSpec(dtype, result, *s, False, next(turned))) for s in sizes], target)
    if target.lanes(F32) > 8 and dtype is F32:
        assert all(product.plan.method == "folded" for product in compiled.products)
    for product in compiled.products:
        check(compiled, product)


@pytest.mark.parametrize("k", [64, 77])
def test_infinities_stay_in_their_row(k):
    """Also where the last vector of a row starts early, or stands beside the next row."""
    (product,) = (compiled := Compiled([Product(GemmSpec(F32, F32, 1, 9, 3, k))], TARGETS["host"])).products
    lhs, rhs = product.arrays()
    for column in (0, k // 2, k - 6, k - 1):
        lhs[0, 1::3, column] = np.inf
        found = compiled.run(product, lhs, rhs)
        exact, _ = wanted(product, lhs, rhs)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))
        lhs[0, 1::3, column] = 1


def test_what_follows_may_overwrite_an_operand():
    base = np.arange(700 * 3, dtype=np.float32)
    product = Product(
        GemmSpec(F32, F32, 1, 700, 3, 77), "s = f32[1,700,3] parameter(2) ROOT r = f32[1,700,3] add(d, s)",
        (base,), in_place=2,
    )  # fmt: skip
    compiled = Compiled([product], TARGETS["host"])
    lhs, rhs = product.arrays()
    out = base.copy()
    compiled.run(product, lhs, rhs, out=out)
    exact, bound = wanted(product, lhs, rhs)
    assert np.all(np.abs(out.reshape(exact.shape) - exact - base.reshape(exact.shape)) <= bound + 1e-3)
