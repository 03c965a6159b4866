"""Plans of direct convolutions: register tiles of sums over the window and the input features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, S32, DType
from axla.core.errors import InternalError
from axla.core.shape import Shape
from axla.hlo import Bitcast, Constant, Convolution, Reshape, Transpose
from axla.ir.attributes import FusionKind
from axla.ir.graph import Instruction
from axla.ir.typed import op_of, shape_of
from axla.kernels.access import KernelBody, accesses, elements
from axla.kernels.blocks import plan_blocks
from axla.kernels.dot import DotPlan, is_positive
from axla.kernels.kind import Form, Kind
from axla.kernels.plan import KernelTask, Phase, Plan, fitting
from axla.kernels.product import GemmSpec
from axla.target.machine import Limits, Target

At = TypeVar("At")

MOST_WRITTEN = 9
"""The largest window, in elements, whose factors stay in registers in mode channels."""


@dataclass(frozen=True, slots=True)
class ConvolutionPlan(Plan):
    """The sizes of a convolution and of its tiles. `mode` is features, pixels or channels: see the emitter.

    `low`: how far the first windows begin before the image. `padded_rows`: some windows reach beyond the
    image in another dimension than the last. `kernel_first`: consecutive steps use the same part of the
    kernel. `panels`: the number of features in a panel if the kernel is stored in panels (see `unpacked`),
    else 0. `product`: how words of short numbers are multiplied, if panels consist of words and the machine
    supports it; then `inputs` counts words.
    """

    hero: str
    mode: str
    batch: int
    groups: int
    inputs: int  # per group
    outputs: int
    places: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    low: tuple[int, ...]
    padded_rows: bool
    accumulator: DType
    lanes: int
    vectors: int
    singles: int
    kernel_first: bool
    panels: int = 0
    product: GemmSpec | None = None
    blocks: DotPlan | None = None  # if it is computed as a matrix product by thread blocks

    @property
    def reads_panels(self) -> bool:
        """Whether each tile of features is a panel of the kernel."""
        width = self.vectors * self.lanes
        return self.mode == "features" and self.panels == width and self.outputs % width == 0

    @property
    def vector_axis(self) -> int:
        """The size of the axis along which vectors run: output features, pixels of a row, or all channels."""
        return {"features": self.outputs, "pixels": self.places[-1], "channels": self.groups * self.outputs}[
            self.mode
        ]

    @property
    def single_axis(self) -> int:
        """The size of the axis along which a tile has `singles` positions, one register each: output features
        or pixels of a row.
        """
        return self.outputs if self.mode == "pixels" else self.places[-1]

    @property
    def tiles(self) -> int:
        """The number of tiles along `single_axis`."""
        return -(-self.single_axis // self.singles)

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the kernel's outer index space."""
        tiles = -(-self.vector_axis // (self.vectors * self.lanes))
        image, kernel = (
            (self.batch, *self.places[:-1]),
            (1 if self.mode == "channels" else self.groups, tiles),
        )
        return (*kernel, *image) if self.kernel_first else (*image, *kernel)

    def ordered(self, at: tuple[At, ...]) -> tuple[At, ...]:
        """Reorders an index of `outer` as: batch, positions without the last dimension, group, tile."""
        return (*at[2:], *at[:2]) if self.kernel_first else at

    def laid(self, batch: At, places: Sequence[At], feature: At) -> tuple[At, ...]:
        """The index of feature `feature` at the position `places` of image number `batch`, in the order in
        which the image and the result are stored.
        """
        return (batch, feature, *places) if self.mode == "pixels" else (batch, *places, feature)


@dataclass(frozen=True, slots=True)
class ConvolutionKind(Kind):
    """A convolution in one of the forms that the pass `convolution-canonicalize` produces, with elementwise
    ops on its result. The operands of the hero are parameters of the kernel.
    """

    hero: Instruction

    name = "convolution"
    heroes = (Convolution,)
    planned = ConvolutionPlan
    emission = "axla.codegen.emit.convolution:emit"
    takes_epilogues = True
    fusion = FusionKind.OUTPUT

    def __str__(self) -> str:
        return f"convolution of {self.hero.operands[0].shape} by {self.hero.operands[1].shape}"

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with this convolution as its hero, which has no other hero."""
        return (cls, inst.id)

    @classmethod
    def why_not_operand(cls, user: Instruction, numbers: Sequence[int], inst: Instruction) -> str | None:
        """The reason why an operand is not computed in the kernel; None for constant panels of a
        convolution's kernel.
        """
        panels = panels_under(inst) if numbers == [1] else None
        if panels is not None and type(panels.op) is Constant:
            return None
        return "operands of a convolution are read many times"

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> ConvolutionKind | None:
        """The kernel, if it has one convolution, whose operands are parameters, and elementwise ops on the
        result of the convolution; else None.
        """
        found, inside = [i for i in body.order if isinstance(i.op, Convolution)], set(body.order)
        hero = found[0]
        if len(found) != 1 or not body.uniform or elements(hero.shape) != elements(body.roots[0].shape):
            return None
        image, kernel = hero.operands
        kernel = panels_under(kernel) or kernel
        if image in inside or kernel in inside or not accesses(body, found).heroes:
            return None
        return cls(hero)

    def plan(self, task: KernelTask, target: Target) -> ConvolutionPlan:
        """Plans one step for each row of output positions and tile of features, or a matrix product by thread
        blocks.
        """
        found = self.tiled(target)
        blocks = self._by_blocks(found, task.name, target)
        if blocks is not None:
            return replace(found, blocks=blocks, phases=blocks.phases)
        return self._called(found, task, target)

    def tiled(self, target: Target) -> ConvolutionPlan:
        """The sizes of the convolution, and its register tiles."""
        op, shape = op_of(self.hero, Convolution), shape_of(self.hero)
        rhs = shape_of(self.hero.operands[1])
        labels, window = op.dim_labels, op.window
        if min((*window.low, *window.high)) < 0 or any(window.reversal) or set(window.base_dilation) - {1}:
            message = "the window must not have negative padding, base dilation or reversal"
            raise InternalError(f"{self.hero!r}: {message}")
        places = tuple(shape.dims[d] for d in labels.output_spatial)
        inputs, groups = rhs.dims[-2], op.feature_group_count
        outputs = rhs.dims[-1] // groups
        mode = "features"
        if labels.input_feature == 1:
            mode = "pixels"
        elif by_channels(target, shape.dtype, groups, inputs, outputs):
            mode = "channels"
        total = accumulator(shape.dtype)
        along = {"features": outputs, "pixels": places[-1], "channels": groups * outputs}[mode]
        lanes = fitting(target.lanes(total), along)
        across = outputs if mode == "pixels" else places[-1]
        # If the convolution's kernel exceeds the caches, a part of its features stays in cache for all rows
        # of positions.
        first = mode == "features" and rhs.size * rhs.dtype.itemsize > target.caches.l2 * 3 // 4
        vectors, singles = _tile(target, along // lanes, across, 1 + total.is_complex)
        if mode == "channels":  # the other registers hold factors of the window
            vectors, singles = _tile(target, 1, across, 2 + 2 * total.is_complex)
            if prod(window.size) > MOST_WRITTEN and inputs == 1:
                vectors = max(1, min(4, along // lanes, target.registers // 2 // singles))
        edges = any(window.low[:-1] + window.high[:-1])
        panels, word = panel_sizes(self.hero.operands[1])
        if panels and mode == "features" and panels % lanes == 0:
            vectors = panels // lanes
        words = self.by_words(target) if word > 1 else None
        # Each tile is a panel, and each panel belongs to one group.
        whole = mode == "features" and panels % (vectors * lanes) == outputs % (vectors * lanes) == 0
        product = words if words and whole and words.word == word else None
        return ConvolutionPlan(
            self.hero.name, mode, shape.dims[0], groups, inputs // (word if product else 1), outputs, places,
            window.size, window.stride, window.window_dilation, window.low, edges, total, lanes, vectors,
            singles, first, panels, product, phases=(),
        )  # fmt: skip

    def by_words(self, target: Target) -> GemmSpec | None:
        """The product of one position by words of short inputs; None if the machine does not support it, or
        inputs do not fill words.
        """
        left, kernel, result = (shape_of(i) for i in (*self.hero.operands, self.hero))
        groups = op_of(self.hero, Convolution).feature_group_count
        places, outputs = result.size // result.dims[-1], kernel.dims[-1] // groups
        sizes = groups, places, outputs, kernel.dims[-2]
        plain = GemmSpec(left.dtype, result.dtype, *sizes, positive=is_positive(self.hero))
        spec = plain.by_words(target)
        fits = spec.word > 1 and not spec.missing and spec.accumulator is accumulator(result.dtype)
        return spec if fits and left.dtype is kernel.dtype else None

    def _called(self, form: ConvolutionPlan, task: KernelTask, target: Target) -> ConvolutionPlan:
        steps = form.single_axis * form.vectors * form.lanes * prod(form.window) * form.inputs
        return replace(form, phases=(task.phase(prod(form.outer), max(1, steps // 4), target.limits),))

    def variants(self, task: KernelTask, target: Target) -> Iterator[ConvolutionPlan]:
        """Plans with other tiles, and with the other order of image and kernel. All add each sum in the same
        order.
        """
        plan = self.plan(task, target)
        if plan.blocks is not None or plan.mode == "channels":
            return
        available = target.registers // (1 + plan.accumulator.is_complex)
        orders = {plan.kernel_first, not plan.kernel_first} if plan.mode == "features" else {False}
        widths = range(1, min(plan.vector_axis // plan.lanes, 6) + 1)
        for width in (plan.vectors,) if plan.panels else widths:  # panels are as wide as a tile
            most = max(1, (available - width - 1) // width)
            even = [-(-plan.single_axis // -(-plan.single_axis // n)) for n in (most, -(-most * 3 // 4))]
            for singles in {*even, min(most, plan.single_axis)}:
                for first in orders:
                    form = replace(plan, vectors=width, singles=singles, kernel_first=first)
                    yield self._called(form, task, target)

    def _by_blocks(self, form: ConvolutionPlan, name: str, target: Target) -> DotPlan | None:
        """The plan of the convolution as a matrix product that thread blocks compute. One matrix has a row
        for each position of the result: the elements of the image in its window; the other one is the kernel.
        `name` is the symbol of the phase. None if the target has no local memory, or the product does not
        support the types or the form.
        """
        left, right, result = (shape_of(i).dtype for i in (*self.hero.operands, self.hero))
        places, depth = form.batch * prod(form.places), prod(form.window) * form.inputs
        known = left is right and not left.is_pred and not (left.is_integer and left.bits < 8)
        some = min(form.groups, form.outputs, places, depth) > 0
        if not target.local_bytes or not known or not some or form.mode == "channels":
            return None
        if form.mode == "pixels":
            spec = GemmSpec(left, result, form.groups, form.outputs, places, depth, True)
            cut = plan_blocks(spec, target)
            cut = replace(cut, rhs=replace(cut.rhs, lanes=1))
        else:
            spec = GemmSpec(left, result, form.groups, places, form.outputs, depth)
            cut = plan_blocks(spec, target)
            if form.inputs % cut.lhs.lanes:  # a vector would contain inputs of two window elements
                cut = replace(cut, lhs=replace(cut.lhs, lanes=1))
        phase = Phase(name, cut.units, 1, cut.units > 1, cut.threads)
        return DotPlan(self.hero.name, spec, cut, phases=(phase,))


def panels_wanted(hero: Instruction, target: Target) -> tuple[int, int] | None:
    """(output features of a panel, inputs in a word): the panels in which a convolution's kernel is best
    stored; None if it should stay as it is. Without panels, rows are far apart, often in few cache sets, and
    a tile reads only a part of each row.
    """
    if not hero.shape.byte_size:
        return None
    kind = ConvolutionKind(hero)
    form, product = kind.tiled(target), kind.by_words(target)
    width, word = form.vectors * form.lanes, product.word if product else 1
    whole = form.lanes > 1 and form.outputs % width == 0 and (form.outputs > width or word > 1)
    return (width, word) if form.mode == "features" and whole and not target.local_bytes else None


def unpacked(panels: Instruction, kernel: Shape) -> Instruction:
    """A convolution's kernel [window..., inputs, features], as a transpose of panels: [features / panel,
    window..., inputs, panel], or [features / panel, window..., inputs / word, panel, word]. If the
    convolution has this operand, it reads the panels directly.
    """
    transposed = Transpose(_unpacking(kernel.rank, shape_of(panels).rank > kernel.rank + 1))(panels)
    return panels.computation.add(Reshape(kernel), [transposed], extra=panels.extra)


def _unpacking(rank: int, words: bool) -> tuple[int, ...]:
    """The permutation that turns panels into a kernel with `rank` dimensions. `words`: whether the panels
    consist of words of short numbers.
    """
    return (*range(1, rank), *((rank + 1,) if words else ()), 0, rank)


def panel_sizes(kernel: Instruction) -> tuple[int, int]:
    """(panel width, word size) of a kernel that `unpacked` made; (0, 1) for another kernel."""
    panels = panels_under(kernel)
    if panels is None:
        return 0, 1
    dims = shape_of(panels).dims
    return (dims[-2], dims[-1]) if len(dims) > kernel.shape.rank + 1 else (dims[-1], 1)


def panels_under(kernel: Instruction) -> Instruction | None:
    """The panels of a kernel that `unpacked` made; None for another kernel."""
    if not isinstance(kernel.op, Reshape | Bitcast):
        return None
    transposed = kernel.operands[0]
    if not isinstance(transposed.op, Transpose):
        return None
    rank, dims = kernel.shape.rank, shape_of(transposed).dims
    words = len(dims) > rank + 1
    order, apart = _unpacking(rank, words), -4 if words else -2
    fits = len(dims) > 2 and op_of(transposed, Transpose).dimensions == order
    # A bitcast may change the element type.
    fits = fits and shape_of(kernel).dtype is shape_of(transposed).dtype
    pairs = [shape_of(transposed).dims[apart:][n : n + 2] for n in range(0, -apart, 2)]
    joined = (*dims[:apart], *map(prod, pairs))
    return transposed.operands[0] if fits and shape_of(kernel).dims == joined else None


def by_channels(target: Target | None, dtype: DType, groups: int, inputs: int, outputs: int) -> bool:
    """Whether the lanes of a convolution run along the features of several groups."""
    if inputs != outputs or groups == 1:
        return False
    lanes = 1 if target is None or target.local_bytes else target.lanes(accumulator(dtype))
    return inputs == 1 or inputs in (2, 4, 8) and inputs < lanes <= groups * outputs


def accumulator(dtype: DType) -> DType:
    """The type in which products are summed for a result of `dtype`."""
    if dtype.is_float and dtype.bits < 32:
        return F32
    return S32 if dtype.is_pred or dtype.is_integer and dtype.bits < 8 else dtype


def _tile(target: Target, vectors: int, singles: int, parts: int) -> tuple[int, int]:
    """(vectors, singles) of a tile whose sums fit in registers, along with the operands of one step.
    `vectors` and `singles` are the largest useful numbers; a value in the tile takes `parts` registers.
    """
    available = target.registers // parts
    found = []
    for width in (2,) if singles > available // 4 else (4, 2):
        width = min(vectors, width)
        most = max(1, (available - width - 2) // width)
        count = -(-singles // most)
        size = -(-singles // count)
        found.append((count * size, width, size))  # positions computed, some of them twice
    _, width, size = min(found, key=lambda tile: tile[0])
    return width, size
