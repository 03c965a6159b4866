"""The range of JAX's versions is checked when axla.jax is imported."""

import warnings

import pytest

pytest.importorskip("jax")

from axla.jax.versions import check_version  # noqa: E402


def test_an_older_jax_is_refused_by_name():
    with pytest.raises(
        ImportError, match=r"axla.jax works with JAX 0\.10 to 0\.12; installed are jax 0\.9\.2 and jaxlib"
    ):
        check_version("0.9.2")


def test_a_newer_jax_is_warned_of():
    with pytest.warns(UserWarning, match=r"installed are jax 0\.13\.0\.dev20270101 .* which are not tested"):
        check_version("0.13.0.dev20270101")


@pytest.mark.parametrize("version", ["0.10.0", "0.12.0.1"])
def test_the_range(version):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_version(version)
