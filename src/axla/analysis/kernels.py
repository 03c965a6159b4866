"""Finds the kind of a kernel from its structure. The fusion pass and the code generator ask the same
function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import axla.hlo as hlo
from axla.analysis.access import AccessKeys, elements
from axla.analysis.geometry import ReduceGeometry, collapsed_transpose, moves_minor, reduce_geometry
from axla.analysis.kernel_kinds import (
    ColumnKind,
    ConcatKind,
    ConvolutionKind,
    CopyKind,
    DotKind,
    FftKind,
    KernelKind,
    LoopKind,
    RowKind,
    ScatterKind,
    SortKind,
    TopKKind,
    TransposeKind,
    UpdateKind,
)  # fmt: skip
from axla.core.errors import InternalError, UnsupportedError
from axla.core.shape import Shape
from axla.ir.graph import Computation, Instruction
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of
from axla.target.machine import Limits


@dataclass(frozen=True, slots=True)
class KernelBody:
    """What runs in a kernel: `order` without parameters and root tuple, and the roots, all in `order`."""

    order: tuple[Instruction, ...]
    roots: tuple[Instruction, ...]


def kernel_body(kernel: Instruction | Computation) -> KernelBody:
    """The body of a fused computation, of a fusion, or of any other instruction taken as a kernel."""
    if isinstance(kernel, Instruction):
        if not isinstance(kernel.op, hlo.Fusion):
            return KernelBody((kernel,), (kernel,))
        kernel = kernel.op.calls
    root = kernel.root
    roots = root.operands if isinstance(root.op, hlo.Tuple) else (root,)
    order = tuple(
        i
        for i in post_order(kernel)
        if not isinstance(i.op, hlo.Parameter) and not (i is root and roots != (root,))
    )
    return KernelBody(order, roots)


def is_inner_reduce(inst: Instruction, limits: Limits) -> bool:
    """Whether a reduce is short enough to be a loop inside of an element of another kernel."""
    if not isinstance(inst.op, hlo.Reduce):
        return False
    geometry = reduce_geometry(inst)
    if geometry is None:
        size = max(1, elements(inst.shape))
        return elements(inst.operands[0].shape) // size <= limits.inner_column
    return geometry.reduced <= (limits.inner_row if geometry.is_row else limits.inner_column)


def is_hero_reduce(inst: Instruction, limits: Limits) -> bool:
    known = isinstance(inst.op, hlo.Reduce) and reduce_geometry(inst) is not None
    return known and not is_inner_reduce(inst, limits)


def is_hero_transpose(inst: Instruction, limits: Limits) -> bool:
    """Whether a transpose is worth going by blocks."""
    if not isinstance(inst.op, hlo.Transpose) or elements(inst.shape) < limits.hero_transpose:
        return False
    dims, permutation = collapsed_transpose(inst)
    return moves_minor(permutation) and min(dims[-1], dims[permutation[-1]]) >= limits.hero_minor


def is_hero_concatenate(inst: Instruction, limits: Limits) -> bool:
    pieces = inst.operands if isinstance(inst.op, hlo.Concatenate) else ()
    return bool(pieces) and all(elements(o.shape) >= limits.hero_piece for o in pieces)


def dot_sizes(inst: Instruction) -> tuple[int, int, int, int, bool, bool] | None:
    """(batch, m, n, k, lhs transposed, rhs transposed) of a canonical dot; None for others."""
    op = inst.op
    if not isinstance(op, hlo.Dot) or op.sparsity or len(inst.operands) != 2:
        return None
    lhs, rhs = shape_of(inst.operands[0]), shape_of(inst.operands[1])
    batches = len(op.lhs_batch_dims)
    wanted = (0,) if batches else ()
    if batches > 1 or op.lhs_batch_dims != wanted or op.rhs_batch_dims != wanted:
        return None
    if lhs.rank != batches + 2 or rhs.rank != batches + 2:
        return None
    if len(op.lhs_contracting_dims) != 1 or len(op.rhs_contracting_dims) != 1:
        return None
    left, right = op.lhs_contracting_dims[0] - batches, op.rhs_contracting_dims[0] - batches
    m, n = lhs.dims[batches + 1 - left], rhs.dims[batches + 1 - right]
    k = lhs.dims[batches + left]
    return (lhs.dims[0] if batches else 1), m, n, k, left == 0, right == 1


def hero_operand_keys(keys: AccessKeys, hero: Instruction, mine: Iterable[int]) -> list[int] | None:
    """The keys of a hero's operands; None when it is not evaluated once, in the space of the roots."""
    op = hero.op
    if list(mine) != [keys.root(hero)]:
        return None
    if isinstance(op, hlo.Reduce):
        geometry = reduce_geometry(hero)
        if geometry is None:
            return None
        size = geometry.outer * geometry.reduced * geometry.inner
        half = len(hero.operands) // 2
        space = keys.lin(size) if geometry.is_row else keys.special(
            ("mid", geometry.outer, geometry.reduced, geometry.inner), size)  # fmt: skip
        return [space] * half + [keys.lin(1)] * half
    if isinstance(op, hlo.Transpose):
        dims, permutation = collapsed_transpose(hero)
        return [keys.special(("turned", dims, permutation), elements(hero.shape))]
    if isinstance(op, hlo.Dot):
        return [keys.special(("dot", hero.id, n), elements(o.shape)) for n, o in enumerate(hero.operands)]
    if isinstance(op, hlo.Concatenate):
        return [keys.special(("piece", hero.id, n), elements(o.shape)) for n, o in enumerate(hero.operands)]
    if isinstance(op, hlo.DynamicUpdateSlice):
        whole, update, *starts = hero.operands
        return [
            keys.special(("whole", hero.id, 0), elements(whole.shape)),
            keys.special(("update", hero.id), elements(update.shape)),
            *(keys.lin(elements(s.shape)) for s in starts),
        ]  # fmt: skip
    if isinstance(op, hlo.Scatter):
        count = len(hero.operands) // 2
        indices, updates = hero.operands[count], hero.operands[count + 1]
        return [
            *(
                keys.special(("whole", hero.id, n), elements(o.shape))
                for n, o in enumerate(hero.operands[:count])
            ),
            keys.special(("indices", hero.id), elements(indices.shape)),
            *[keys.special(("update", hero.id), elements(updates.shape))] * count,
        ]
    return None


