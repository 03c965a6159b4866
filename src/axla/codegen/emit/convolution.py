"""Writes direct convolutions: register tiles of sums over the window and the input features.

The convolution has one of the forms of the pass `convolution-canonicalize`. A tile has `vectors` along one
axis of the result and `singles` along another. In parentheses is the operand that is loaded in this form, as
vectors or as single elements:

    features    vectors of output features (the kernel's), singles of the last spatial dimension (the input's)
    pixels      vectors of the last spatial dimension (the input's), singles of output features (the kernel's)
    channels    vectors of the features of small groups with as many inputs (from both), singles of the
                last spatial dimension

    step (batch, spatial dimensions but the last, group, vectors of the tile):  for each tile of singles:
        for each window position and input feature: load, multiply, add to the tile's sums
        store the tile, or the kernel's result computed from it

Padding is not stored: a row outside of the image is read as a row of zeros. In tiles that reach over the ends
of a row, the window positions are unrolled, so that it is known which of them fall on padding. Zeros are
multiplied too, since the kernel may contain infinities.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from axla.codegen.array import DenseArray, element_address
from axla.codegen.emit import image
from axla.codegen.emit.product import SIGNS, Sums
from axla.codegen.index import AnyIndex, Index, base_of, index_key, linear
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value, ValueGroup
from axla.codegen.walk import fold
from axla.kernels.convolution import MOST_WRITTEN, ConvolutionPlan, panels_under

UNROLL = 8
"""The largest number of steps of a sum that are unrolled."""
WRITTEN = 320
"""If at most so many instructions compute the results of a tile from its sums, they are written unrolled;
more are written as a loop.
"""

WindowPosition = tuple[AnyIndex, ...]


def emit(k: KernelWriter, plan: ConvolutionPlan) -> None:
    """Writes the kernel of a `ConvolutionPlan`."""
    if plan.blocks is not None:
        image.emit(k, plan)
    else:
        _Convolution(k, plan).emit()


class _Convolution:
    """Writes the kernel of a plan that computes sums directly, not by a matrix product. In all methods,
    `vectors` are the indices of the vectors of a tile, and `start` is the index of its first single.
    """

    def __init__(self, k: KernelWriter, form: ConvolutionPlan):
        self.k = k
        self.f = k.f
        self.form = form
        self.pixels, self.channels = form.mode == "pixels", form.mode == "channels"
        self.hero = k.named[form.hero]
        parameters = k.kernel.computation.parameters
        image, kernel = self.hero.operands
        kernel = panels_under(kernel) or kernel
        self.lhs, self.rhs = (k.inputs[parameters.index(o)] for o in (image, kernel))
        self.sizes = self.lhs.dims[2:] if self.pixels else self.lhs.dims[1:-1]
        self.sums: Sums | None = None
        if form.product is not None:
            self.sums = Sums(k.values, form.product)
            self.sums.biased = form.product.is_biased(k.target)
        self.excess: ValueGroup = ()
        self.row: DenseArray | None = None
        self.in_panel: dict[tuple, tuple[AnyIndex, AnyIndex]] = {}

    def emit(self) -> None:
        form = self.form
        with self.k.steps(*form.outer) as at:
            self.batch, *self.rows, self.group, tile = form.ordered(at)
            first = self.first(tile, form.vectors * form.lanes, form.vector_axis)
            vectors = [self.lanes_from(first, n) for n in range(form.vectors)]
            if form.reads_panels:
                panel = self.group * (form.outputs // (form.vectors * form.lanes)) + tile
                self.in_panel = {
                    index_key((v,)): (panel, self.lanes_from(0, n)) for n, v in enumerate(vectors)
                }
            self.excess = self.of_bias(vectors) if self.sums is not None and self.sums.biased else ()
            inside = [n for n in range(form.tiles) if not self.reaches_over(n)]
            for n in range(form.tiles):
                if n not in inside or len(inside) == 1:
                    self.tile(vectors, self.first(n, form.singles, form.single_axis), written=n not in inside)
                elif n == inside[0]:
                    with self.f.loop(n, inside[-1] + 1, 1, nonempty=True) as loop:
                        number = Index(self.f, loop.index, limit=form.tiles)
                        self.tile(vectors, self.first(number, form.singles, form.single_axis))

    def reaches_over(self, tile: int) -> bool:
        """Whether the windows of a tile of singles reach beyond the ends of a row."""
        form = self.form
        if self.pixels:
            return False  # in this form, windows never reach over the edges
        first = self.first(tile, form.singles, form.single_axis)
        assert isinstance(first, int)
        begin = first * form.stride[-1] - form.low[-1]
        reach = (form.singles - 1) * form.stride[-1] + (form.window[-1] - 1) * form.dilation[-1]
        return begin < 0 or begin + reach >= self.sizes[-1]

    def first(self, tile: AnyIndex, size: int, axis: int) -> AnyIndex:
        """The first index of tile number `tile` along an axis of the result. The axis has `axis` indices, a
        tile `size`; the last tile overlaps the one before it.
        """
        f = self.f
        if isinstance(tile, int):
            return min(tile * size, axis - size)
        start = tile * size
        if axis % size == 0:
            return start
        return Index(f, f.smin(start.base, axis - size), limit=axis)

    def lanes_from(self, first: AnyIndex, number: int) -> AnyIndex:
        """The index of vector `number` of a tile whose first index is `first`."""
        f, form = self.f, self.form
        start = first + number * form.lanes
        if form.lanes == 1:
            return start
        base = f.index(start) if isinstance(start, int) else start.base
        return Index(f, base, 1, form.lanes, limit=form.vector_axis)

    def tile(self, vectors: Sequence[AnyIndex], start: AnyIndex, written: bool = False) -> None:
        """Computes the sums of a tile, and stores its results. `vectors` are the indices of its vectors,
        `start` is the index of its first single. `written`: whether the last window dimension is unrolled.
        """
        form, values = self.form, self.k.values
        zero = values.splat(values.constant(form.accumulator, 0), form.lanes)
        sums = (zero,) * (form.singles * form.vectors)
        *outer, last = form.window
        swept = self.channels and (written or last <= UNROLL)

        def row(sums: ValueGroup, at: WindowPosition) -> ValueGroup:
            self.enter_row(at)
            if swept:
                return self.sweep(sums, at, vectors, start)
            if not written:
                return self.accumulate(sums, (last, form.inputs), at, vectors, start)
            for place in range(last):
                sums = self.accumulate(sums, (form.inputs,), (*at, place), vectors, start)
            return sums

        most = MOST_WRITTEN if swept else UNROLL
        cut = 0 if prod(form.window) * form.inputs <= most else len(outer)
        self.give(fold(self.f, outer, cut, sums, row), vectors, start)

    def accumulate(
        self,
        sums: ValueGroup,
        sizes: Sequence[int],
        at: WindowPosition,
        vectors: Sequence[AnyIndex],
        start: AnyIndex,
    ) -> ValueGroup:
        """Adds products to the sums of a tile. `at` is the index in the first window dimensions; `sizes` are
        the sizes of the other window dimensions and of the input features, over which loops run. The
        innermost loops are unrolled.
        """
        form = self.form
        places = [(column, v, start + n) for n in range(form.singles) for column, v in enumerate(vectors)]
        # `wide` is loaded once per vector; `narrow` once per single (for channels, per single and vector).
        wide, narrow = (self.image, self.kernel) if self.pixels else (self.kernel, self.image)

        def step(sums: ValueGroup, here: WindowPosition) -> ValueGroup:
            columns = [wide(v, 0, (*at, *here)) for v in vectors]
            return tuple(
                self.multiply_add(columns[column], narrow(v, single, (*at, *here)), total)
                for total, (column, v, single) in zip(sums, places, strict=True)
            )

        # If the window positions were unrolled too, elements of the image that they share would stay in
        # registers, of which there are not enough.
        cut, steps = len(sizes), 1
        while cut and len(sizes) > 1 and steps * sizes[cut - 1] <= UNROLL:
            cut -= 1
            steps *= sizes[cut]
        unroll = next((u for u in (4, 2) if sizes[-1] % u == 0), 1)
        return fold(self.f, sizes, cut, sums, step, unroll)

    def multiply_add(self, a: Value, b: Value, total: Value) -> Value:
        """Returns total + a * b. For words of short numbers the factors are exchanged: that of the image must
        be the first one.
        """
        if self.sums is not None:
            return self.sums.multiply_add(b, a, total)
        return self.k.values.multiply_add(a, b, total, fused=False)

    def of_bias(self, vectors: Sequence[AnyIndex]) -> ValueGroup:
        """The corrections to subtract from the sums of the vectors, where the bytes of the image are offset
        by 128.
        """
        form, values = self.form, self.k.values
        moved = values.splat(values.constant(form.accumulator, SIGNS), form.lanes)
        zero = values.splat(values.constant(form.accumulator, 0), form.lanes)

        def step(sums: ValueGroup, at: WindowPosition) -> ValueGroup:
            return tuple(
                self.multiply_add(self.kernel(v, 0, at), moved, total)
                for total, v in zip(sums, vectors, strict=True)
            )

        sizes = (*form.window, form.inputs)
        return fold(self.f, sizes, len(sizes), (zero,) * len(vectors), step)

    def sweep(
        self, sums: ValueGroup, at: WindowPosition, vectors: Sequence[AnyIndex], start: AnyIndex
    ) -> ValueGroup:
        """Adds the products for one row of the window to the sums, in the form `channels`: elements of the
        image are read in order, each once. `at` is the index of the row in the window.
        """
        form, totals = self.form, list(sums)
        pairs = product(range(form.window[-1]), range(form.singles))
        pairs = sorted(pairs, key=lambda p: p[0] * form.dilation[-1] + p[1] * form.stride[-1])
        for (place, n), feature in product(pairs, range(form.inputs)):
            here = (*at, place, feature)
            for number, v in enumerate(vectors, n * form.vectors):
                element, factor = self.image(v, start + n, here), self.kernel(v, start, here)
                totals[number] = self.k.values.multiply_add(factor, element, totals[number], fused=False)
        return tuple(totals)

    def give(self, sums: ValueGroup, vectors: Sequence[AnyIndex], start: AnyIndex) -> None:
        """Computes the kernel's results from a tile of sums, and stores them."""
        k, f, form = self.k, self.f, self.form
        dtype = self.hero.shape.dtype
        if self.excess:
            every = zip(sums, self.excess * form.singles, strict=True)
            sums = tuple(k.values.binary("subtract", total, excess) for total, excess in every)
        sums = tuple(k.values.convert(total, dtype) for total in sums)
        if len(sums) * len(k.kernel.computation.instructions) <= WRITTEN:
            self.write(sums, vectors, start, form.singles)
            return
        size = form.lanes * dtype.itemsize
        buffer = f.space(f"[{size * len(sums)} x i8]", 64)
        for number, total in enumerate(sums):
            k.values.store(total, f.gep("i8", buffer, number * size))
        with f.loop(0, form.singles, 1, nonempty=True) as loop:
            line = f.gep("i8", buffer, f.mul(loop.index, size * form.vectors))
            places = (f.gep("i8", line, n * size) for n in range(form.vectors))
            found = tuple(k.values.load(dtype, place, form.lanes) for place in places)
            self.write(found, vectors, Index(f, loop.index, limit=form.singles) + start, 1)

    def write(self, sums: ValueGroup, vectors: Sequence[AnyIndex], start: AnyIndex, singles: int) -> None:
        """Computes the kernel's results for `singles` positions from `start` on, and stores them."""
        form, e = self.form, self.k.elements(self.form.lanes)
        known: dict[tuple, tuple[WindowPosition, Value]] = {}
        for number, total in enumerate(sums):
            vector, single = vectors[number % form.vectors], start + number // form.vectors
            places = (*self.rows, self.last(vector, single))
            at = form.laid(self.batch, places, self.output(vector, single))
            known[index_key(at)] = at, total
        e.bind(self.hero, lambda index: known[index_key(index)][1])
        for at, _ in known.values():
            self.k.write(e, at, self.hero.shape.dims)

    def last(self, vector: AnyIndex, single: AnyIndex) -> AnyIndex:
        """The index in the last spatial dimension of the result at `vector` along the axis of vectors and at
        `single` along the axis of singles.
        """
        return vector if self.pixels else single

    def output(self, vector: AnyIndex, single: AnyIndex) -> AnyIndex:
        """The number of the output feature of the result at `vector` along the axis of vectors and at
        `single` along the axis of singles.
        """
        if self.channels:
            return vector
        return self.group * self.form.outputs + (single if self.pixels else vector)

    def kernel(self, vector: AnyIndex, single: AnyIndex, at: WindowPosition) -> Value:
        """The factor from the convolution's kernel for the results at `vector` and `single`. `at` is the
        window position, followed by the input feature.
        """
        width, word = self.form.panels, self.rhs.dims[-1] if len(self.rhs.dims) > len(at) + 2 else 1
        if self.form.reads_panels:
            panel, lanes = self.in_panel[index_key((vector,))]
        elif width:  # panels of another width than the tiles
            feature = self.output(vector, single)
            panel, lanes = feature // width, feature % width
        else:
            return self.load(self.rhs, (*at, self.output(vector, single)))
        if self.sums is not None:
            return self.words(self.rhs, (panel, *at, lanes, 0), self.form.lanes)
        if word > 1:  # stored in words, but the target does not multiply words
            return self.load(self.rhs, (panel, *at[:-1], at[-1] // word, lanes, at[-1] % word))
        return self.load(self.rhs, (panel, *at, lanes))

    def words(self, array: DenseArray, index: WindowPosition, lanes: int) -> Value:
        """Loads `lanes` words of short numbers, from the element at `index` on."""
        first = [i if isinstance(i, int) else Index(self.f, i.base, limit=i.limit) for i in index]
        start = base_of(self.f, linear(first, array.dims))
        place = element_address(self.f, array.pointer, array.dtype, start)
        return self.k.values.load(self.form.accumulator, place, lanes, align=array.dtype.itemsize)

    def image(self, vector: AnyIndex, single: AnyIndex, at: WindowPosition) -> Value:
        form, (*window, feature) = self.form, at
        channel = vector if self.channels else self.group * form.inputs + feature
        *places, last = self.seen((*self.rows, self.last(vector, single)), window)
        beyond = isinstance(last, int) and not 0 <= last < self.sizes[-1]
        if self.sums is not None:
            channel = channel * self.sums.spec.word
        array, index = self.lhs, form.laid(self.batch, (*places, last), channel)
        if self.row is not None:
            array, index = self.row, (last, channel)
        if beyond:
            found = self.k.values.constant(form.accumulator, 0)
        elif self.sums is not None:
            found = self.words(array, index, 1)
        else:
            found = self.load(array, index)
        if self.excess:
            found = self.k.values.splat(found, form.lanes)
            moved = (self.k.values.m.reg(found.ssa) ^ SIGNS).ssa
            return Value(found.dtype, found.lanes, (moved,))
        if beyond or not self.channels or form.inputs == 1:
            return found
        assert isinstance(feature, int)  # short loops over inputs are written out
        lanes = [lane - lane % form.inputs + feature for lane in range(form.lanes)]
        return self.k.values.shuffle(found, found, lanes)

    def seen(self, places: Sequence[AnyIndex], window: Sequence[AnyIndex]) -> list[AnyIndex]:
        """For each spatial dimension, the position in the image that belongs to the result position `places`
        and the window position `window`; it may be outside the image.
        """
        form = self.form
        steps = zip(places, form.stride, window, form.dilation, form.low, strict=False)
        return [r * s + w * d - low for r, s, w, d, low in steps]

    def enter_row(self, window: WindowPosition) -> None:
        """Selects the row of the image under a window position, which is given in all dimensions but the
        last. A row outside of the image is replaced by a row of zeros.
        """
        f, form = self.f, self.form
        if not form.padded_rows:
            return
        places, inside = self.seen(self.rows, window), f.const("i1", 1)
        for place, size in zip(places, self.sizes, strict=False):
            inside = f.binary("and", inside, f.icmp("ult", base_of(f, place), size))
        start = base_of(f, linear((self.batch, *places, 0, 0), self.lhs.dims))
        there = element_address(f, self.lhs.pointer, self.lhs.dtype, start, inbounds=False)
        zeros = f.zeros(prod(self.lhs.dims[-2:]) * self.lhs.dtype.itemsize)
        self.row = DenseArray(
            self.k.values, f.select(inside, there, zeros), self.lhs.dtype, self.lhs.dims[-2:],
        )  # fmt: skip

    def load(self, array: DenseArray, index: WindowPosition) -> Value:
        found = array.load(index, self.form.lanes)
        return self.k.values.factor(found, self.hero.shape.dtype, self.form.accumulator)
