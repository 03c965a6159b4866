"""Devices whose blocks have several threads: a backend of OpenCL as if its device was a GPU, and how results
are compared.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import axla
from axla.device.executable import OpenCLBackend
from axla.target.spirv import spirv_target


class WorkGroups(OpenCLBackend):
    """Devices of OpenCL as if they were GPUs: work-groups of several work-items.

    Kernels are not optimized: the pass ReduceCrossBarrierValues of Intel's compiler (2026.2) writes to freed
    memory where some 50 blocks of a kernel use values from before a barrier.
    """

    name = "opencl-groups"

    def opened(self, number):
        driver = super().opened(number)
        driver.build_options += b" -cl-opt-disable"
        driver.target = replace(spirv_target(), has_double=True)
        return driver


def same(client, text: str, arguments) -> None:
    program = client.compile(axla.parse(text))
    assert not program.host_steps
    found = program.execute(arguments)
    wanted = axla.compile(axla.parse(text), backend="interpreter").execute(arguments)
    for a, b in zip(found, wanted, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