@dataclass(frozen=True, slots=True)
class Accesses:
    """Keys of every instruction that a kernel's roots need, parameters included, given which instructions are
    heroes.
    """

    keys: AccessKeys
    of: dict[Instruction, dict[int, None]]
    heroes: tuple[Instruction, ...]  # in order


MOST_PLACES = 10_000
"""(instruction, key) pairs of a kernel: it would be that many instructions. Fusion stays below 400."""


def accesses(body: KernelBody, heroes: Sequence[Instruction]) -> Accesses:
    """Walks from the roots to what they read. A hero that is read anywhere but in a root's space is taken as
    an ordinary op.
    """
    keys = AccessKeys()
    of: dict[Instruction, dict[int, None]] = {}
    candidates = set(heroes)
    found: list[Instruction] = []
    left = MOST_PLACES
    for root in body.roots:
        of.setdefault(root, {})[keys.root(root)] = None
    for inst in reversed(body.order):
        mine = of.get(inst)
        if mine is None:
            continue  # dead
        left -= len(mine)
        if left < 0:
            raise UnsupportedError(f"{inst!r}: a kernel would compute it and others at {MOST_PLACES} places")
        special = hero_operand_keys(keys, inst, mine) if inst in candidates else None
        if special is not None:
            found.append(inst)
            read = [{k: None} for k in special]
        else:
            read = keys.of_operands(inst, mine)
        for operand, its in zip(inst.operands, read, strict=True):
            of.setdefault(operand, {}).update(its)
    return Accesses(keys, of, tuple(reversed(found)))


def kernel_kind(kernel: Instruction | Computation, limits: Limits) -> KernelKind:
    """The kind of an unfused instruction, a fusion, or a fused computation."""
    if isinstance(kernel, Instruction) and isinstance(kernel.op, hlo.Fusion):
        kernel = kernel.op.calls
    if isinstance(kernel, Computation):
        return kernel.fact(("kernel kind", limits), lambda c: _kind_of(kernel_body(c), limits))
    return _kind_of(kernel_body(kernel), limits)


def _kind_of(body: KernelBody, limits: Limits) -> KernelKind:
    root = body.roots[0]
    if len(body.roots) == 1:
        if isinstance(root.op, hlo.DynamicUpdateSlice):
            update = shape_of(root.operands[1])
            return UpdateKind(update.dims, root)
        if isinstance(root.op, hlo.Scatter):
            return ScatterKind(root)
        if isinstance(root.op, hlo.Sort) and len(body.order) == 1:
            return SortKind(root)
        if isinstance(root.op, hlo.TopK) and len(body.order) == 1:
            return TopKKind(root)
        if isinstance(root.op, hlo.Convolution) and len(body.order) == 1:
            return ConvolutionKind(root)
        if isinstance(root.op, hlo.Fft) and len(body.order) == 1:
            return FftKind(root)
        if isinstance(root.op, hlo.Copy) and len(body.order) == 1:
            return CopyKind(_dims(root))
    for attempt in (_dot, _reduces, _concatenate, _transpose):
        kind = attempt(body, limits)
        if kind is not None:
            return kind
    if any(elements(r.shape) != elements(root.shape) for r in body.roots):
        found = ", ".join(r.shape.to_string(layout=False) for r in body.roots)
        raise InternalError(f"no kernel has the roots {found}: their sizes differ")
    inner = tuple(i for i in body.order if isinstance(i.op, hlo.Reduce | hlo.ReduceWindow | hlo.Dot))
    return LoopKind(_dims(root), inner)


