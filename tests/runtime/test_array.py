"""Arrays: NumPy, the buffer protocol, DLPack, deletion, memory."""

from __future__ import annotations

import ctypes as c
import gc
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest

from axla.core import dtypes
from axla.core.errors import InvalidArgument, OutOfMemory
from axla.core.shape import Shape
from axla.runtime.array import Array, HostArray, device_put
from axla.runtime.dlpack import from_dlpack
from axla.runtime.native import native

SAMPLES = [
    np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    np.array(3.5),
    np.array(True),
    np.zeros((0, 3), np.int64),
    np.arange(6, dtype=np.uint64).reshape(3, 2).T,
    np.arange(4, dtype=np.float32).astype(ml_dtypes.bfloat16),
    np.arange(4, dtype=np.float32).astype(ml_dtypes.float8_e4m3fn).reshape(2, 2),
    np.array([-8, 7], ml_dtypes.int4),
    np.array([1 + 2j, -3j], np.complex64),
    np.array(2, ml_dtypes.bfloat16),
    np.arange(5, dtype=np.float16),
]
named = pytest.mark.parametrize("value", SAMPLES, ids=lambda a: f"{a.dtype}{list(a.shape)}")


@named
def test_round_trip(value):
    array = device_put(value)
    assert isinstance(array, Array)
    assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes, array.itemsize) == (
        value.shape, value.dtype, value.ndim, value.size, value.nbytes, value.itemsize,
    )  # fmt: skip
    assert array.xla_shape is Shape(dtypes.from_numpy(value.dtype), value.shape)
    for back in (
        np.asarray(array),
        array.to_numpy(),
        np.array(array),
        pickle.loads(pickle.dumps(array)).to_numpy(),
    ):
        assert back.dtype == value.dtype and back.shape == value.shape
        assert back.tobytes() == value.tobytes()
    assert str(value.dtype) not in repr(array) or "Array" in repr(array)


