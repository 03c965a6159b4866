"""Code that all matrix product kernels share: sums, operands, and the output of finished sums."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from axla.codegen.array import element_address
from axla.codegen.convert import memory_element
from axla.codegen.function import ForLoop, LlvmFunction, Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.types import lane_count, vector
from axla.codegen.value import Value, Values
from axla.core.dataclass import dataclass
from axla.core.dtypes import U8, U16
from axla.kernels.dot import DotPlan, GemmSpec
from axla.kernels.product import ARM_BYTES, ARM_HALVES, BYTES, HALVES, PAIRS

SIGNS = -0x7F7F7F80
"""A 32-bit word with the highest bit of each byte set."""


class Sums:
    """Computes sums of a product in one function, in the accumulator's type."""

    def __init__(self, values: Values, spec: GemmSpec):
        self.values, self.f, self.spec = values, values.f, spec
        self.dtype = spec.accumulator
        self.element = memory_element(self.dtype.real)
        self.lanes = values.target.lanes(self.dtype)
        self.parts = 2 if self.dtype.is_complex else 1
        # In small complex products, each multiplication is rounded, as in XLA: the difference shows where
        # terms cancel.
        self.fused = max(spec.m, spec.n, spec.k) > 16
        self.biased = False  # the bytes of the first factor have an offset of 128

    def zero(self, lanes: int) -> Value:
        """The empty sum, 0, in every lane."""
        return self.values.constant(self.dtype, 0, lanes)

    def add(self, a: Value, b: Value) -> Value:
        """Adds two sums."""
        return self.values.binary("add", a, b)

    def multiply_add(self, a: Value, b: Value, total: Value) -> Value:
        """Returns total + a * b."""
        if self.spec.word > 1:
            return self._words(a, b, total)
        return self.values.multiply_add(a, b, total, fused=self.fused)

    def _words(self, a: Value, b: Value, total: Value) -> Value:
        """Adds the products of the short numbers in each lane to `total`."""
        f, lanes, signed = self.f, total.lanes, self.spec.dtype.is_signed
        arm = self.values.target.intrinsics & {ARM_BYTES, ARM_HALVES}
        wide = max(lanes, 2 if arm else 4)
        found, *factors = (self._wide(v.ssa, lanes, wide) for v in self.values.together(total, a, b))
        if arm and self.spec.word == 2:
            found = self._dot(f"{ARM_HALVES}.v{wide}f32.v{2 * wide}bf16", "bfloat", found, factors)
        elif arm:
            name = f"aarch64.neon.{'s' if signed else 'u'}dot.v{wide}i32.v{4 * wide}i8"
            found = self._dot(name, "i8", found, factors)
        elif self.spec.word == 2:
            found = self._dot(f"{HALVES}.{32 * wide}", "bfloat", found, factors)
        elif self.biased or self.spec.positive:
            found = self._dot(f"{BYTES}.{32 * wide}", "i8", found, factors if signed else factors[::-1])
        else:
            for side in zip(*(self._pairs(factor) for factor in factors), strict=True):
                found = self._dot(f"{PAIRS}.{32 * wide}", "i16", found, side)
        if lanes < wide:
            found = f.extract(found, 0) if lanes == 1 else f.shuffle(found, found, range(lanes))
        return Value(total.dtype, lanes, (found,))

    def _wide(self, value: Ssa, lanes: int, wide: int) -> Ssa:
        """Repeats the lanes of a register up to `wide` lanes."""
        if 1 < lanes < wide:
            return self.f.shuffle(value, value, [lane % lanes for lane in range(wide)])
        return self.f.splat(value, wide)

    def _dot(self, name: str, kind: str, total: Ssa, factors: Sequence[Ssa]) -> Ssa:
        f, word = self.f, 4 if kind == "i8" else 2
        words = (f.cast("bitcast", x, vector(kind, word * lane_count(total.type))) for x in factors)
        return f.call(total.type, f"llvm.{name}", total, *words)

    def _pairs(self, words: Ssa) -> tuple[Ssa, Ssa]:
        """The even and the odd bytes of words, as 16-bit integers."""
        both = self.f.cast("bitcast", words, vector("i16", 2 * lane_count(words.type)))
        reg = self.values.m.reg(both)
        if self.spec.dtype.is_signed:
            return ((reg << 8) >> 8).ssa, (reg >> 8).ssa
        return (reg & 255).ssa, reg.lshr(8).ssa

    def read(self, pointer: Ssa, index: Ssa | int, lanes: int) -> Value:
        """Loads elements of an operand, from element `index` on, and converts them to the type of the
        sums.
        """
        dtype = self.dtype if self.spec.word > 1 else self.spec.dtype
        return self.read_at(element_address(self.f, pointer, dtype, index), lanes)

    def read_at(self, place: Ssa, lanes: int) -> Value:
        """Loads elements, or words, of an operand at an address, and converts them to the type of the
        sums.
        """
        dtype = self.dtype if self.spec.word > 1 else self.spec.dtype
        found = self.values.load(dtype, place, lanes, align=self.spec.dtype.real.itemsize)
        return self.values.factor(found, self.spec.result, self.dtype)

    def load(self, pointer: Ssa, index: Ssa | int, lanes: int, planes: int) -> Value:
        """Loads sums from element `index` on. The real and imaginary parts of complex sums are `planes`
        elements apart, or interleaved where `planes` is 0.
        """
        if self.parts == 1 or planes == 0:
            return self.values.load(self.dtype, element_address(self.f, pointer, self.dtype, index), lanes)
        real = self.dtype.real
        places = (element_address(self.f, pointer, real, self.f.add(index, n * planes)) for n in range(2))
        return Value(self.dtype, lanes, tuple(self.values.load(real, place, lanes).ssa for place in places))

    def store(self, value: Value, pointer: Ssa, index: Ssa | int, planes: int) -> None:
        """Stores sums from element `index` on, with real and imaginary parts `planes` elements apart."""
        real = self.dtype.real
        for number, part in enumerate(value.parts):
            place = element_address(self.f, pointer, real, self.f.add(index, number * planes))
            self.values.store(Value(real, value.lanes, (part,)), place)