def _dims(inst: Instruction) -> tuple[int, ...]:
    shape = inst.shape
    if not isinstance(shape, Shape):
        shape = next(s for s in shape.leaves() if isinstance(s, Shape))
    return shape.dims


def _uniform(body: KernelBody) -> bool:
    size = elements(body.roots[0].shape)
    return all(elements(r.shape) == size for r in body.roots)


def _dot(body: KernelBody, limits: Limits) -> DotKind | None:
    dots = [i for i in body.order if isinstance(i.op, hlo.Dot)]
    if len(dots) != 1 or not _uniform(body) or elements(dots[0].shape) != elements(body.roots[0].shape):
        return None
    hero = dots[0]
    sizes = dot_sizes(hero)
    inside = set(body.order)
    if sizes is None or any(o in inside for o in hero.operands) or not accesses(body, dots).heroes:
        return None
    return DotKind(*sizes, hero)


def _reduces(body: KernelBody, limits: Limits) -> RowKind | ColumnKind | None:
    heroes = [i for i in body.order if is_hero_reduce(i, limits)]
    if not heroes:
        return None
    geometry = reduce_geometry(heroes[0])
    assert geometry is not None
    for other in heroes[1:]:
        its = reduce_geometry(other)
        assert its is not None
        if (its.outer, its.reduced, its.inner) != (geometry.outer, geometry.reduced, geometry.inner):
            return None
    if len(accesses(body, heroes).heroes) != len(heroes):
        return None
    return _row(body, heroes, geometry) if geometry.is_row else _column(body, heroes, geometry)


def stages_of(body: KernelBody, heroes: Sequence[Instruction]) -> dict[Instruction, int]:
    """For every instruction that needs a hero: how many heroes are on the longest way to it, itself too."""
    chosen = set(heroes)
    level: dict[Instruction, int] = {}
    for inst in body.order:
        below = max((level.get(o, 0) for o in inst.operands), default=0) + (inst in chosen)
        if below:
            level[inst] = below
    return level


def _row(body: KernelBody, heroes: Sequence[Instruction], geometry: ReduceGeometry) -> RowKind | None:
    rows, full = geometry.outer, geometry.outer * geometry.reduced
    sizes = [elements(r.shape) for r in body.roots]
    if any(s not in (rows, full) for s in sizes):
        return None
    level = stages_of(body, heroes)
    stages: list[list[Instruction]] = [[] for _ in range(max(level.values()))]
    for hero in heroes:
        stages[level[hero] - 1].append(hero)
    dims = heroes[0].operands[0].shape.dims
    return RowKind(
        dims[: geometry.split], dims[geometry.split :], tuple(tuple(s) for s in stages),
        tuple(n for n, s in enumerate(sizes) if s == full),
        tuple(n for n, s in enumerate(sizes) if s == rows),
    )  # fmt: skip


def _column(body: KernelBody, heroes: Sequence[Instruction], geometry: ReduceGeometry) -> ColumnKind | None:
    size = geometry.outer * geometry.inner
    if any(elements(r.shape) != size for r in body.roots) or max(stages_of(body, heroes).values()) > 1:
        return None
    return ColumnKind(geometry.outer, geometry.reduced, geometry.inner, tuple(heroes))


def _concatenate(body: KernelBody, limits: Limits) -> ConcatKind | None:
    heroes = [i for i in body.order if is_hero_concatenate(i, limits)]
    if len(heroes) != 1 or not _uniform(body) or not accesses(body, heroes).heroes:
        return None
    hero = heroes[0]
    return ConcatKind(_dims(hero), op_of(hero, hlo.Concatenate).dimensions[0], hero)


def _transpose(body: KernelBody, limits: Limits) -> TransposeKind | None:
    candidates = [i for i in body.order if is_hero_transpose(i, limits)]
    if not candidates or not _uniform(body):
        return None
    heroes = accesses(body, candidates).heroes
    if not heroes or elements(heroes[-1].shape) != elements(body.roots[0].shape):
        return None
    form = collapsed_transpose(heroes[-1])
    same = tuple(h for h in heroes if collapsed_transpose(h) == form)
    return TransposeKind(_dims(heroes[-1]), same, *form)
