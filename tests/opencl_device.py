"""Finds an OpenCL device, for tests that need one."""

from __future__ import annotations

from functools import cache

import pytest

import axla


@cache
def why_no_device() -> str:
    """The reason why OpenCL programs cannot run here; "" if they can."""
    try:
        axla.backends.get("opencl").driver(0)
    except axla.UnsupportedError as error:
        return str(error)
    return ""


needs_opencl = [
    pytest.mark.opencl,
    pytest.mark.skipif("__import__('opencl_device').why_no_device()", reason="no OpenCL device"),
]
