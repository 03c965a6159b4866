"""NVIDIA GPUs: what plans and emitters may assume about one."""

from __future__ import annotations

from dataclasses import dataclass

from axla.core.dtypes import DType
from axla.target.machine import Caches, Limits, MathKnobs, ObjectForm


@dataclass(frozen=True, slots=True)
class NvptxTarget:
    """An NVIDIA GPU, by the name of its architecture."""

    cpu: str = "sm_90"
    triple: str = "nvptx64-nvidia-cuda"
    features: frozenset[str] = frozenset()
    index_type: str = "i32"  # 64-bit integers are two registers and many instructions
    vector_bytes: int = 4
    threads: int = 256
    limits: Limits = Limits(step_cost=0)  # blocks cost nothing: a step has a few elements per thread
    launched: bool = True
    has_fma: bool = True
    has_rounding: bool = True
    has_half_conversion: bool = True
    has_division: bool = True
    has_wide_division: bool = True
    has_double: bool = True
    has_fast_gather: bool = False
    has_masked: bool = False
    blocks_products: bool = False
    unroll: tuple[int, int] = (1, 4)
    registers: int = 64
    caches: Caches = Caches(128 << 10, 32 << 20, 32 << 20)
    math: MathKnobs = MathKnobs()
    form: ObjectForm = ObjectForm()
    intrinsics: frozenset[str] = frozenset(
        {"nvvm.read.ptx.sreg", "nvvm.shfl.sync", "nvvm.barrier.cta.sync.aligned.all"}
    )

    @property
    def name(self) -> str:
        return self.cpu

    def lanes(self, widest: DType) -> int:
        return 1