@dataclass(frozen=True)
class Matrix:
    """An operand in memory, whose rows are `stride` elements apart. `down`: k is the number of a row, not the
    position in one. `moved`: bytes are read with an offset of 128, which exchanges signed and unsigned.
    """

    sums: Sums
    start: Ssa
    stride: int
    down: bool = False
    moved: bool = False

    def at(self, row: Ssa | int, column: Ssa | int) -> Ssa:
        """The offset of an element, in elements; the offset of a word is that of its first short number."""
        f = self.sums.f
        column = column if self.down else f.mul(column, self.sums.spec.word)
        return f.add(f.mul(row, self.stride), column)

    def load(self, row: Ssa | int, column: Ssa | int, lanes: int) -> Value:
        """Loads `lanes` elements of row `row`, from element `column` on, in the type of the sums."""
        word = self.sums.spec.word
        if word > 1 and self.down:
            return self._words(self.sums.f.mul(row, word), column, word, lanes)
        place = element_address(self.sums.f, self.start, self.sums.spec.dtype, self.at(row, column))
        return self._moved(self.sums.read_at(place, lanes))

    def last(self, k: Ssa, other: Ssa) -> Value:
        """Loads the last, incomplete word of k of row `other` of lhs, or of column `other` of rhs."""
        f, spec = self.sums.f, self.sums.spec
        row, column = (f.mul(k, spec.word), other) if self.down else (other, k)
        return self._words(row, column, spec.word - spec.missing, 1)

    def _moved(self, value: Value) -> Value:
        if not self.moved:
            return value
        return Value(value.dtype, value.lanes, ((self.sums.values.m.reg(value.ssa) ^ SIGNS).ssa,))

    def _words(self, row: Ssa | int, column: Ssa | int, count: int, lanes: int) -> Value:
        """Loads `lanes` words, each joined from the short numbers in `count` steps of k, from `row` and
        `column` on.
        """
        f, values = self.sums.f, self.sums.values
        dtype = U8 if self.sums.spec.word == 4 else U16
        first, words = self.at(row, column), None
        for n in range(count):
            at = f.add(first, n * self.stride if self.down else n)
            place = element_address(f, self.start, dtype, at)
            short = values.m.reg(values.load(dtype, place, lanes).ssa).cast("zext", "i32")
            words = words | short << dtype.bits * n if words else short
        assert words is not None
        bits = f.cast("bitcast", words.ssa, vector(self.sums.element, lanes))
        return self._moved(Value(self.sums.dtype, lanes, (bits,)))


class Product(Sums):
    """Writes a product, and the ops that follow it, into a kernel's function."""

    def __init__(self, k: KernelWriter, plan: DotPlan):
        super().__init__(k.values, plan.product)
        self.k, self.plan, self.cut, self.tile = k, plan, plan.cut, plan.cut.tile
        self.hero = k.named[plan.hero]
        parameters = k.kernel.computation.parameters
        self.lhs, self.rhs = (k.inputs[parameters.index(o)].pointer for o in self.hero.operands)
        k.f.polls = False  # calls are short, except those that compute tiles: there, the outer loops poll

    def inside(self, f: LlvmFunction) -> Product:
        """The product in another function, `f`, which has the kernel's buffers as parameters."""
        return Product(self.k.inside(f), self.plan)

    def units(self) -> AbstractContextManager[ForLoop]:
        """Opens the loop over the units of this call."""
        return self.k.lines(self.cut.group, self.cut.units)

    def matrices(self, batch: Ssa) -> tuple[Matrix, Matrix]:
        """(lhs, rhs) of product number `batch`."""
        spec, f = self.spec, self.f
        depth = spec.numbers
        lhs, rhs = (
            Matrix(
                self, element_address(f, start, spec.dtype, f.mul(batch, size * depth)),
                size if down and size > 1 else spec.word if down else depth, down and size > 1,
            )
            for start, size, down in (
                (self.lhs, spec.m, spec.lhs_transposed), (self.rhs, spec.n, not spec.rhs_transposed),
            )
        )  # fmt: skip
        return lhs, rhs

    def give(self, total: Value, batch: Ssa, row: Ssa | int, col: Ssa | int) -> None:
        """Computes the kernel's results for a finished part of the product, and stores each exactly once.
        Lanes run along columns, or along rows where there is one column.
        """
        spec, f, lanes = self.spec, self.f, total.lanes
        along_rows = spec.n == 1
        row, col = (f.index(at) if isinstance(at, int) else at for at in (row, col))
        at = (
            Index(f, batch, limit=spec.batch),
            Index(f, row, int(along_rows), lanes, limit=spec.m),
            Index(f, col, int(not along_rows), lanes, limit=spec.n),
        )
        e = self.k.elements(lanes)
        e.bind(self.hero, self.values.convert(total, spec.result))
        self.k.write(e, at, (spec.batch, spec.m, spec.n))
