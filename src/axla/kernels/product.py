"""Matrix products and their register tiles."""

from __future__ import annotations

from dataclasses import replace

from axla.core.dataclass import dataclass
from axla.core.dtypes import BF16, F32, S8, S16, S32, U8, U16, U32, DType
from axla.kernels.plan import accumulation_type
from axla.target.machine import Target

BYTES, PAIRS = "x86.avx512.vpdpbusd", "x86.avx512.vpdpwssd"
HALVES = "x86.avx512bf16.dpbf16ps"
"""Intrinsics for words of four bytes, one side with signs; for words of two 16-bit integers; of two bf16."""
ARM_BYTES, ARM_HALVES = "aarch64.neon.sdot", "aarch64.neon.bfdot"
"""The same of AArch64, of bytes that both have signs, or by `udot` none, and of bf16."""


NEVER_NEGATIVE = '{"lhs":"never negative"}'
"""The `backend_config` of a product or convolution whose first operand has no number below 0."""


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n], all of them dense.

    A transposed lhs is stored [b, k, m], a transposed rhs [b, n, k]. With `word` > 1, k counts words of 32
    bits with that many short numbers each: an instruction adds the products of the numbers in two words to a
    sum. The last word lacks `missing` of them.
    """

    dtype: DType
    result: DType
    batch: int
    m: int
    n: int
    k: int
    lhs_transposed: bool = False
    rhs_transposed: bool = False
    word: int = 1
    missing: int = 0
    panel: int = 0
    positive: bool = False

    def by_words(self, target: Target) -> GemmSpec:
        """The same product by dot products of short numbers, if the machine supports them and they pay."""
        found = set()
        if self.dtype in (S8, U8) and self.accumulator in (S32, U32):
            found = {ARM_BYTES, BYTES} & target.intrinsics
        elif (self.dtype, self.accumulator) == (BF16, F32) and target.flushes:
            found = {ARM_HALVES, HALVES} & target.intrinsics
        if not target.math.avx512:  # their narrow forms are AVX-512VL
            found = found - {BYTES, HALVES}
        word = 32 // self.dtype.bits
        if not found or not self.k:
            return self
        return replace(self, k=-(-self.k // word), word=word, missing=-self.k % word)

    @property
    def numbers(self) -> int:
        """The number of steps of k, counting each short number."""
        return self.k * self.word - self.missing

    def is_biased(self, target: Target) -> bool:
        """Whether the instruction multiplies signed with unsigned bytes. Then 128 is added to those of lhs,
        and 128 times the sum of rhs is subtracted from the sums.
        """
        return self.word == 4 and BYTES in target.intrinsics and not self.positive

    @property
    def accumulator(self) -> DType:
        """The type of sums: f32 for smaller floats; 16 bits for bytes, which wrap to the same low bits."""
        return _widened(accumulation_type(self.result))

    @property
    def lhs_row(self) -> int:
        """The number of elements in a stored row of lhs."""
        return self.m if self.lhs_transposed else self.k

    @property
    def rhs_row(self) -> int:
        """The number of elements between rows of rhs as it lies in memory."""
        return self.panel or (self.k if self.rhs_transposed else self.n)


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
        """The number of columns of the tile."""
        return self.vectors * self.lanes


def part_count(dtype: DType) -> int:
    """The number of real numbers in an element: 2 for complex types."""
    return 2 if dtype.is_complex else 1
