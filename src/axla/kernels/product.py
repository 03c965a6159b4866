"""Matrix products and the tiles of registers that they are cut into."""

from __future__ import annotations

from dataclasses import replace

from axla.core.dataclass import dataclass
from axla.core.dtypes import S16, U16, DType
from axla.kernels.plan import accumulation_type
from axla.target.machine import Target


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n], all of them dense.

    A transposed lhs is stored [b, k, m], a transposed rhs [b, n, k]. With `quads`, k counts words of four
    bytes: an instruction adds the four products of two words to a sum.
    """

    dtype: DType
    result: DType
    batch: int
    m: int
    n: int
    k: int
    lhs_transposed: bool = False
    rhs_transposed: bool = False
    quads: bool = False

    def by_quads(self, target: Target) -> GemmSpec:
        """The same product by the machine's dot products of bytes, where it has them and they serve."""
        fits = self.dtype.is_integer and (self.dtype.bits, self.accumulator.bits) == (8, 32)
        if not fits or self.k % 4 or not self.k or "aarch64.neon.sdot" not in target.intrinsics:
            return self
        return replace(self, k=self.k // 4, quads=True)

    @property
    def accumulator(self) -> DType:
        """What is summed: f32 for smaller floats; for bytes 16 bits, which wrap to the same low bits."""
        return _widened(accumulation_type(self.result))

    @property
    def lhs_row(self) -> int:
        """Elements of a row of lhs, as it is stored."""
        return self.m if self.lhs_transposed else self.k

    @property
    def rhs_row(self) -> int:
        return self.k if self.rhs_transposed else self.n


def _widened(dtype: DType) -> DType:
    if dtype.is_integer and dtype.bits < 16:
        # No vector unit multiplies bytes in one instruction.
        return S16 if dtype.is_signed else U16
    return dtype


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of a micro-kernel: rows, vectors per row, lanes per vector, k-steps per iteration."""

    rows: int
    vectors: int
    lanes: int
    unroll: int = 1

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def part_count(dtype: DType) -> int:
    return 2 if dtype.is_complex else 1
