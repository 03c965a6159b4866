"""Loads PTX and launches kernels through the CUDA driver, by ctypes."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np

from axla.kernels.plan import Plan

_OLDEST = (8, 0)


@functools.cache
def _driver() -> ctypes.CDLL | str:
    """The driver with the first device's context current in this thread; text that says why there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver (libcuda.so.1)"
    device, context, found = ctypes.c_int(), ctypes.c_void_p(), [ctypes.c_int(), ctypes.c_int()]
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return "the CUDA driver finds no device"
    for attribute, place in zip((75, 76), found, strict=True):  # compute capability, major and minor
        cuda.cuDeviceGetAttribute(ctypes.byref(place), attribute, device)
    version = tuple(place.value for place in found)
    if version < _OLDEST:
        return f"the GPU has compute capability {version}, the tests' PTX is for {_OLDEST} and later"
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context):
        return "the GPU gives no context"
    return cuda


def why_not() -> str | None:
    """Why nothing can be run on a GPU here."""
    found = _driver()
    return found if isinstance(found, str) else None


def _call(name: str, *args: object) -> None:
    code = getattr(_driver(), name)(*args)
    assert code == 0, f"{name} gives error {code}"


def _allocate(size: int) -> ctypes.c_uint64:
    place = ctypes.c_uint64()
    _call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(max(size, 8)))
    return place


def run(ptx: str, plan: Plan, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Launches the phases of a plan; `outputs` are written."""
    module = ctypes.c_void_p()
    _call("cuModuleLoadData", ctypes.byref(module), ptx.encode() + b"\0")
    arrays = [*inputs, *outputs]
    places = [_allocate(array.nbytes) for array in arrays] + [_allocate(plan.scratch_bytes)]
    try:
        for place, array in zip(places, arrays, strict=False):
            _call("cuMemcpyHtoD_v2", place, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
        values = (ctypes.c_void_p * len(places))(*(ctypes.addressof(place) for place in places))
        for phase in plan.phases:
            kernel = ctypes.c_void_p()
            _call("cuModuleGetFunction", ctypes.byref(kernel), module, phase.symbol.encode())
            sizes = (phase.count, 1, 1, phase.threads, 1, 1, 0)
            _call("cuLaunchKernel", kernel, *sizes, None, values, None)
        _call("cuCtxSynchronize")
        for place, array in zip(places[len(inputs) :], outputs, strict=False):
            _call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), place, ctypes.c_size_t(array.nbytes))
    finally:
        for place in places:
            _call("cuMemFree_v2", place)
        _call("cuModuleUnload", module)
