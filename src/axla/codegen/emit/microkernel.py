"""The register tile of a matrix multiplication: MR rows by NV vectors of sums, in registers over all of k.

    C[0:MR, 0:NV*lanes] (+)= A[0:MR, 0:k] * B[0:k, 0:NV*lanes]

Everything but k, the row stride of C and whether to add to C is static. One loop iteration is NV loads of B,
MR broadcast loads of A and MR*NV multiply-adds: LLVM keeps that order and all sums in registers without a
single optimisation pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from axla.codegen.function import Function, Module, Ssa
from axla.codegen.types import mangle, vector
from axla.core.dtypes import DType
from axla.kernels.dot import GemmSpec, Tile, part_count
from axla.target.machine import Target

_LLVM = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "c64": "float", "c128": "double"}

Parts = tuple[Ssa, ...]
"""One value: a real number, or the real and the imaginary part of a complex one."""


def part_type(dtype: DType) -> str:
    """The LLVM type of a number in memory; of one part of it, for complex."""
    return _LLVM.get(dtype.name) or f"i{dtype.itemsize * 8}"


@dataclass(frozen=True)
class Accumulation:
    """Sums of products of one accumulator type: fused where the target can, wrapping for integers."""

    dtype: DType
    target: Target
    fused: bool = True

    @classmethod
    def of(cls, spec: GemmSpec, target: Target) -> Accumulation:
        """Of a matrix product. Small complex ones round every product, as XLA: it shows in what cancels."""
        small = max(spec.m, spec.n, spec.k) <= 16
        return cls(spec.accumulator, target, not (small and spec.accumulator.is_complex))

    @property
    def parts(self) -> int:
        return part_count(self.dtype)

    @property
    def element(self) -> str:
        return part_type(self.dtype)

    def zero(self, f: Function, lanes: int) -> Parts:
        return (f.zero(vector(self.element, lanes)),) * self.parts

    def add(self, f: Function, a: Parts, b: Parts) -> Parts:
        opcode = "add" if self.dtype.is_integer else "fadd"
        return tuple(f.binary(opcode, x, y) for x, y in zip(a, b, strict=True))

    def multiply_add(self, f: Function, a: Parts, b: Parts, total: Parts) -> Parts:
        """total + a * b."""
        if self.parts == 1:
            return (self._fused(f, a[0], b[0], total[0]),)
        if not self.fused:
            product = [
                f.binary(opcode, f.binary("fmul", a[0], b[k]), f.binary("fmul", a[1], b[1 - k]))
                for k, opcode in enumerate(("fsub", "fadd"))
            ]
            return self.add(f, total, tuple(product))
        real = self._fused(f, f.unary("fneg", a[1]), b[1], self._fused(f, a[0], b[0], total[0]))
        imaginary = self._fused(f, a[1], b[0], self._fused(f, a[0], b[1], total[1]))
        return (real, imaginary)

    def _fused(self, f: Function, a: Ssa, b: Ssa, total: Ssa) -> Ssa:
        if self.dtype.is_integer:
            return f.binary("add", f.binary("mul", a, b), total)
        if self.target.has_fma:
            return f.call(a.type, f"llvm.fma.{mangle(a.type)}", a, b, total)
        return f.binary("fadd", f.binary("fmul", a, b), total)


def load_parts(
    f: Function, dtype: DType, pointer: Ssa, index: Ssa, lanes: int, planes: Ssa | int = 0
) -> Parts:
    """Elements from `index` on: complex parts stand `planes` apart, or side by side when that is 0."""
    element, size = part_type(dtype), dtype.real.itemsize
    if part_count(dtype) == 1:
        return (f.load(vector(element, lanes), f.gep(element, pointer, index), size),)
    if planes == 0:
        address = f.gep(element, pointer, f.mul(index, f.const(index.type, 2)))
        both = f.load(vector(element, 2 * lanes), address, size)
        return split_parts(f, both, lanes)
    offset = f.const(index.type, planes) if isinstance(planes, int) else planes
    places = (index, f.add(index, offset))
    return tuple(f.load(vector(element, lanes), f.gep(element, pointer, place), size) for place in places)


def split_parts(f: Function, both: Ssa, lanes: int) -> Parts:
    """The even and the odd lanes of a vector."""
    if lanes == 1:
        return (f.extract(both, 0), f.extract(both, 1))
    return (f.shuffle(both, both, range(0, 2 * lanes, 2)), f.shuffle(both, both, range(1, 2 * lanes, 2)))


def store_parts(f: Function, dtype: DType, parts: Parts, pointer: Ssa, index: Ssa, planes: Ssa | int) -> None:
    """Stores part k at `index` + k * `planes`."""
    element, size = part_type(dtype), dtype.real.itemsize
    offset = f.const(index.type, planes) if isinstance(planes, int) else planes
    for number, part in enumerate(parts):
        f.store(part, f.gep(element, pointer, index if number == 0 else f.add(index, offset)), size)


@dataclass(frozen=True)
class Operand:
    """Where the micro-kernel finds a factor: element (i, k) of A or (k, j) of B, counted in elements.

    `step_k` and `step_other` are static strides; `planes` as in `load_parts`, counted in parts.
    """

    step_k: int
    step_other: int
    planes: int = 0


def emit_microkernel(
    module: Module, name: str, tile: Tile, rule: Accumulation, lhs: Operand, rhs: Operand,
    depths: Sequence[int], accumulates: bool,
) -> None:  # fmt: skip
    """Adds `void @name(ptr A, ptr B, ptr C, index k, index ldc [, i1 add])` to the module.

    `depths` are the values that k takes. C is row-major with stride `ldc`, in parts; parts of one row stand a
    tile's width apart. With `accumulates`, the sums begin with C where `add` is set; else with zero.
    """
    kind = module.index_type
    params = [("ptr noalias nocapture readonly", "a"), ("ptr noalias nocapture readonly", "b"),
              ("ptr noalias nocapture", "c"), (kind, "k"), (kind, "ldc")]  # fmt: skip
    if accumulates:
        params.append(("i1", "add"))
    f = Function(
        module, name, "void", params, linkage="internal", attributes='nounwind noinline "no-builtins"'
    )
    start = [part for _ in range(tile.rows * tile.vectors) for part in rule.zero(f, tile.lanes)]
    if accumulates:
        branch = f.branch(f.params["add"])
        with branch.then():
            found = _read(f, tile, rule)
        start = branch.merge(list(zip(found, start, strict=True)))
    _write(f, tile, rule, _multiply(f, tile, rule, lhs, rhs, depths, start))
    f.ret()


def _multiply(
    f: Function, tile: Tile, rule: Accumulation, lhs: Operand, rhs: Operand, depths: Sequence[int],
    start: Sequence[Ssa],
) -> list[Parts]:  # fmt: skip
    """The sums of the tile, rows outermost, after the loop over k. `start`: what they begin with."""
    parts = rule.parts
    unroll = next(u for u in (tile.unroll, 2, 1) if all(depth % u == 0 for depth in depths))
    stop = f.index(depths[0]) if len(set(depths)) == 1 else f.params["k"]
    with f.loop(0, stop, unroll, start, nonempty=True) as loop:
        element = rule.element
        width = 2 if parts == 2 and lhs.planes == 0 else 1
        a = f.gep(element, f.params["a"], f.mul(loop.index, f.index(lhs.step_k * width)))
        b = f.gep(
            element, f.params["b"], f.mul(loop.index, f.index(rhs.step_k * (1 if rhs.planes else parts)))
        )
        sums = [tuple(loop.carried[n : n + parts]) for n in range(0, len(start), parts)]
        for step in range(unroll):
            sums = _step(f, tile, rule, (lhs, a), (rhs, b), step, sums)
        loop.yield_([part for value in sums for part in value])
    return [tuple(loop.results[n : n + parts]) for n in range(0, len(start), parts)]


def _step(
    f: Function, tile: Tile, rule: Accumulation, lhs: tuple[Operand, Ssa], rhs: tuple[Operand, Ssa],
    step: int, sums: list[Parts],
) -> list[Parts]:  # fmt: skip
    """One step of k: all products of a column of A and a row of B added to the sums."""
    dtype = rule.dtype
    (a_at, a), (b_at, b) = lhs, rhs
    row = [
        load_parts(f, dtype, b, f.index(step * b_at.step_k + v * tile.lanes), tile.lanes, b_at.planes)
        for v in range(tile.vectors)
    ]
    found: list[Parts] = []
    for i in range(tile.rows):
        factor = load_parts(f, dtype, a, f.index(step * a_at.step_k + i * a_at.step_other), 1, a_at.planes)
        splat = tuple(f.splat(part, tile.lanes) for part in factor)
        for v in range(tile.vectors):
            found.append(rule.multiply_add(f, splat, row[v], sums[i * tile.vectors + v]))
    return found


def _places(f: Function, tile: Tile, rule: Accumulation) -> Iterator[tuple[Ssa, Ssa]]:
    """The row of C and the column in it of every vector of the tile."""
    for i in range(tile.rows):
        row = f.gep(rule.element, f.params["c"], f.mul(f.params["ldc"], f.index(i)))
        for v in range(tile.vectors):
            yield row, f.index(v * tile.lanes)


def _read(f: Function, tile: Tile, rule: Accumulation) -> list[Ssa]:
    """The tile of C, part by part."""
    found: list[Ssa] = []
    for row, place in _places(f, tile, rule):
        found.extend(load_parts(f, rule.dtype, row, place, tile.lanes, tile.columns))
    return found


def _write(f: Function, tile: Tile, rule: Accumulation, sums: list[Parts]) -> None:
    for value, (row, place) in zip(sums, _places(f, tile, rule), strict=True):
        store_parts(f, rule.dtype, value, row, place, tile.columns)
