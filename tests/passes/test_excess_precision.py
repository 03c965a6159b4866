"""Roundings that are left out, on all backends alike; what XLA:CPU gives for the same programs."""

import ml_dtypes
import numpy as np
import pytest

import axla
from axla.core import flags

PROGRAMS = {
    "dot": """ENTRY e { x = bf16[2,3] parameter(0)
        d = bf16[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
        ROOT r = f32[2,2] convert(d) }""",
    "sum": """ENTRY e { x = bf16[2,3] parameter(0)  b = bf16[2,3] add(x, x)  c = bf16[2,3] multiply(b, x)
        ROOT r = f32[2,3] convert(c) }""",
    "convolution": """ENTRY e { x = bf16[2,3] parameter(0)  i = bf16[2,3,1] reshape(x)
        s = bf16[1,3] slice(x), slice={[0:1], [0:3]}  k = bf16[3,1,1] reshape(s)
        v = bf16[2,1,1] convolution(i, k), window={size=3}, dim_labels=b0f_0io->b0f
        ROOT r = f32[2,1,1] convert(v) }""",
}
X = np.array([[1.0078125, 3, -5.0625], [0.5, 1.0078125, 2]], ml_dtypes.bfloat16)


def run(text, backend):
    return np.asarray(axla.compile(axla.parse(text), backend=backend).execute([X])[0])


@pytest.mark.parametrize("backend", ["cpu", "one-lane", "interpreter"])
def test_the_last_rounding_is_left_out(backend):
    wide = X.astype(np.float32)
    np.testing.assert_array_equal(run(PROGRAMS["dot"], backend), wide @ wide.T)
    np.testing.assert_array_equal(run(PROGRAMS["sum"], backend), (wide + wide) * wide)
    np.testing.assert_array_equal(run(PROGRAMS["convolution"], backend).reshape(2), wide @ wide[0])


@pytest.mark.parametrize("backend", ["cpu", "one-lane", "interpreter"])
def test_the_flag_keeps_it(backend):
    wide = X.astype(np.float32)
    with flags.override(allow_excess_precision=False):
        for name, wanted in (("dot", wide @ wide.T), ("sum", (wide + wide) * wide)):
            rounded = wanted.astype(ml_dtypes.bfloat16).astype(np.float32)
            assert (rounded != wanted).any()
            np.testing.assert_array_equal(run(PROGRAMS[name], backend), rounded)
