"""Complex functions near 0, where a sum with 1 would lose the value."""

import numpy as np
import pytest

from axla.hlo import LogPlusOne


@pytest.mark.parametrize(("dtype", "tiny"), [(np.complex64, 1e-30), (np.complex128, 1e-300)])
def test_log1p_of_small_numbers_is_the_number(dtype, tiny):
    x = np.array([tiny, -tiny, tiny * 1j, -0.25 + 0.5j], dtype)
    got = LogPlusOne().evaluate(x)
    np.testing.assert_array_equal(got[:3], x[:3])
    np.testing.assert_allclose(got[3], np.log(np.complex128(0.75 + 0.5j)), rtol=4 * np.finfo(dtype).eps)
