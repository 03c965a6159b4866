"""The register tile of a matrix multiplication: MR rows by NV vectors of sums, in registers over all of k.

    C[0:MR, 0:NV*lanes] (+)= A[0:MR, 0:k] * B[0:k, 0:NV*lanes]

Everything but k, the row stride of C and whether to add to C is static. One loop iteration is NV loads of B,
MR broadcast loads of A and MR*NV multiply-adds: LLVM keeps that order and all sums in registers without a
single optimisation pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axla.codegen.emit.product import SIGNS, Sums
from axla.codegen.function import LlvmFunction, LlvmModule, Ssa
from axla.codegen.value import Value, Values, merged, parts_of, rebuilt
from axla.core.dataclass import dataclass
from axla.kernels.dot import GemmSpec, Tile
from axla.target.machine import Target


@dataclass(frozen=True)
class Factor:
    """The position in memory of a factor of the micro-kernel: element (i, k) of A or (k, j) of B.

    `step_k` and `step_other` are its static strides along k and along i or j, in elements; `planes` as in
    `Sums.load`, counted in parts. Where rows of B are shorter than a tile, elements after the row are read as
    well; for the last `past` rows these would be outside of the array.
    """

    step_k: int
    step_other: int
    planes: int = 0
    past: int = 0


def emit_microkernel(
    module: LlvmModule, name: str, spec: GemmSpec, target: Target, tile: Tile, lhs: Factor, rhs: Factor,
    depths: Sequence[int], accumulates: bool,
) -> None:  # fmt: skip
    """Adds `void @name(ptr A, ptr B, ptr C, index k, index ldc [, i1 add])` to the module.

    `depths` are the possible values of k. C is row-major with stride `ldc`, in parts; parts of one row are a
    tile's width apart. With `accumulates`, the sums start from C where `add` is set; else from zero.
    """
    kind = module.index_type
    params = [("ptr noalias nocapture readonly", "a"), ("ptr noalias nocapture readonly", "b"),
              ("ptr noalias nocapture", "c"), (kind, "k"), (kind, "ldc")]  # fmt: skip
    if accumulates:
        params.append(("i1", "add"))
    f = LlvmFunction(
        module, name, "void", params, linkage="internal", attributes='nounwind noinline "no-builtins"'
    )
    sums = Sums(Values(f, target), spec)
    sums.biased = spec.is_biased(target)
    start = [sums.zero(tile.lanes)] * (tile.rows * tile.vectors)
    if accumulates:
        branch = f.branch(f.params["add"])
        with branch.then():
            found = [sums.load(*place, tile.lanes, tile.columns) for place in _places(sums, tile)]
        start = merged(branch, found, start)
    start = [*start, *[sums.zero(tile.lanes)] * (tile.vectors if sums.biased else 0)]
    totals = _multiply(sums, tile, lhs, rhs, depths, start)
    if sums.biased:
        *totals, excess = (totals[at : at + tile.vectors] for at in range(0, len(totals), tile.vectors))
        totals = [
            sums.values.binary("subtract", t, e) for row in totals for t, e in zip(row, excess, strict=True)
        ]
    for total, place in zip(totals, _places(sums, tile), strict=True):
        sums.store(total, *place, tile.columns)
    f.ret()


def _places(sums: Sums, tile: Tile) -> Iterator[tuple[Ssa, int]]:
    """Yields, for every vector of the tile, the address of its row in C and its first column."""
    f = sums.f
    for i in range(tile.rows):
        row = f.gep(sums.element, f.params["c"], f.mul(f.params["ldc"], i))
        yield from ((row, v * tile.lanes) for v in range(tile.vectors))


def _multiply(
    sums: Sums, tile: Tile, lhs: Factor, rhs: Factor, depths: Sequence[int], start: Sequence[Value]
) -> Sequence[Value]:
    """Computes the sums of the tile, rows outermost, by the loop over k. `depths` are the possible values of
    k; `start` has the initial values of the sums.
    """
    f, parts = sums.f, sums.parts

    def sides(index: Ssa) -> tuple[tuple[Factor, Ssa], tuple[Factor, Ssa]]:
        def at(name: str, side: Factor) -> tuple[Factor, Ssa]:
            step = side.step_k * (1 if side.planes else parts)
            return side, f.gep(sums.element, f.params[name], f.mul(index, step))

        return at("a", lhs), at("b", rhs)

    own = rhs.past and rhs.past + (depths[0] - rhs.past) % tile.unroll  # steps after the loop
    unroll = next(u for u in (tile.unroll, 2, 1) if all((depth - own) % u == 0 for depth in depths))
    stop = f.index(depths[0] - own) if len(set(depths)) == 1 else f.params["k"]
    with f.loop(0, stop, unroll, parts_of(start), nonempty=True) as loop:
        both = sides(loop.index)
        totals = rebuilt(start, loop.carried)
        for step in range(unroll):
            totals = _step(sums, tile, *both, step, totals)
        loop.yield_(parts_of(totals))
    totals = rebuilt(start, loop.results)
    both = sides(stop)
    for step in range(own):
        totals = _step(sums, tile, *both, step, totals, (own - step) * rhs.step_k)
    return totals


def _step(
    sums: Sums, tile: Tile, lhs: tuple[Factor, Ssa], rhs: tuple[Factor, Ssa], step: int,
    totals: Sequence[Value], left: int | None = None,
) -> list[Value]:  # fmt: skip
    """Adds all products of a column of A and a row of B to the sums. `lhs` and `rhs` are each a factor and an
    address; `step` is the number of steps of k from the address on. `left`: the number of elements of B from
    that row on; no more are read.
    """
    (a_at, a), (b_at, b) = lhs, rhs
    row: list[Value] = []
    for v in range(tile.vectors):
        past = 0 if left is None else max(0, (v + 1) * tile.lanes - left)
        vector = sums.load(b, step * b_at.step_k + v * tile.lanes - past, tile.lanes, b_at.planes)
        row.append(_moved(sums, vector, past) if past else vector)
    found: list[Value] = []
    factors = [
        sums.load(a, step * a_at.step_k + i * a_at.step_other, 1, a_at.planes) for i in range(tile.rows)
    ]
    if sums.biased:
        factors.append(sums.values.constant(sums.dtype, SIGNS))
    for i, factor in enumerate(factors):
        splat = sums.values.splat(factor, tile.lanes)
        for v in range(tile.vectors):
            found.append(sums.multiply_add(splat, row[v], totals[i * tile.vectors + v]))
    return found


def _moved(sums: Sums, value: Value, count: int) -> Value:
    """Shifts the lanes of a value down by `count`; the last lanes are unspecified."""
    lanes = [min(lane + count, value.lanes - 1) for lane in range(value.lanes)]
    return Value(value.dtype, value.lanes, (sums.f.shuffle(value.ssa, value.ssa, lanes),))