def test_views_share_memory_and_are_read_only():
    array = device_put(np.arange(5.0))
    view = np.asarray(array)
    assert np.shares_memory(view, np.asarray(array)) and not view.flags.writeable
    assert not np.shares_memory(np.array(array), view)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    assert np.asarray(array, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(device_put(np.zeros(2, ml_dtypes.bfloat16)), np.float32, copy=False)


def test_device_put_of_a_broadcast_that_has_no_room():
    with pytest.raises(OutOfMemory, match="needs 4611686018427387904 bytes"):
        device_put(np.broadcast_to(np.uint8(0), (1 << 31, 1 << 31)))


def test_device_put_copies():
    source = np.zeros(3)
    array = device_put(source)
    source[:] = 1
    assert array.tolist() == [0, 0, 0]
    assert device_put([[1, 2]]).dtype == np.int64
    assert device_put(device_put(2.5)).item() == 2.5


@pytest.mark.parametrize(
    "value", ["text", object(), [[1], [2, 3]], np.array(["a"]), np.datetime64("2026-01-01")]
)
def test_device_put_refuses(value):
    with pytest.raises(InvalidArgument, match="device_put"):
        device_put(value)


def test_conversions():
    assert float(device_put(2.5)) == 2.5 and int(device_put(3)) == 3 and bool(device_put(True))
    assert complex(device_put(1j)) == 1j and [10, 20][device_put(1)] == 20
    array = device_put(np.arange(6).reshape(2, 3))
    assert len(array) == 2 and array[1, 2] == 5
    with pytest.raises(TypeError):
        len(device_put(1))


def test_no_constructor():
    with pytest.raises(InvalidArgument, match="device_put"):
        Array(3)
    with pytest.raises(TypeError):
        type(device_put(1))()


# The buffer protocol.


def test_buffer():
    array = device_put(np.arange(6, dtype=np.int32).reshape(2, 3))
    view = memoryview(array)
    assert (view.shape, view.strides, view.format, view.readonly) == ((2, 3), (12, 4), "i", True)
    assert view[1, 2] == 5 and bytes(array) == np.arange(6, dtype=np.int32).tobytes()
    with pytest.raises(TypeError, match="not writable"):
        c.c_int.from_buffer(array)


def test_buffer_of_a_type_without_format():
    array = device_put(np.zeros(2, ml_dtypes.bfloat16))
    with pytest.raises(BufferError, match="use np.asarray"):
        memoryview(array)


# Deletion.


@named
def test_views_outlive_deletion(value):
    array = device_put(value)
    view = np.asarray(array)
    array.delete()
    array.delete()
    fill = [device_put(np.full_like(value, 1)) for _ in range(8)]
    assert view.tobytes() == value.tobytes()
    del fill
    assert array.is_deleted and "deleted" in repr(array)
    assert array.shape == value.shape
    for use in (
        array.to_numpy,
        array.block_until_ready,
        array.item,
        array.__dlpack__,
        lambda: np.asarray(array),
    ):
        with pytest.raises((InvalidArgument, BufferError), match="deleted"):
            use()


def test_address_told_outlives_deletion():
    value = np.arange(100.0)
    array = device_put(value)
    told = array.__array_interface__
    array.delete()
    fill = [device_put(np.zeros(100)) for _ in range(8)]
    assert np.ctypeslib.as_array((c.c_double * 100).from_address(told["data"][0])).tolist() == value.tolist()
    del fill


def test_weak_references():
    array = device_put(1)
    seen = weakref.ref(array)
    assert seen() is array
    del array
    assert seen() is None


def test_memory_comes_back():
    n = native()
    gc.collect()
    before = n.memory.in_use
    arrays = [device_put(np.zeros(size, np.uint8)) for size in (0, 1, 64, 65, 5000, 600_000, 5_000_000)]
    assert n.memory.in_use >= before + sum(a.nbytes for a in arrays)
    views = [np.asarray(a) for a in arrays]
    del arrays
    assert n.memory.in_use > before
    del views
    assert n.memory.in_use == before
    fresh = n.memory.fresh
    again = [device_put(np.zeros(size, np.uint8)) for size in (1, 5000, 600_000, 5_000_000)]
    assert n.memory.fresh == fresh, "freed blocks are used again"
    del again
    n.trim()
    assert n.memory.cached == 0


@pytest.mark.parametrize(
    "size", [1, 63, 64, 65, 72, 127, 129, 1000, 4097, 524_288, 524_289, 4_194_304, 4_300_000]
)
def test_blocks_are_aligned_and_apart(size):
    n = native()
    allocate = n.glue.function("axla_allocate", c.c_void_p, c.c_int64)
    free = n.glue.function("axla_free", None, c.c_void_p, c.c_int64)
    blocks = [allocate(size) for _ in range(4)]
    for i, block in enumerate(blocks):
        assert block % 64 == 0
        c.memset(block, i, size)
    assert all(c.string_at(block, size) == bytes([i]) * size for i, block in enumerate(blocks))
    for block in blocks:
        free(block, size)
    assert allocate(size) == blocks[-1], "the block freed last is the warmest"
    free(blocks[-1], size)


def test_allocator_keeps_its_limits():
    n = native()
    allocate = n.glue.function("axla_allocate", c.c_void_p, c.c_int64)
    free = n.glue.function("axla_free", None, c.c_void_p, c.c_int64)
    in_use, limit, cache_limit = n.memory.in_use, n.memory.limit, n.memory.cache_limit
    try:
        n.trim()
        n.memory.limit = in_use + 1_000_000
        assert allocate(2_000_000) is None and allocate(-1) is None and allocate(1 << 62) is None
        assert n.memory.in_use == in_use
        n.memory.cache_limit = 300_000
        blocks = [allocate(100_000) for _ in range(4)]
        for block in blocks:
            free(block, 100_000)
        assert n.memory.cached <= 300_000 and n.memory.in_use == in_use
        n.memory.cache_limit = 10
        free(allocate(100_000), 100_000)
        assert n.memory.cached == 0
    finally:
        n.memory.limit, n.memory.cache_limit = limit, cache_limit


# DLPack.


@pytest.mark.parametrize(
    "value", [v for v in SAMPLES if v.dtype.kind != "V"], ids=lambda a: f"{a.dtype}{list(a.shape)}"
)
def test_dlpack_with_numpy(value):
    array = device_put(value)
    view = np.from_dlpack(array)
    assert view.dtype == value.dtype and view.tobytes() == np.ascontiguousarray(value).tobytes()
    assert value.size == 0 or np.shares_memory(view, np.asarray(array))
    assert not view.flags.writeable
    back = from_dlpack(value.copy())
    assert back.dtype == value.dtype and back.shape == value.shape
    assert np.asarray(back).tobytes() == value.tobytes()


def test_dlpack_shares_memory_both_ways():
    source = np.arange(10.0)
    array = from_dlpack(source)
    source[3] = 30
    assert array[3] == 30
    view = np.from_dlpack(array)
    array.delete()
    del array
    gc.collect()
    assert view[3] == 30 and np.shares_memory(view, source)


def test_dlpack_where_others_set_the_types_of_shared_functions(monkeypatch):
    monkeypatch.setattr(c.pythonapi.PyCapsule_New, "argtypes", [c.c_char_p])
    array = device_put(np.arange(3.0))
    assert np.from_dlpack(array).tolist() == [0, 1, 2]


def test_dlpack_of_strided_memory_is_a_copy():
    source = np.arange(12.0).reshape(3, 4)
    for view in (source.T, source[:, 1:3], source[::-1]):
        array = from_dlpack(view)
        assert np.array_equal(np.asarray(array), view) and not np.shares_memory(np.asarray(array), source)


def test_dlpack_between_arrays_and_of_bfloat16():
    array = device_put(np.arange(3, dtype=np.float32).astype(ml_dtypes.bfloat16))
    other = from_dlpack(array)
    assert other.dtype == ml_dtypes.bfloat16 and np.shares_memory(np.asarray(other), np.asarray(array))
    with pytest.raises(BufferError, match="s4"):
        from_dlpack(device_put(np.zeros(2, ml_dtypes.int4)))


def test_dlpack_options():
    array = device_put(np.arange(3.0))
    assert "dltensor_versioned" in repr(array.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(array.__dlpack__())
    assert array.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="DLPack device"):
        array.__dlpack__(dl_device=(2, 0))
    copied = np.from_dlpack(array, copy=True)
    assert not np.shares_memory(copied, np.asarray(array))
    with pytest.raises(InvalidArgument, match="no __dlpack__"):
        from_dlpack([1, 2])


def test_unused_capsules_free_their_memory():
    n = native()
    array = device_put(np.zeros(1000))
    before = n.memory.in_use
    for options in ({}, {"max_version": (1, 0)}):
        capsule = array.__dlpack__(**options)
        array.delete()
        assert n.memory.in_use == before
        del capsule
        assert n.memory.in_use < before
        array = device_put(np.zeros(1000))


def test_host_arrays_behave_alike():
    value = np.arange(6.0).reshape(2, 3)
    array = HostArray(value.copy())
    assert array.shape == (2, 3) and array.xla_shape is Shape(dtypes.F64, (2, 3)) and array[1, 2] == 5
    assert np.array_equal(np.asarray(array), value) and np.array_equal(np.from_dlpack(array), value)
    array.delete()
    assert array.is_deleted and "deleted" in repr(array)
    with pytest.raises(InvalidArgument, match="deleted"):
        array.to_numpy()


def test_device_put_without_memory():
    n = native()
    limit = n.memory.limit
    n.trim()
    n.memory.limit = n.memory.in_use
    try:
        with pytest.raises(OutOfMemory, match=r"device_put: f64\[1000\] needs 8000 bytes"):
            device_put(np.zeros(1000))
    finally:
        n.memory.limit = limit
