"""Plans of transposes of computed values, by square blocks, so that both reads and writes are contiguous."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from axla.core.dataclass import dataclass
from axla.hlo import Constant, Transpose
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import shape_of
from axla.kernels.access import AccessKeys, KernelBody, accesses, elements, kernel_roots, root_shape
from axla.kernels.geometry import collapsed_transpose, moves_minor
from axla.kernels.kind import Form, Kind
from axla.kernels.loop import LoopKind
from axla.kernels.plan import KernelTask, Plan, fitting, widest
from axla.target.machine import Limits, Target


@dataclass(frozen=True, slots=True)
class TransposePlan(Plan):
    """The plan of transposes of `input_dims` (collapsed) by `permutation`, in blocks of `block` x `block`
    elements, with registers of `lanes` x `lanes`. If threads share a step, its elements are a `tile` of (p,
    q) elements in local memory.

    The output space is (outer..., p, q): q is the minor dimension of the output, p that of the input.
    """

    input_dims: tuple[int, ...]
    permutation: tuple[int, ...]
    heroes: tuple[str, ...]
    lanes: int
    block: int
    tile: tuple[int, ...] = ()

    @property
    def output_dims(self) -> tuple[int, ...]:
        """The dims of the output, collapsed like those of the input."""
        return tuple(self.input_dims[d] for d in self.permutation)

    @property
    def q(self) -> int:
        """The number of the output's minor dimension."""
        return len(self.input_dims) - 1

    @property
    def p(self) -> int:
        """The number of the output dimension that is the input's minor dimension."""
        return self.permutation.index(self.q)

    @property
    def outer(self) -> tuple[int, ...]:
        """The numbers of the output dimensions other than p and q."""
        return tuple(d for d in range(self.q) if d != self.p)

    @property
    def steps(self) -> tuple[int, ...]:
        """The kernel's outer index space: the outer dimensions, then blocks of rows, or tiles."""
        dims = self.output_dims
        cut = zip((self.p, self.q), self.tile or (self.block,), strict=False)
        return (*(dims[d] for d in self.outer), *(-(-dims[d] // size) for d, size in cut))


@dataclass(frozen=True, slots=True)
class TransposeKind(Kind):
    """A loop with `transposed`: equal transposes of computed values that move the minor dimension.

    In collapsed form (adjacent dimensions that stay together are merged, sizes of 1 dropped) they permute
    `input_dims` by `permutation`: output dimension k is input dimension permutation[k]. Values before the
    transposes are read at the input index, values after them at the output index.
    """

    transposed: tuple[Instruction, ...]
    input_dims: tuple[int, ...]
    permutation: tuple[int, ...]

    name = "transpose"
    heroes = (Transpose,)
    planned = TransposePlan
    emission = "axla.codegen.emit.transpose:emit"

    def __str__(self) -> str:
        return f"transpose {list(self.input_dims)} by {list(self.permutation)}, {len(self.transposed)} heroes"

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with this transpose as its hero, if blocks pay; else None. Constants are
        excluded: `constant-layout` already stores them in the order in which they are read.
        """
        if elements(inst.shape) < limits.hero_transpose or type(inst.operands[0].op) is Constant:
            return None
        dims, permutation = collapsed_transpose(inst)
        large = moves_minor(permutation) and min(dims[-1], dims[permutation[-1]]) >= limits.hero_minor
        return (cls, dims, permutation) if large else None

    @classmethod
    def operand_keys(cls, keys: AccessKeys, hero: Instruction) -> list[int]:
        """The keys of the operands: they are read in the index space of the transposed array."""
        dims, permutation = collapsed_transpose(hero)
        return [keys.special(("transposed", dims, permutation), elements(hero.shape))]

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> TransposeKind | None:
        """The kernel, if it has a transpose that can be a hero (see `form`) at the linear index of the roots;
        else None. All equal transposes there are its heroes.
        """
        candidates = [i for i in body.order if isinstance(i.op, Transpose) and cls.form(i, limits)]
        if not candidates or not body.uniform:
            return None
        heroes = accesses(body, candidates, cls.operand_keys).heroes
        if not heroes or elements(heroes[-1].shape) != elements(body.roots[0].shape):
            return None
        form = collapsed_transpose(heroes[-1])
        return cls(tuple(h for h in heroes if collapsed_transpose(h) == form), *form)

    def served(self, computation: Computation, target: Target) -> Kind:
        """A loop for matrices smaller than a tile, if threads share a step: a device's caches make their
        elements fast to read. Else this kind.
        """
        fits = max(self.input_dims[-1], self.input_dims[self.permutation[-1]]) < target.limits.transpose_block
        return (
            LoopKind(root_shape(kernel_roots(computation)[0]).dims) if target.threads > 1 and fits else self
        )

    def plan(self, task: KernelTask, target: Target) -> TransposePlan:
        """Plans blocks of output rows in parallel."""
        minor = self.input_dims[-1], self.input_dims[self.permutation[-1]]
        if target.threads > 1:
            return self._tiled(task, target, minor)
        lanes = fitting(target.lanes(widest(task.computation)), min(minor))
        block = max(lanes, target.limits.transpose_block // lanes * lanes)
        names = tuple(hero.name for hero in self.transposed)
        found = TransposePlan(self.input_dims, self.permutation, names, lanes, block, phases=())
        cost = (task.cost(target) + 1) * block * found.output_dims[found.q]
        return replace(found, phases=(task.phase(prod(found.steps), cost, target.limits),))

    def _tiled(self, task: KernelTask, target: Target, minor: tuple[int, int]) -> TransposePlan:
        """The plan with a tile for the threads of each step: square, except for shorter dimensions. `minor`
        has the sizes of the output dimensions p and q.
        """
        side = target.limits.transpose_block
        size = sum(shape_of(hero).dtype.itemsize for hero in self.transposed)

        def tile_of(side: int) -> tuple[int, int]:
            p, q = (min(side, 1 << (n - 1).bit_length()) for n in minor)
            return (side * side // q, q) if q < p else (p, side * side // p)

        while size * (tile_of(side)[0] + 1) * tile_of(side)[1] > target.local_bytes and side > 1:
            side //= 2
        tile = tile_of(side)
        threads = fitting(target.threads, side * side)
        names = tuple(hero.name for hero in self.transposed)
        found = TransposePlan(self.input_dims, self.permutation, names, 1, side, tile, phases=())
        return replace(found, phases=(task.phase(prod(found.steps), 1, target.limits, threads),))
