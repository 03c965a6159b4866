"""The kinds of kernels: what the fusion pass builds and what the code generator has an emitter for.

A kernel is an unfused instruction or a fused computation. Its *roots* are its result, or the elements of its
root tuple.
`axla.analysis.kernels.kernel_kind` finds the kind from the structure alone, so that text is enough to
reproduce it.
A kind names instructions of the kernel (its heroes) by identity; sizes are those of the heroes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from axla.ir.graph import Instruction


@dataclass(frozen=True, slots=True)
class LoopKind:
    """All roots have `dims` elements (up to reshapes) and are computed element by element.

    `inner` are the reduces and dots inside, which every element computes by a loop of its own (short ones,
    and those that no other kind takes).
    """

    dims: tuple[int, ...]
    inner: tuple[Instruction, ...] = ()

    @property
    def size(self) -> int:
        return prod(self.dims)

    def __str__(self) -> str:
        return f"loop {list(self.dims)}" + (f", {len(self.inner)} inner" if self.inner else "")


@dataclass(frozen=True, slots=True)
class RowKind:
    """Rows are independent: reductions over the trailing dimensions, elementwise work on rows and on row
    scalars.

    The index space is `rows` x `columns`. A value of the kernel is *full* (row-major linear index row *
    row_size + column), a *row value* (linear index row), or something else that no reduce feeds and that is
    read at any index. `stages` are the reduces; those of stage k need results of stages before k only. Every
    reduce is read at its own row only, so it may be bound to the scalar of the current row. `full_roots` and
    `row_roots` are numbers of roots; each may be empty.
    A reduction of everything is the case rows == ().
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    stages: tuple[tuple[Instruction, ...], ...]
    full_roots: tuple[int, ...]
    row_roots: tuple[int, ...]

    @property
    def row_count(self) -> int:
        return prod(self.rows)

    @property
    def row_size(self) -> int:
        return prod(self.columns)

    def __str__(self) -> str:
        reduces = "+".join(str(len(s)) for s in self.stages)
        return f"row {list(self.rows)} x {list(self.columns)}, stages {reduces}"


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """Reductions of a space [outer, reduced, inner] over its middle dimension; roots have outer * inner
    elements.

    `reduces` share the space and do not feed each other. Values before them are read at (o, r, i) or at any
    index; values after them at (o, i).
    """

    outer: int
    reduced: int
    inner: int
    reduces: tuple[Instruction, ...]

    def __str__(self) -> str:
        return f"column [{self.outer},({self.reduced}),{self.inner}], {len(self.reduces)} reduces"


@dataclass(frozen=True, slots=True)
class TransposeKind:
    """A loop over `dims` whose `heroes`, equal transposes of computed values, move the minor dimension.

    In the collapsed form the heroes turn `input_dims` (adjacent dimensions that stay together are one, sizes
    of 1 are gone) by `permutation`: output dimension k is input dimension permutation[k]. Values below a hero
    are read at the hero's input index, values above it at its output index.
    """

    dims: tuple[int, ...]
    heroes: tuple[Instruction, ...]
    input_dims: tuple[int, ...]
    permutation: tuple[int, ...]

    def __str__(self) -> str:
        return f"transpose {list(self.input_dims)} by {list(self.permutation)}, {len(self.heroes)} heroes"


@dataclass(frozen=True, slots=True)
class DotKind:
    """One canonical dot, [batch, m, k] x [batch, k, n], and elementwise work at its result's linear index.

    `lhs_transposed`: the left operand lies as [batch, k, m]; `rhs_transposed`: the right one as [batch, n,
    k]. `batch` is 1 for a dot of matrices. The operands of the hero are parameters of the kernel.
    """

    batch: int
    m: int
    n: int
    k: int
    lhs_transposed: bool
    rhs_transposed: bool
    hero: Instruction

    def __str__(self) -> str:
        turned = " lhs^T" * self.lhs_transposed + " rhs^T" * self.rhs_transposed
        return f"dot {self.batch} x [{self.m},{self.k}] x [{self.k},{self.n}]{turned}"


@dataclass(frozen=True, slots=True)
class UpdateKind:
    """A dynamic-update-slice in place: writes the update, of `dims` elements, into the memory of operand 0.

    Operand 0 of the hero is a parameter of the kernel that shares memory with the result. The update and the
    start indices may be computed; what they read of operand 0 is at most the very element that is written.
    """

    dims: tuple[int, ...]
    hero: Instruction

    def __str__(self) -> str:
        return f"update {list(self.dims)}"


@dataclass(frozen=True, slots=True)
class ScatterKind:
    """A scatter in place: its first operands are parameters that share memory with the results."""

    hero: Instruction

    def __str__(self) -> str:
        return f"scatter of {len(self.hero.operands) // 2}"


@dataclass(frozen=True, slots=True)
class SortKind:
    """A sort of parameters, line by line."""

    hero: Instruction

    def __str__(self) -> str:
        return f"sort of {len(self.hero.operands)}"


@dataclass(frozen=True, slots=True)
class TopKKind:
    """A topk of a parameter whose k is small, and whose elements have 32 bits at most."""

    hero: Instruction

    def __str__(self) -> str:
        return f"{self.hero.op.k} of {self.hero.operands[0].shape}"  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class ConvolutionKind:
    """A convolution of parameters, in a form that the pass `convolution-canonicalize` leaves."""

    hero: Instruction

    def __str__(self) -> str:
        return f"convolution of {self.hero.operands[0].shape} by {self.hero.operands[1].shape}"


@dataclass(frozen=True, slots=True)
class FftKind:
    """A Fourier transform of a parameter."""

    hero: Instruction

    def __str__(self) -> str:
        return f"fft of {self.hero.operands[0].shape}"


@dataclass(frozen=True, slots=True)
class ConcatKind:
    """A concatenation, piece by piece; every piece may be computed, and elementwise work may follow it."""

    dims: tuple[int, ...]
    dimension: int
    hero: Instruction

    def __str__(self) -> str:
        return f"concatenate {len(self.hero.operands)} pieces to {list(self.dims)} along {self.dimension}"


@dataclass(frozen=True, slots=True)
class CopyKind:
    """The bytes of operand 0."""

    dims: tuple[int, ...]

    def __str__(self) -> str:
        return f"copy {list(self.dims)}"


KernelKind = (
    LoopKind | RowKind | ColumnKind | TransposeKind | DotKind | UpdateKind | ScatterKind | SortKind
    | ConvolutionKind | FftKind | TopKKind | ConcatKind | CopyKind
)  # fmt: skip
