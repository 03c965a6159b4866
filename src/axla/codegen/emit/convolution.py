"""Direct convolution: register tiles of sums over the window and the input features.

The convolution has one of the forms of the pass `convolution-canonicalize`, so every place of its window lies
inside of it. A tile is `vectors` along one axis of the result times `singles` along another:

    features    vectors of output features (the kernel's), singles of the last spatial dimension (the input's)
    pixels      vectors of the last spatial dimension (the input's), singles of output features (the kernel's)
    channels    vectors of groups of one feature each (of both), singles of the last spatial dimension

    step (batch, spatial dimensions but the last, group, vectors of the tile):  for each tile of singles:
        for each place in the window and input feature: load, multiply, add to the tile's sums
        store the tile
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from axla.codegen.array import Array
from axla.codegen.emit import image
from axla.codegen.index import AnyIndex, Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Group, Value
from axla.codegen.walk import fold
from axla.kernels.convolution import ConvolutionPlan

UNROLL = 8
"""Steps of the sum that are written out, at most."""

Places = tuple[AnyIndex, ...]


def emit(k: KernelWriter, plan: ConvolutionPlan) -> None:
    """Writes the kernel of a `ConvolutionPlan`."""
    if plan.blocks is not None:
        image.emit(k, plan)
    else:
        _Convolution(k, plan).emit()


class _Convolution:
    """Writes the kernel."""

    def __init__(self, k: KernelWriter, form: ConvolutionPlan):
        self.k = k
        self.f = k.f
        self.form = form
        self.pixels, self.channels = form.mode == "pixels", form.mode == "channels"
        self.lhs, self.rhs = k.inputs
        (self.out,) = k.outputs

    def emit(self) -> None:
        f, form = self.f, self.form
        with self.k.steps(*form.outer) as (batch, *rows, group, tile):
            self.batch, self.rows, self.group = batch, rows, group
            first = self.first(tile, form.vectors * form.lanes, form.vector_axis)
            vectors = [self.lanes_from(first, n) for n in range(form.vectors)]
            tiles = -(-form.single_axis // form.singles)
            if tiles == 1:
                self.tile(vectors, 0)
            else:
                with f.loop(0, tiles, 1) as loop:
                    start = self.first(Index(f, loop.index, limit=tiles), form.singles, form.single_axis)
                    self.tile(vectors, start)

    def first(self, tile: AnyIndex, size: int, axis: int) -> AnyIndex:
        """Where a tile begins: the last one overlaps the one before it."""
        f = self.f
        if isinstance(tile, int):
            return min(tile * size, axis - size)
        start = tile * size
        if axis % size == 0:
            return start
        return Index(f, f.smin(start.base, axis - size), limit=axis)

    def lanes_from(self, first: AnyIndex, number: int) -> AnyIndex:
        """Vector `number` of a tile."""
        f, form = self.f, self.form
        start = first + number * form.lanes
        if form.lanes == 1:
            return start
        base = f.index(start) if isinstance(start, int) else start.base
        return Index(f, base, 1, form.lanes, limit=form.vector_axis)

    def tile(self, vectors: Sequence[AnyIndex], start: AnyIndex) -> None:
        """The sums of a tile, and their storage."""
        form, values = self.form, self.k.values
        zero = values.splat(values.constant(form.accumulator, 0), form.lanes)
        places = [(column, v, start + n) for n in range(form.singles) for column, v in enumerate(vectors)]
        # Loaded once per vector, and once per single (and vector, of channels).
        wide, narrow = (self.image, self.kernel) if self.pixels else (self.kernel, self.image)

        def step(sums: Group, at: Places) -> Group:
            columns = [wide(v, 0, at) for v in vectors]
            return tuple(
                values.multiply_add(columns[column], narrow(v, single, at), total, fused=False)
                for total, (column, v, single) in zip(sums, places, strict=True)
            )

        sums = self.accumulate((zero,) * len(places), step)
        for total, (_, vector, single) in zip(sums, places, strict=True):
            spatial = [*self.rows, self.last(vector, single)]
            at = form.laid(self.batch, spatial, self.output(vector, single))
            self.out.store(at, values.convert(total, self.out.dtype))

    def last(self, vector: AnyIndex, single: AnyIndex) -> AnyIndex:
        """The place of the result in the last spatial dimension."""
        return vector if self.pixels else single

    def output(self, vector: AnyIndex, single: AnyIndex) -> AnyIndex:
        """The feature of the result."""
        if self.channels:
            return vector
        return self.group * self.form.outputs + (single if self.pixels else vector)

    def kernel(self, vector: AnyIndex, single: AnyIndex, at: Places) -> Value:
        """At a place in the window and an input feature, as `image`."""
        return self.load(self.rhs, (*at, self.output(vector, single)))

    def image(self, vector: AnyIndex, single: AnyIndex, at: Places) -> Value:
        form, last, (*window, feature) = self.form, self.last(vector, single), at
        steps = zip([*self.rows, last], form.stride, window, form.dilation, strict=True)
        channel = vector if self.channels else self.group * form.inputs + feature
        places = [r * s + w * d for r, s, w, d in steps]
        return self.load(self.lhs, form.laid(self.batch, places, channel))

    def load(self, array: Array, index: Places) -> Value:
        return self.k.values.convert(array.load(index, self.form.lanes), self.form.accumulator)

    def accumulate(self, sums: Group, step: Callable[[Group, Places], Group]) -> Group:
        """Folds `step` over the window and the input features; the innermost steps are written out."""
        sizes = (*self.form.window, self.form.inputs)
        cut, written = len(sizes), 1
        while cut and written * sizes[cut - 1] <= UNROLL:
            cut -= 1
            written *= sizes[cut]
        unroll = next((u for u in (4, 2) if sizes[-1] % u == 0), 1)
        return fold(self.f, sizes, cut, sums, step, unroll)
