"""Devices whose blocks have several threads: PTX on the machine of the tests, and work-groups of OpenCL."""

from __future__ import annotations

import shutil

import pytest
from devices_of_blocks import WorkGroups

import axla
from opencl_device import needs_opencl, why_no_device
from ptx.gpu import FakeCudaBackend, FakeGpu


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: it builds the fake library of CUDA")
    return axla.Client(FakeCudaBackend(FakeGpu(tmp_path_factory.mktemp("cuda"))))


@pytest.fixture(scope="module")
def groups():
    if why_no_device():
        pytest.skip(why_no_device())
    return axla.Client(WorkGroups())


@pytest.fixture(params=["ptx", pytest.param("groups", marks=needs_opencl)])
def client(request):
    return request.getfixturevalue(request.param)
