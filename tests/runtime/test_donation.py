"""Donation: results in the place of parameters, and what must not be reused."""

from __future__ import annotations

import native_programs as programs
import numpy as np
import pytest

from axla.core.errors import InvalidArgument, OutOfMemory
from axla.runtime.array import device_put
from axla.runtime.dlpack import from_dlpack
from axla.runtime.native import native

X = np.arange(16, dtype=np.float32)


@pytest.fixture(scope="module", params=[False, True], ids=["short", "long"])
def increment(request):
    return programs.increment(16, long_running=request.param)


def address(array) -> int:
    return np.asarray(array).ctypes.data


def test_the_memory_moves_to_the_result(increment):
    x = device_put(X)
    place = address(x)
    y = increment(x, X)
    assert x.is_deleted and address(y) == place
    assert np.array_equal(np.asarray(y), X + 1)
    z = increment(increment(y, X), X)
    assert address(z) == place and np.array_equal(np.asarray(z), X + 3)


def test_numpy_arrays_are_copied(increment):
    x = X.copy()
    y = increment(x, X)
    assert np.array_equal(x, X) and np.array_equal(np.asarray(y), X + 1)


@pytest.mark.parametrize("share", [np.asarray, memoryview, lambda x: x.__array_interface__, np.from_dlpack])
def test_shared_memory_is_copied(increment, share):
    x = device_put(X)
    held = share(x)
    y = increment(x, X)
    assert x.is_deleted and np.array_equal(np.asarray(y), X + 1)
    if isinstance(held, np.ndarray | memoryview):
        assert np.array_equal(np.asarray(held), X) and address(y) != np.asarray(held).ctypes.data
    else:
        assert address(y) != held["data"][0]


def test_memory_of_others_is_copied(increment):
    source = X.copy()
    y = increment(from_dlpack(source), X)
    assert np.array_equal(source, X) and np.array_equal(np.asarray(y), X + 1)


def test_donating_twice_and_using_what_is_donated(increment):
    x = device_put(X)
    with pytest.raises(
        InvalidArgument, match=r"increment, parameter 1 \(other\): the array is also donated, as parameter 0"
    ):
        increment(x, x)
    assert not x.is_deleted and np.array_equal(np.asarray(x), X), "a refused call leaves its arguments alone"
    with pytest.raises(
        InvalidArgument, match=r"parameter 1 \(other\): donated twice, also as parameter 0 \(x\)"
    ):
        increment.execute([x, x], donate=[1])
    y = increment(x, X)
    with pytest.raises(InvalidArgument, match=r"parameter 0 \(x\): the array was deleted or donated"):
        increment(x, X)
    del y


def test_a_refused_call_gives_donated_arrays_back(increment):
    x = device_put(X)
    with pytest.raises(InvalidArgument, match=r"parameter 1 \(other\)"):
        increment(x, X[:3])
    assert not x.is_deleted
    n = native()
    limit = n.memory.limit
    view = np.asarray(x)  # so that a copy, hence memory, is needed
    n.trim()
    n.memory.limit = n.memory.in_use
    try:
        with pytest.raises(OutOfMemory, match="64 bytes"):
            increment(x, X)
    finally:
        n.memory.limit = limit
    assert not x.is_deleted and np.array_equal(view, X)


def test_donation_by_call(increment):
    x, other = device_put(X), device_put(X)
    n = native()
    before = n.memory.in_use
    (y,) = increment.execute([x, other], donate=[1])
    assert other.is_deleted and n.memory.in_use < before
    assert np.array_equal(np.asarray(y), X + 1)
    with pytest.raises(InvalidArgument, match=r"donate names parameter 7; there are 2"):
        increment.execute([y, X], donate=[7])
    with pytest.raises(
        InvalidArgument, match=r"parameter 1 \(other\): only an Array can be donated, not ndarray"
    ):
        increment.execute([y, X], donate=[1])


def test_results_never_share_memory_with_inputs_or_each_other():
    plain = programs.increment(16, aliased=False)
    x = device_put(X)
    results = [plain(x, x) for _ in range(20)]
    assert len({address(a) for a in [x, *results]}) == 21
    assert np.array_equal(np.asarray(x), X) and all(np.array_equal(np.asarray(r), X + 1) for r in results)


def test_donation_does_not_leak(increment):
    n = native()
    x = device_put(X)
    before = n.memory.in_use
    for _ in range(500):
        view = np.asarray(x)
        x = increment(x, X)
        x = increment(x, X)
        del view
    assert n.memory.in_use == before and x[0] == 1000
