"""Writes Fourier transforms: a phase that writes tables, then one phase per axis.

A step of an axis copies one line (or a strip of neighbouring lines) into two planes of scratch memory, real
and imaginary parts separately, transforms it in stages from one buffer to the other, and copies it out. The
inverse is the same transform with real and imaginary parts exchanged. Real lines of even length n are handled
as complex lines of n/2 values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, pi, sin

from axla.codegen.arithmetic import Arithmetic, Reg
from axla.codegen.array import element_address, reverse_lanes
from axla.codegen.function import Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelWriter, least
from axla.codegen.position import index_value
from axla.codegen.value import Value, Values
from axla.core.dtypes import C64, C128, F32, F64, DType
from axla.kernels.fft import FftAxis, FftPlan, Stage
from axla.kernels.plan import fitting

ComplexPair = tuple[Reg, Reg]


def times(m: Arithmetic, a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """The product of complex numbers; each part is rounded at most twice."""
    (x, y), (u, v) = a, b
    return m.fma(x, u, -(y * v)), m.fma(x, v, y * u)


def plus(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """The sum of two complex numbers in registers."""
    return a[0] + b[0], a[1] + b[1]


def minus(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """The difference of two complex numbers in registers."""
    return a[0] - b[0], a[1] - b[1]


def turned(a: ComplexPair) -> ComplexPair:
    """The product a * -i."""
    return a[1], -a[0]


def butterfly(m: Arithmetic, x: Sequence[ComplexPair]) -> list[ComplexPair]:
    """The discrete Fourier transform of a few values in registers."""
    if len(x) == 2:
        return [plus(x[0], x[1]), minus(x[0], x[1])]
    if len(x) == 4:
        even, odd = plus(x[0], x[2]), plus(x[1], x[3])
        difference, other = minus(x[0], x[2]), turned(minus(x[1], x[3]))
        return [plus(even, odd), plus(difference, other), minus(even, odd), minus(difference, other)]
    return _odd(m, x)


def _odd(m: Arithmetic, x: Sequence[ComplexPair]) -> list[ComplexPair]:
    """The discrete Fourier transform of r values in registers, for odd r; the factors of x[k] and x[r - k]
    are conjugate.
    """
    r = len(x)
    half = (r - 1) // 2
    sums = [plus(x[k], x[r - k]) for k in range(1, half + 1)]
    differences = [minus(x[k], x[r - k]) for k in range(1, half + 1)]
    total = x[0]
    for s in sums:
        total = plus(total, s)
    found: list[ComplexPair] = [total] * r
    for j in range(1, half + 1):
        even, odd = x[0], None
        for k in range(1, half + 1):
            angle = 2 * pi * (j * k % r) / r
            c, s = cos(angle), sin(angle)
            a, b = sums[k - 1], differences[k - 1]
            even = m.fma(a[0], c, even[0]), m.fma(a[1], c, even[1])
            odd = (b[0] * s, b[1] * s) if odd is None else (m.fma(b[0], s, odd[0]), m.fma(b[1], s, odd[1]))
        assert odd is not None
        found[j] = plus(even, turned(odd))
        found[r - j] = minus(even, turned(odd))
    return found


def emit(k: KernelWriter, plan: FftPlan) -> None:
    """Writes the kernel of a phase of an `FftPlan`: the tables, or one axis."""
    number = k.phase - (len(plan.phases) - len(plan.axes))
    if number >= 0:
        if plan.axes[number].steps and plan.axes[number].length:
            _Lines(k, plan, number).emit()
        return
    done: set[int] = set()
    for stage in (s for axis in plan.axes for s in (*axis.stages, axis.ends) if s is not None):
        if stage.count > 1 and stage.table not in done:
            done.add(stage.table)
            _table(k, plan, stage)


def _table(k: KernelWriter, found: FftPlan, stage: Stage) -> None:
    """Writes a stage's table of exp(-2 pi i j p / (radix * count)), computed in f64: for each j from 1 to
    radix - 1, the real parts for all p < count, then the imaginary parts.
    """
    f, values = k.f, k.values
    lanes = fitting(k.target.lanes(F64), stage.count)
    with f.loop(0, stage.count, lanes, nonempty=True) as loop:
        first = f.smin(loop.index, stage.count - lanes)
        place = Index(f, first, 1, lanes, limit=stage.count)
        number = index_value(k.values, place, F64)
        for j in range(1, stage.radix):
            factor = -2 * pi * j / (stage.radix * stage.count)
            angle = values.binary("multiply", number, values.constant(F64, factor))
            for part, opcode in enumerate(("cosine", "sine")):
                value = values.convert(values.unary(opcode, angle), found.dtype)
                start = stage.table + ((j - 1) * 2 + part) * stage.count * found.dtype.itemsize
                values.store(value, element_address(values.f, k.scratch(start), found.dtype, first))


class _Planes:
    """Complex values with real and imaginary parts in separate planes, or real values in one plane."""

    def __init__(self, values: Values, dtype: DType, parts: Sequence[Ssa]):
        self.values, self.dtype, self.parts = values, dtype, parts

    def load(self, at: Ssa | int, lanes: int) -> ComplexPair:
        values, dtype = self.values, self.dtype
        places = [element_address(values.f, part, dtype, at) for part in self.parts]
        found = [values.m.reg(values.load(dtype, place, lanes).ssa) for place in places]
        return found[0], found[1] if len(found) > 1 else values.m.number(found[0], 0.0)

    def store(self, at: Ssa | int, value: ComplexPair) -> None:
        values = self.values
        for start, part in zip(self.parts, value, strict=False):
            place = element_address(values.f, start, self.dtype, at)
            values.store(Value(self.dtype, part.lanes, (part.ssa,)), place)


class _Pairs:
    """Interleaved complex values, as arrays store them."""

    def __init__(self, values: Values, dtype: DType, start: Ssa):
        self.values, self.dtype, self.start = values, dtype, start

    def load(self, at: Ssa | int, lanes: int) -> ComplexPair:
        place = element_address(self.values.f, self.start, self.dtype, at)
        re, im = self.values.regs(self.values.load(self.dtype, place, lanes))
        return re, im

    def store(self, at: Ssa | int, value: ComplexPair) -> None:
        place = element_address(self.values.f, self.start, self.dtype, at)
        self.values.store(Value(self.dtype, value[0].lanes, (value[0].ssa, value[1].ssa)), place)


class _Lines:
    """Writes the phase that transforms the lines of one axis."""

    def __init__(self, k: KernelWriter, found: FftPlan, number: int):
        self.k, self.f, self.found = k, k.f, found
        self.axis: FftAxis = found.axes[number]
        self.dtype = found.dtype
        self.whole = C64 if self.dtype is F32 else C128
        self.first, self.last = number == 0, number == len(found.axes) - 1
        self.plane = found.plane_bytes(self.axis)

    def emit(self) -> None:
        f, k, axis = self.f, self.k, self.axis
        self.buffer = k.scratch_of_call(self.found.piece_bytes(axis), self.found.buffers)
        with k.lines(axis.per_piece, axis.steps) as step:
            outer, strip = f.udiv(step.index, axis.strips), f.urem(step.index, axis.strips)
            column = f.mul(strip, axis.width)
            self.read(outer, column)
            for number, stage in enumerate(axis.stages):
                self.stage(stage, number % 2, last=stage.count == 1)
            self.write(outer, column, len(axis.stages) % 2)

    # -- memory ------------------------------------------------------------------------------------------

    def planes(self, side: int, *, exchanged: bool = False) -> _Planes:
        """Buffer 0 or 1 (`side`) as two planes; `exchanged`: with real and imaginary parts exchanged."""
        parts = [self.f.gep("i8", self.buffer, (2 * side + part) * self.plane) for part in range(2)]
        return _Planes(self.k.values, self.dtype, parts[::-1] if exchanged else parts)

    def array(self, *, result: bool) -> Ssa:
        """The array that this axis reads, or the one that it writes (`result`)."""
        half = self.found.axes[-1].kind == "half" and len(self.found.axes) > 1
        if half and (not self.last if result else not self.first):
            return self.k.scratch(self.found.middle)
        return self.k.outputs[0].pointer if result or not self.first else self.k.inputs[0].pointer

    def line(self, outer: Ssa, *, result: bool) -> tuple[_Pairs | _Planes, int]:
        """(line number `outer` of the array that the axis reads, or writes if `result`; the number of values
        in the line).
        """
        f, axis, values = self.f, self.axis, self.k.values
        array = self.array(result=result)
        if axis.kind == ("half" if result else "real") and axis.ends is None:
            start = element_address(f, array, self.dtype, f.mul(outer, axis.length))
            return _Planes(values, self.dtype, [start]), axis.length
        count = axis.length // 2 + 1 if axis.kind == ("real" if result else "half") else axis.points
        return _Pairs(values, self.whole, element_address(f, array, self.whole, f.mul(outer, count))), count

    def lanes(self, count: int) -> int:
        """The number of lanes of the vectors that cover `count` complex numbers: at most `count`."""
        return fitting(self.k.target.lanes(C128 if self.dtype is F64 else C64), count)

    def run(self, count: int, body: Callable[[Ssa, int], None], first: int = 0) -> None:
        """Runs `body(start, lanes)` for vectors that cover [first, first + count); the last vector may
        overlap the one before it.
        """
        f = self.f
        if count <= 0:
            return
        lanes = self.lanes(count)
        with f.loop(first, first + count, lanes) as loop:
            body(least(f, loop.index, first + count - lanes, needed=count % lanes != 0), lanes)

    def columns(self, column: Ssa, body: Callable[[Ssa, int], None]) -> None:
        """Runs `body(first column, lanes)` for vectors that cover each column of a strip exactly once.
        `column` is the first column of the strip; the columns that `body` gets are counted from it.
        """
        f, axis = self.f, self.axis
        lanes = self.lanes(axis.width)
        count = f.smin(f.sub(axis.inner, column), axis.width)
        whole = f.mul(f.udiv(count, lanes), lanes)
        with f.loop(0, whole, lanes) as loop:
            body(loop.index, lanes)
        if axis.width % lanes or axis.inner % axis.width:
            with f.loop(whole, count, 1) as loop:
                body(loop.index, 1)

    # -- lines in and out --------------------------------------------------------------------------------

    def read(self, outer: Ssa, column: Ssa) -> None:
        target = self.planes(0, exchanged=self.found.inverse)
        if self.axis.inner != 1:
            source = _Pairs(self.k.values, self.whole, self.array(result=False))
            self.strip(outer, column, lambda here, there, n: target.store(here, source.load(there, n)))
            return
        line, count = self.line(outer, result=False)
        if self.axis.kind == "half":
            self.read_half(line, target)
        else:
            self.run(count, lambda at, n: target.store(at, line.load(at, n)))

    def strip(self, outer: Ssa, column: Ssa, move: Callable[[Ssa, Ssa, int], None]) -> None:
        """Runs `move(position in the buffer, position in the array, lanes)` for the elements of a strip, row
        by row. The strip has the columns from `column` on, at index `outer` of the array's outer dimension.
        """
        f, axis = self.f, self.axis
        with f.loop(0, axis.length, 1) as row:
            line = f.add(f.mul(outer, axis.length), row.index)
            there = f.add(f.mul(line, axis.inner), column)
            here = f.mul(row.index, axis.width)
            self.columns(column, lambda at, n: move(f.add(here, at), f.add(there, at), n))

    def read_half(self, source: _Pairs | _Planes, target: _Planes) -> None:
        """Reads the half of a line that determines a real result. Writes a whole line if the transform has
        the full length; else a line of half the length, on which a complex transform computes the real one.
        """
        f, m, axis = self.f, self.k.values.m, self.axis
        half = axis.length // 2

        def mirrored(at: Ssa, lanes: int, end: int) -> ComplexPair:
            """The conjugates of `lanes` values, from position end - at downwards."""
            x = self.backwards(source.load(f.sub(end - lanes + 1, at), lanes))
            return x[0], -x[1]

        first = source.load(0, 1)
        if axis.ends is None:
            target.store(0, (first[0], m.number(first[0], 0.0)))
            self.run(half, lambda at, n: target.store(at, source.load(at, n)), 1)
            self.run(half, lambda at, n: target.store(at, mirrored(at, n, axis.length)), half + 1)
            return
        low, high = first[0], source.load(half, 1)[0]
        target.store(0, ((low + high) * 0.5, (low - high) * 0.5))

        def body(at: Ssa, lanes: int) -> None:
            x, y = source.load(at, lanes), mirrored(at, lanes, half)
            even, odd = plus(x, y), minus(x, y)
            w = self.factor(axis.ends, 1, at, lanes)
            odd = times(m, odd, (w[0], -w[1]))
            target.store(at, ((even[0] - odd[1]) * 0.5, (even[1] + odd[0]) * 0.5))

        self.run(half - 1, body, 1)

    def backwards(self, x: ComplexPair) -> ComplexPair:
        values = self.k.values
        if x[0].lanes == 1:
            return x
        a, b = (reverse_lanes(values, Value(self.dtype, part.lanes, (part.ssa,))) for part in x)
        return values.m.reg(a.ssa), values.m.reg(b.ssa)

    def write(self, outer: Ssa, column: Ssa, side: int) -> None:
        axis, source = self.axis, self.planes(side, exchanged=self.found.inverse)
        scale = self.found.scale if self.last else 1.0
        if axis.ends is not None and axis.kind == "half":
            scale *= 2.0  # the transform has half as many values

        def scaled(at: Ssa, lanes: int) -> ComplexPair:
            x = source.load(at, lanes)
            return (x[0] * scale, x[1] * scale) if scale != 1.0 else x

        if axis.inner != 1:
            target = _Pairs(self.k.values, self.whole, self.array(result=True))
            self.strip(outer, column, lambda here, there, n: target.store(there, scaled(here, n)))
            return
        line, count = self.line(outer, result=True)
        if axis.kind == "real" and axis.ends is not None:
            self.write_half(line, source, axis.ends)
        else:
            self.run(count, lambda at, n: line.store(at, scaled(at, n)))

    def write_half(self, target: _Pairs | _Planes, source: _Planes, ends: Stage) -> None:
        """Writes the non-redundant half of the transform of real values, from `source`, the transform of half
        as many complex values. `ends` has the factors with which the two parts of `source` are combined.
        """
        f, m, half = self.f, self.k.values.m, self.axis.length // 2
        first = source.load(0, 1)
        zero = m.number(first[0], 0.0)
        target.store(0, (first[0] + first[1], zero))
        target.store(half, (first[0] - first[1], zero))

        def body(at: Ssa, lanes: int) -> None:
            x = source.load(at, lanes)
            y = self.backwards(source.load(f.sub(half - lanes + 1, at), lanes))
            y = y[0], -y[1]
            even, odd = plus(x, y), minus(x, y)
            odd = times(m, (odd[1], -odd[0]), self.factor(ends, 1, at, lanes))
            target.store(at, ((even[0] + odd[0]) * 0.5, (even[1] + odd[1]) * 0.5))

        self.run(half - 1, body, 1)

    # -- stages ------------------------------------------------------------------------------------------

    def factor(self, stage: Stage | None, j: int, at: Ssa, lanes: int) -> ComplexPair:
        """Loads factors number `j` from a stage's table, for `lanes` values of p from `at` on."""
        assert stage is not None
        values, size = self.k.values, self.dtype.itemsize
        parts = []
        for part in range(2):
            start = self.k.scratch(stage.table + ((j - 1) * 2 + part) * stage.count * size)
            value = values.load(self.dtype, element_address(values.f, start, self.dtype, at), lanes, True)
            parts.append(values.m.reg(value.ssa))
        return parts[0], parts[1]

    def stage(self, stage: Stage, side: int, *, last: bool) -> None:
        f = self.f
        source, target = self.planes(side), self.planes(1 - side)
        if stage.stride == 1 and stage.count > 1:
            self.run(stage.count, lambda p, lanes: self.together(stage, source, target, p, lanes))
            return
        with f.loop(0, stage.count, 1) as loop:
            p = loop.index
            begin = f.mul(p, stage.stride)
            result = f.mul(p, stage.stride * stage.radix)
            w = [] if last else [self.factor(stage, j, p, 1) for j in range(1, stage.radix)]
            step = stage.count * stage.stride

            def body(q: Ssa, lanes: int) -> None:
                x = [source.load(f.add(f.add(begin, q), step * k), lanes) for k in range(stage.radix)]
                y = self.products(butterfly(self.k.values.m, x), w)
                for j, value in enumerate(y):
                    target.store(f.add(f.add(result, q), stage.stride * j), value)

            self.run(stage.stride, body)

    def products(self, y: list[ComplexPair], w: Sequence[ComplexPair]) -> list[ComplexPair]:
        m = self.k.values.m
        return [y[0], *(times(m, v, f) for v, f in zip(y[1:], w, strict=True))] if w else y

    def together(self, stage: Stage, source: _Planes, target: _Planes, p: Ssa, lanes: int) -> None:
        """Writes the first stage of a single line, for `lanes` consecutive values of p in the lanes of a
        vector. The results are interleaved, so that those of each p are adjacent in `target`.
        """
        f = self.f
        x = [source.load(f.add(p, stage.count * k), lanes) for k in range(stage.radix)]
        w = [self.factor(stage, j, p, lanes) for j in range(1, stage.radix)]
        y = self.products(butterfly(self.k.values.m, x), w)
        begin = f.mul(p, stage.radix)
        values = self.k.values
        for part in range(2):
            columns = [Value(self.dtype, lanes, (v[part].ssa,)) for v in y]
            for number, piece in enumerate(self.interleaved(columns)):
                at = f.add(begin, number * piece.lanes)
                values.store(piece, element_address(values.f, target.parts[part], self.dtype, at))

    def interleaved(self, columns: list[Value]) -> list[Value]:
        """Interleaves columns: lane 0 of all columns, then lane 1...; returns as many values as there are
        columns.
        """
        values, radix, lanes = self.k.values, len(columns), columns[0].lanes
        if lanes == 1:
            return columns
        if radix == 2:
            a, b = columns
            order = [k // 2 + lanes * (k % 2) for k in range(2 * lanes)]
            return [values.shuffle(a, b, order[:lanes]), values.shuffle(a, b, order[lanes:])]
        if radix == 4:
            even, odd = self.interleaved(columns[0::2]), self.interleaved(columns[1::2])
            return [v for pair in zip(even, odd, strict=True) for v in self.interleaved(list(pair))]
        found = []
        for number in range(radix):
            wanted = [divmod(number * lanes + k, radix) for k in range(lanes)]  # (lane, column)
            piece = columns[wanted[0][1]]
            for column in range(radix):
                order = [lane if which == column else -1 for lane, which in wanted]
                turned = values.shuffle(columns[column], columns[column], order)
                mask = [k + lanes if which == column else k for k, (_, which) in enumerate(wanted)]
                piece = values.shuffle(piece, turned, mask) if column else turned
            found.append(piece)
        return found
