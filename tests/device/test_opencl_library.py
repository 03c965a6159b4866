"""Which OpenCL library is loaded, and what is said where there is none; memory that is used again."""

from __future__ import annotations

import pytest

import axla
from axla.core import flags
from axla.device import opencl
from axla.device.driver import Driver, Pool, rounded


def test_the_library_that_the_flag_names():
    wanted = r"no OpenCL library was found \(tried /nowhere/libOpenCL.so\); AXLA_OPENCL"
    with flags.override(opencl="/nowhere/libOpenCL.so"), pytest.raises(axla.UnsupportedError, match=wanted):
        opencl.devices.__wrapped__()


class Counting(Driver):
    """Memory of numbers: 1024 bytes."""

    def __init__(self):
        self.taken: dict[int, int] = {}
        self.left, self.next = 1024, 64

    def allocate(self, size):
        if size > self.left:
            raise axla.OutOfMemory("full")
        self.left -= size
        self.next += 64
        self.taken[self.next] = size
        return self.next

    def free(self, address):
        self.left += self.taken.pop(address)

    def wait(self):
        pass


def test_memory_that_is_free_is_used_again_and_given_back_when_there_is_no_more():
    driver = Counting()
    pool = Pool(driver)
    assert rounded(500) == rounded(510) == 512 and rounded(600) == 640 and rounded(0) == 64
    first = pool.take(512)
    pool.give(first, 512)
    assert pool.take(512) == first
    pool.give(first, 512)
    assert driver.left == 512
    second = pool.take(640)  # there are 512
    assert second != first and driver.taken == {second: 640}
    with pytest.raises(axla.OutOfMemory, match="full"):
        pool.take(512)
