"""Tests with TensorFlow, in an environment of their own: sh scripts/test-tensorflow."""

from importlib.util import find_spec

import pytest

# The folder tests/tensorflow is found as `tensorflow` too, but has no `core`.
_IS_THERE = find_spec("tensorflow.core") is not None


class _Skipped(pytest.Module):
    def collect(self):
        pytest.skip("TensorFlow is not installed: sh scripts/test-tensorflow", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return None if _IS_THERE else _Skipped.from_parent(parent, path=module_path)
