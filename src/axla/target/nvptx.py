"""NVIDIA GPUs: the facts that planners and emitters use."""

from __future__ import annotations

from axla.target.machine import Caches, Limits, ObjectForm, Target


def nvptx_target(cpu: str = "sm_90") -> Target:
    """The target of an NVIDIA GPU, by the name of its architecture."""
    return Target(
        cpu, "nvptx64-nvidia-cuda", cpu,
        index_type="i32",  # 64-bit integers take two registers and many instructions
        vector_bytes=4, max_lanes=1, threads=256, launched=True, blocks_products=False, registers=64,
        warp=32, access_bytes=16, local_bytes=48 << 10,  # as much as a kernel may declare
        matrix_units=frozenset({"f16", "bf16"}) if int(cpu[3:].rstrip("af")) >= 80 else frozenset(),
        # Blocks are cheap, so a step has a few elements per thread. Values in registers are computed by the
        # host.
        limits=Limits(step_cost=0, reads_elements=False, row_in_lane=0, scans=True, sorts_in_place=False),
        has_fma=True, has_rounding=True, has_half_conversion=True,
        caches=Caches(128 << 10, 32 << 20),
        form=ObjectForm(format="ptx"),
        intrinsics=frozenset({
            "nvvm.read.ptx.sreg", "nvvm.shfl.sync", "nvvm.barrier.cta.sync.aligned.all", "nvvm.mma",
            "nvvm.ldmatrix.sync.aligned",
        }),
    )  # fmt: skip
