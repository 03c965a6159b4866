"""Arrays in memory as kernels access them: a pointer, a shape, and the address computation for an index."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from axla.codegen.function import LlvmFunction, Ssa
from axla.codegen.index import AnyIndex, Index, linear
from axla.codegen.value import Value, Values
from axla.core.dtypes import BF16, DType

SHORT_STRIDE = 4
"""Where neighbouring lanes are at most so many elements apart, whole vectors are loaded and lanes selected
from them; where they are further apart, elements are gathered.
"""

SHORT_ROW = 8
"""The largest row length for which a column of a matrix is loaded by selecting lanes of whole vectors: loads
of the other columns share these vectors.
"""


class DenseArray:
    """A dense row-major array at `pointer`. `readonly`: nothing writes to it while the function runs.
    `align`: a number of bytes that divides its address, if more is known than the alignment of an element.
    """

    __slots__ = ("values", "pointer", "dtype", "dims", "readonly", "align")

    def __init__(
        self, values: Values, pointer: Ssa, dtype: DType, dims: Sequence[int], *, readonly: bool = True,
        align: int = 1,
    ):  # fmt: skip
        self.align = align
        self.values = values
        self.pointer = pointer
        self.dtype = dtype
        self.dims = tuple(dims)
        self.readonly = readonly

    def _offset(self, index: Sequence[AnyIndex]) -> Index:
        found = linear(index, self.dims)
        return Index(self.values.f, self.values.f.index(found)) if isinstance(found, int) else found

    def load(self, index: Sequence[AnyIndex], lanes: int) -> Value:
        """Loads the elements at an index: a single value where the index is the same for all lanes, else one
        per lane.
        """
        offset = self._offset(index)
        values, count = self.values, offset.lanes
        if offset.vec is not None:
            return values.gather(self.dtype, self.pointer, offset.vec, self.readonly)
        if offset.stride in (0, 1):
            align = self._alignment(offset)
            return values.load(self.dtype, self._address(offset), count, self.readonly, align=align)
        if offset.stride == -1:
            address = self._address(offset, 1 - count)
            return reverse_lanes(values, values.load(self.dtype, address, count, self.readonly))
        if count >= 4 and self._in_pairs(offset):
            bits = values.m.reg(
                values.f.load(f"<{count} x i32>", self._pairs(offset), 2, readonly=self.readonly)
            )
            return Value(BF16, count, (((bits & -65536) if offset.offset % 2 else bits << 16).floats().ssa,))
        column = index[-1]
        if count >= 4 and isinstance(column, int) and offset.stride == self.dims[-1] <= SHORT_ROW:
            return self._every(offset, column)
        if count >= 4 and 1 < offset.stride <= SHORT_STRIDE:
            return self._every(offset, None)
        return values.gather(self.dtype, self.pointer, offset.vector(count), self.readonly)

    def _in_pairs(self, offset: Index) -> bool:
        """Whether the lanes are the lower halves (even offset) or upper halves (odd offset) of 32-bit words
        that all lie within the array.
        """
        if self.dtype is not BF16 or offset.stride != 2 or self.values.f.module.byte_order != "little":
            return False
        if offset.offset % 2:
            return offset.offset > 0  # else the word of element 0 begins before the array
        return offset.divisor % 2 == 0 and prod(self.dims) % 2 == 0

    def _pairs(self, offset: Index) -> Ssa:
        """The address of the 32-bit word that contains the element of the first lane."""
        return self._address(offset, -(offset.offset % 2))

    def store_pairs(self, index: Sequence[AnyIndex], even: Value, odd: Value) -> None:
        """Stores the bf16 values of `even` and `odd` alternately; `index` is that of the first `even` one."""
        low, high = (self.values.m.reg(value.ssa).bits() for value in (even, odd))
        words = low.lshr(16) | (high & -65536)
        self.values.f.store(words.ssa, self._pairs(self._offset(index)), 2)

    def _every(self, offset: Index, column: int | None) -> Value:
        """Loads elements with a stride by selecting lanes of whole vectors. These end at the last element or,
        if the elements are column `column` of a matrix, at the end of the last element's row.
        """
        values, lanes, stride = self.values, offset.lanes, offset.stride
        chosen = [lane * stride for lane in range(lanes)]  # offsets from the first element
        if column is None:
            starts = [min(part * lanes, chosen[-1] + 1 - lanes) for part in range(stride)]
        else:
            starts = [part * lanes - column for part in range(stride)]
        found: Value | None = None
        for start in starts:
            piece = values.load(self.dtype, self._address(offset, start), lanes, self.readonly)
            inside = [place - start if start <= place < start + lanes else None for place in chosen]
            if found is None:
                found = values.shuffle(piece, piece, [0 if p is None else p for p in inside])
            else:
                order = [lane if p is None else lanes + p for lane, p in enumerate(inside)]
                found = values.shuffle(found, piece, order)
        assert found is not None
        return found

    def store(self, index: Sequence[AnyIndex], value: Value, *, nontemporal: bool = False) -> None:
        """Writes a value: contiguous lanes as one vector, others lane by lane (in lane order). `nontemporal`
        bypasses the caches.
        """
        values, f = self.values, self.values.f
        offset = self._offset(index)
        if offset.vec is None and offset.stride == 1:
            wide = values.splat(value, offset.lanes)
            align = self._alignment(offset)
            values.store(wide, self._address(offset), nontemporal=nontemporal, align=align)
        elif offset.uniform:
            values.store(value, self._address(offset))
        else:
            positions = offset.vector(offset.lanes)
            for lane in range(offset.lanes):
                one = values.lane(value, lane) if value.lanes > 1 else value
                place = Index(f, f.extract(positions, lane))
                values.store(one, self._address(place))

    def store_rows(self, index: Sequence[AnyIndex], columns: Sequence[Value]) -> None:
        """Stores a whole row for each lane of `columns`; `index` is that of the first column."""
        offset, count, lanes = self._offset(index), len(columns), columns[0].lanes
        if lanes > 1 and (offset.vec is not None or offset.stride != count):  # the rows are not contiguous
            for number, column in enumerate(columns):
                self.store((*index[:-1], index[-1] + number), column)
            return
        for first in range(0, count * lanes, lanes):
            places = [divmod(place, count) for place in range(first, first + lanes)]
            here, *others = dict.fromkeys(column for _, column in places)
            found = columns[here]
            if lanes > 1:
                found = self.values.shuffle(found, found, [row for row, _ in places])
            for other in others:
                order = [lanes + row if at == other else lane for lane, (row, at) in enumerate(places)]
                found = self.values.shuffle(found, columns[other], order)
            self.values.store(found, self._address(offset, first))

    def _alignment(self, offset: Index) -> int:
        """A number of bytes that divides the address of the first lane."""
        return max(gcd(self.align, self.dtype.itemsize * offset.divisor), self.dtype.real.itemsize)

    def _address(self, index: Index, further: int = 0) -> Ssa:
        """The address of the element that is `further` elements after the element of the first lane."""
        f, offset = self.values.f, index.offset + further
        if not offset:
            return element_address(f, self.pointer, self.dtype, index.origin)
        base = element_address(f, self.pointer, self.dtype, index.origin, inbounds=False)
        step = f.const(index.origin.type, offset)
        return element_address(f, base, self.dtype, step, inbounds=False)


def element_address(
    f: LlvmFunction, pointer: Ssa, dtype: DType, offset: Ssa | int, *, inbounds: bool = True
) -> Ssa:  # fmt: skip
    """The address of element `offset` of an array of `dtype` at `pointer`; without `inbounds` the element may
    be outside the array.
    """
    element = f"[{dtype.itemsize} x i8]" if dtype.itemsize > 1 else "i8"
    return f.gep(element, pointer, offset, inbounds=inbounds)


def reverse_lanes(values: Values, value: Value) -> Value:
    """The lanes of `value` in reverse order."""
    return values.shuffle(value, value, range(value.lanes - 1, -1, -1))
