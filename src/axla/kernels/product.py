"""The parameters of matrix products, and their register tiles."""

from __future__ import annotations

from dataclasses import replace

from axla.core.dataclass import dataclass
from axla.core.dtypes import BF16, F32, S8, S16, S32, U8, U16, U32, DType
from axla.kernels.plan import accumulation_type
from axla.target.machine import Target

BYTES, PAIRS = "x86.avx512.vpdpbusd", "x86.avx512.vpdpwssd"
HALVES = "x86.avx512bf16.dpbf16ps"
"""Intrinsics of x86 that add the products of words: of four bytes, signed in one operand and unsigned in the
other; of two 16-bit integers; of two bf16.
"""
ARM_BYTES, ARM_HALVES = "aarch64.neon.sdot", "aarch64.neon.bfdot"
"""Intrinsics of AArch64 that add the products of words: of bytes, all signed (or with `udot` all unsigned),
and of bf16.
"""


NEVER_NEGATIVE = '{"lhs":"never negative"}'
"""The `backend_config` of a product or convolution whose first operand has no negative element."""


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """A product out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n] of dense arrays.

    A transposed lhs is stored as [b, k, m], a transposed rhs as [b, n, k]. With `word` > 1, k counts words of
    32 bits that hold `word` short numbers each: one instruction adds the products of the numbers in two words
    to a sum. The last word lacks `missing` numbers. If `panel` is not 0, rhs is stored in panels of that many
    columns. `positive`: lhs has no negative element.
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
        """The product by words of short numbers, if the machine has instructions for them; else this product
        itself.
        """
        found = set()
        if self.dtype in (S8, U8) and self.accumulator in (S32, U32):
            found = {ARM_BYTES, BYTES} & target.intrinsics
        elif (self.dtype, self.accumulator) == (BF16, F32) and target.flushes:
            found = {ARM_HALVES, HALVES} & target.intrinsics
        if not target.math.avx512:  # their forms for short vectors need AVX-512VL
            found = found - {BYTES, HALVES}
        word = 32 // self.dtype.bits
        if not found or not self.k:
            return self
        return replace(self, k=-(-self.k // word), word=word, missing=-self.k % word)

    @property
    def numbers(self) -> int:
        """The number of products in a sum: k in short numbers, not in words."""
        return self.k * self.word - self.missing

    def is_biased(self, target: Target) -> bool:
        """Whether the target's instruction for words multiplies unsigned with signed bytes, so that signed
        bytes of lhs need a correction: 128 is added to them, and 128 times the sum of rhs is subtracted from
        the sums.
        """
        return self.word == 4 and BYTES in target.intrinsics and not self.positive

    @property
    def accumulator(self) -> DType:
        """The type of the sums: f32 for smaller floats; 16 bits for 8-bit integers, whose low bits wrap
        alike.
        """
        return _widened(accumulation_type(self.result))

    @property
    def lhs_row(self) -> int:
        """The length of a row of lhs as stored, in elements."""
        return self.m if self.lhs_transposed else self.k

    @property
    def rhs_row(self) -> int:
        """The length of a row of rhs as stored, in elements."""
        return self.panel or (self.k if self.rhs_transposed else self.n)


def _widened(dtype: DType) -> DType:
    if dtype.is_integer and dtype.bits < 16:
        # No vector unit multiplies bytes in one instruction.
        return S16 if dtype.is_signed else U16
    return dtype


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a micro-kernel: `rows` x `vectors` of `lanes` elements; `unroll` is the number of steps of
    k per iteration.
    """

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
