"""OpenCL devices that take SPIR-V: the facts that planners and emitters use."""

from __future__ import annotations

from dataclasses import replace

from axla.target.machine import Caches, Limits, ObjectForm, Target

MOST_LANES = 16
"""The longest vectors of OpenCL."""


def spirv_target(threads: int = 64) -> Target:
    """The target of an OpenCL device with work-groups of at most `threads` work-items, each with one lane."""
    return Target(
        "spirv64", "spirv64-unknown-unknown", "",
        vector_bytes=4, max_lanes=1, threads=threads, launched=True, blocks_products=False, registers=64,
        access_bytes=16 if threads > 1 else 0,
        local_bytes=32 << 10 if threads > 1 else 0,  # as much as every OpenCL device has
        limits=Limits(
            step_cost=0, reads_elements=False, row_in_lane=0, scans=threads > 1, sorts_in_place=threads == 1
        ),
        has_fma=True, has_rounding=True, has_half_conversion=True, has_maximum=False,
        caches=Caches(32 << 10, 1 << 20), form=ObjectForm(format="spirv"),
    )  # fmt: skip


def spirv_cpu_target(lanes: int) -> Target:
    """The target of an OpenCL device that is a CPU with vectors of `lanes` floats.

    Such a device runs work-groups in parallel. A work-group has one work-item with vectors, which never waits
    at a barrier.
    """
    return replace(
        spirv_target(1), name="spirv64-cpu", vector_bytes=4 * min(lanes, MOST_LANES), max_lanes=MOST_LANES,
        most_elements=MOST_LANES, blocks_products=True, registers=32 if lanes >= MOST_LANES else 16,
        unroll=(2, 8), limits=Limits(reads_elements=False, row_in_lane=0, scans=False),
    )  # fmt: skip
