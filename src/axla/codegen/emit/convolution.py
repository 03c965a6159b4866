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
from axla.codegen.index import AnyIndex, Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value, parts_of, rebuilt
from axla.kernels.convolution import ConvolutionPlan

UNROLL = 8
"""Steps of the sum that are written out, at most."""

Places = tuple[AnyIndex, ...]
Load = Callable[[AnyIndex, AnyIndex, Places, AnyIndex], Value]
"""(vector index, single index, place in the window, input feature) -> an operand."""


def emit(k: KernelWriter, plan: ConvolutionPlan) -> None:
    """Writes the kernel of a `ConvolutionPlan`."""
    _Convolution(k, plan).emit()


class _Convolution:
    """Writes the kernel."""

    def __init__(self, k: KernelWriter, form: ConvolutionPlan):
        self.k = k
        self.f = k.f
        self.form = form
        self.lhs, self.rhs = k.inputs
        (self.out,) = k.outputs

    def emit(self) -> None:
        f, form = self.f, self.form
        with self.k.steps(*form.outer) as (batch, *rows, group, tile):
            first = self.first(tile, form.vectors * form.lanes, form.vector_axis)
            vectors = [self.lanes_from(first, n) for n in range(form.vectors)]
            tiles = -(-form.single_axis // form.singles)
            if tiles == 1:
                self.tile(batch, rows, group, vectors, 0)
            else:
                with f.loop(0, tiles, 1) as loop:
                    start = self.first(Index(f, loop.index, limit=tiles), form.singles, form.single_axis)
                    self.tile(batch, rows, group, vectors, start)

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

    def tile(
        self,
        batch: AnyIndex,
        rows: list[AnyIndex],
        group: AnyIndex,
        vectors: Sequence[AnyIndex],
        start: AnyIndex,
    ) -> None:
        """The sums of a tile, and their storage."""
        form, values = self.form, self.k.values
        zero = values.splat(values.constant(form.accumulator, 0), form.lanes)
        singles = [start + n for n in range(form.singles)]
        wide, narrow = self.operands(batch, rows, group)

        def step(sums: list[Value], place: Places, feature: AnyIndex) -> list[Value]:
            columns = [wide(v, 0, place, feature) for v in vectors]
            found = []
            for number, single in enumerate(singles):
                for column, vector in enumerate(vectors):
                    other = narrow(vector, single, place, feature)
                    total = sums[number * form.vectors + column]
                    found.append(values.multiply_add(columns[column], other, total, fused=False))
            return found

        sums = self.accumulate([zero] * (form.singles * form.vectors), step)
        for number, single in enumerate(singles):
            for column, vector in enumerate(vectors):
                value = values.convert(sums[number * form.vectors + column], self.out.dtype)
                self.out.store(self.result_index(batch, rows, group, vector, single), value)

    def operands(self, batch: AnyIndex, rows: list[AnyIndex], group: AnyIndex) -> tuple[Load, Load]:
        """What a tile loads once per vector, and once per single (and vector, of channels)."""
        form = self.form

        def place_of(row: Sequence[AnyIndex], window: Places) -> list[AnyIndex]:
            steps = zip(row, form.stride, window, form.dilation, strict=True)
            return [r * s + w * d for r, s, w, d in steps]

        def feature_of(feature: AnyIndex) -> AnyIndex:
            return group * form.inputs + feature

        def output_of(index: AnyIndex) -> AnyIndex:
            return group * form.outputs + index

        def kernel(vector: AnyIndex, single: AnyIndex, window: Places, feature: AnyIndex) -> Value:
            of = vector if form.mode == "channels" else output_of(single if form.mode == "pixels" else vector)
            return self.load(self.rhs, (*window, feature, of))

        def image(vector: AnyIndex, single: AnyIndex, window: Places, feature: AnyIndex) -> Value:
            if form.mode == "pixels":
                return self.load(self.lhs, (batch, feature_of(feature), *place_of([*rows, vector], window)))
            of = vector if form.mode == "channels" else feature_of(feature)
            return self.load(self.lhs, (batch, *place_of([*rows, single], window), of))

        return (image, kernel) if form.mode == "pixels" else (kernel, image)

    def result_index(
        self, batch: AnyIndex, rows: list[AnyIndex], group: AnyIndex, vector: AnyIndex, single: AnyIndex
    ) -> Places:
        form = self.form
        if form.mode == "pixels":
            return (batch, group * form.outputs + single, *rows, vector)
        of = vector if form.mode == "channels" else group * form.outputs + vector
        return (batch, *rows, single, of)

    def load(self, array: Array, index: Places) -> Value:
        return self.k.values.convert(array.load(index, self.form.lanes), self.form.accumulator)

    def accumulate(
        self, sums: list[Value], step: Callable[[list[Value], Places, AnyIndex], list[Value]]
    ) -> list[Value]:
        """Folds `step` over the window and the input features; the innermost steps are written out."""
        form = self.form
        sizes = (*form.window, form.inputs)
        cut = len(sizes)
        unrolled = 1
        while cut and unrolled * sizes[cut - 1] <= UNROLL:
            cut -= 1
            unrolled *= sizes[cut]

        def nest(depth: int, at: Places, sums: list[Value]) -> list[Value]:
            if depth == len(sizes):
                return step(sums, at[:-1], at[-1])
            size = sizes[depth]
            if depth >= cut:
                for n in range(size):
                    sums = nest(depth + 1, (*at, n), sums)
                return sums
            unroll = next((u for u in (4, 2) if size % u == 0), 1) if depth == len(sizes) - 1 else 1
            return self.loop(size, unroll, sums, lambda index, inner: nest(depth + 1, (*at, index), inner))

        return nest(0, (), sums)

    def loop(
        self, size: int, unroll: int, sums: list[Value], body: Callable[[AnyIndex, list[Value]], list[Value]]
    ) -> list[Value]:
        f = self.f
        with f.loop(0, size, unroll, parts_of(sums)) as loop:
            inner = list(rebuilt(sums, loop.carried))
            index = Index(f, loop.index, multiple=unroll, limit=size)
            for n in range(unroll):
                inner = body(index + n, inner)
            loop.yield_(parts_of(inner))
        return list(rebuilt(sums, loop.results))
