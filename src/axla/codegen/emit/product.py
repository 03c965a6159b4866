"""What the ways of multiplying matrices share: sums, operands, and what becomes of finished sums."""

from __future__ import annotations

from contextlib import AbstractContextManager

from axla.codegen.array import element_address
from axla.codegen.convert import memory_element
from axla.codegen.function import Function, Loop, Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.types import vector
from axla.codegen.value import Value, Values
from axla.core.dataclass import dataclass
from axla.kernels.dot import DotPlan, GemmSpec


class Sums:
    """Sums of a product, values of the accumulator's type, in one function."""

    def __init__(self, values: Values, spec: GemmSpec):
        self.values, self.f, self.spec = values, values.f, spec
        self.dtype = spec.accumulator
        self.element = memory_element(self.dtype.real)
        self.lanes = values.target.lanes(self.dtype)
        self.parts = 2 if self.dtype.is_complex else 1
        # Small complex products are rounded one by one, as XLA does: it shows in what cancels.
        self.fused = max(spec.m, spec.n, spec.k) > 16

    def zero(self, lanes: int) -> Value:
        return self.values.constant(self.dtype, 0, lanes)

    def add(self, a: Value, b: Value) -> Value:
        return self.values.binary("add", a, b)

    def multiply_add(self, a: Value, b: Value, total: Value) -> Value:
        """total + a * b."""
        if self.spec.quads:
            return self._quads(a, b, total)
        return self.values.multiply_add(a, b, total, fused=self.fused)

    def _quads(self, a: Value, b: Value, total: Value) -> Value:
        """The products of the bytes of each lane added to it; vectors have at least two lanes."""
        lanes, f = total.lanes, self.f
        words, octets = f"v{max(lanes, 2)}i32", max(lanes, 2) * 4
        found, *factors = (f.splat(v.ssa, max(lanes, 2)) for v in self.values.together(total, a, b))
        name = f"llvm.aarch64.neon.{'s' if self.spec.dtype.is_signed else 'u'}dot.{words}.v{octets}i8"
        factors = [f.cast("bitcast", factor, vector("i8", octets)) for factor in factors]
        found = f.call(found.type, name, found, *factors)
        return Value(total.dtype, lanes, (f.extract(found, 0) if lanes == 1 else found,))

    def read(self, pointer: Ssa, index: Ssa | int, lanes: int) -> Value:
        """Elements of an operand from `index` on, in the type of the sums."""
        dtype = self.dtype if self.spec.quads else self.spec.dtype
        place = element_address(self.f, pointer, dtype, index)
        found = self.values.load(dtype, place, lanes, align=self.spec.dtype.real.itemsize)
        return self.values.convert(found, self.dtype)

    def load(self, pointer: Ssa, index: Ssa | int, lanes: int, planes: int) -> Value:
        """Sums from `index` on: parts of complex ones are `planes` apart, or side by side where that is 0."""
        if self.parts == 1 or planes == 0:
            return self.values.load(self.dtype, element_address(self.f, pointer, self.dtype, index), lanes)
        real = self.dtype.real
        places = (element_address(self.f, pointer, real, self.f.add(index, n * planes)) for n in range(2))
        return Value(self.dtype, lanes, tuple(self.values.load(real, place, lanes).ssa for place in places))

    def store(self, value: Value, pointer: Ssa, index: Ssa | int, planes: int) -> None:
        """Writes the parts `planes` apart."""
        real = self.dtype.real
        for number, part in enumerate(value.parts):
            place = element_address(self.f, pointer, real, self.f.add(index, number * planes))
            self.values.store(Value(real, value.lanes, (part,)), place)


@dataclass(frozen=True)
class Matrix:
    """An operand as it lies in memory: rows `stride` elements apart; k `down` its rows, or along them."""

    sums: Sums
    start: Ssa
    stride: int
    down: bool = False

    def at(self, row: Ssa | int, column: Ssa | int) -> Ssa:
        """The number of an element."""
        return self.sums.f.add(self.sums.f.mul(row, self.stride), column)

    def load(self, row: Ssa | int, column: Ssa | int, lanes: int) -> Value:
        """Elements of a row, in the type of the sums."""
        if self.sums.spec.quads and self.down and self.stride > 1:
            return self._quads(row, column, lanes)
        return self.sums.read(self.start, self.at(row, column), lanes)

    def _quads(self, row: Ssa | int, column: Ssa | int, lanes: int) -> Value:
        """Words of what stands in four rows below each other."""
        f, values, dtype = self.sums.f, self.sums.values, self.sums.spec.dtype
        words = values.m.reg(self.sums.zero(lanes).ssa)
        for n in range(4):
            place = element_address(f, self.start, dtype, self.at(f.add(f.mul(row, 4), n), column))
            byte = values.m.reg(values.load(dtype, place, lanes).ssa)
            words = words | byte.cast("zext", "i32") << 8 * n
        return Value(self.sums.dtype, lanes, (words.ssa,))


class Product(Sums):
    """A product being written into the function of a kernel, and what the kernel makes of it."""

    def __init__(self, k: KernelWriter, plan: DotPlan):
        super().__init__(k.values, plan.product)
        self.k, self.plan, self.cut, self.tile = k, plan, plan.cut, plan.cut.tile
        self.hero = k.named[plan.hero]
        parameters = k.kernel.computation.parameters
        self.lhs, self.rhs = (k.inputs[parameters.index(o)].pointer for o in self.hero.operands)
        k.f.polls = False  # calls are short; in tiles, which may be long, the loops that matter poll

    def inside(self, f: Function) -> Product:
        """The same in another function, which is handed the kernel's buffers."""
        return Product(self.k.inside(f), self.plan)

    def units(self) -> AbstractContextManager[Loop]:
        """The loop over the units of this call."""
        return self.k.lines(self.cut.group, self.cut.units)

    def matrices(self, batch: Ssa) -> tuple[Matrix, Matrix]:
        """One lhs and one rhs of the batch."""
        spec, f = self.spec, self.f
        depth = spec.k * 4 if spec.quads else spec.k
        lhs, rhs = (
            Matrix(self, element_address(f, start, spec.dtype, f.mul(batch, size * depth)), row, down)
            for start, size, row, down in (
                (self.lhs, spec.m, spec.lhs_row, spec.lhs_transposed),
                (self.rhs, spec.n, spec.rhs_row, not spec.rhs_transposed),
            )
        )
        return lhs, rhs

    def give(self, total: Value, batch: Ssa, row: Ssa | int, col: Ssa | int) -> None:
        """Writes the kernel's results for a finished piece of the product, once for each; lanes run along
        columns, or along rows where there is one column.
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
