"""Where in a kernel each value is read, as seen from the kernel's roots.

A *key* stands for "the index at which a value is evaluated", as one number. Values that are evaluated at the
same place share a key; a value with two keys is computed twice. The keys with a meaning:

    lin(n)     element i of a value of n elements, i the linear index in a space of n elements that all roots
    of that size
               share. Row values have lin(rows), full values lin(rows * columns), anything of one element
               lin(1).
    special    the index space of a hero's operand, e.g. ("mid", o, r, i)
    via        derived from another key through an op that moves elements (slice, gather, ...)

`count` says how often the value is evaluated under a key. The code generator hoists what does not vary in the
inner loop, so lin(n) counts n.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import prod

import axla.hlo as hlo
from axla.analysis.geometry import collapsed_transpose, is_leading_broadcast, reduce_geometry
from axla.core.shape import AnyShape, Shape
from axla.ir.graph import Instruction


def elements(shape: AnyShape) -> int:
    """The number of elements of an array, or of the first array of a tuple."""
    if isinstance(shape, Shape):
        return shape.size
    for leaf in shape.leaves():
        if isinstance(leaf, Shape):
            return leaf.size
    return 0


class AccessKeys:
    """Numbers keys. One object serves all kernels of a computation that are to be compared."""

    def __init__(self) -> None:
        self.count: list[int] = []
        self.linear: dict[int, int] = {}  # key -> n, for lin(n)
        self._numbers: dict[Hashable, int] = {}

    def _key(self, what: Hashable, count: int) -> int:
        number = self._numbers.get(what)
        if number is None:
            number = self._numbers[what] = len(self.count)
            self.count.append(count)
        return number

    def lin(self, n: int) -> int:
        key = self._key(n, n)
        self.linear[key] = n
        return key

    def special(self, what: tuple, count: int) -> int:
        return self._key(what, count)

    def via(self, user: Instruction, number: int, parent: int, count: int) -> int:
        return self._key((user.id, number, parent), count)

    def root(self, inst: Instruction) -> int:
        """The key of a root of a kernel."""
        return self.lin(elements(inst.shape))

    def of_operand(self, user: Instruction, number: int, key: int) -> int:
        """The key under which `user`, itself evaluated under `key`, reads its operand `number`."""
        operand = user.operands[number]
        shape = operand.shape
        if not isinstance(shape, Shape):  # the tuple under a get-tuple-element
            return key
        op = user.op
        if shape.size == 1:
            return self.lin(1)
        cls = type(op)
        if op.elementwise or cls is hlo.Map:
            same = shape.dims == user.shape.dims
            return key if same else self.via(user, number, key, self.count[key])
        if cls in _SAME_ELEMENT and shape.size == elements(user.shape):
            return key
        if cls is hlo.Broadcast:
            return self._of_broadcast(user, shape, key)
        if cls is hlo.Transpose and len(collapsed_transpose(user)[0]) == 1:
            return key
        return self.via(user, number, key, self.count[key] * _repeats(user, number))

    def _of_broadcast(self, user: Instruction, source: Shape, key: int) -> int:
        leading = is_leading_broadcast(user)
        if leading and source.size == elements(user.shape):
            return key
        if leading and self.linear.get(key) == elements(user.shape):
            return self.lin(source.size)
        return self.via(user, 0, key, self.count[key])

    def of_operands(self, user: Instruction, keys: Iterable[int]) -> list[dict[int, None]]:
        """The keys under which `user` reads each operand."""
        return [dict.fromkeys(self.of_operand(user, n, k) for k in keys) for n in range(len(user.operands))]


_SAME_ELEMENT = {hlo.Reshape, hlo.Bitcast, hlo.BitcastConvert, hlo.Copy, hlo.GetTupleElement}


def _repeats(user: Instruction, number: int) -> int:
    """How many elements of operand `number` one element of `user` needs."""
    op = user.op
    if isinstance(op, hlo.Reduce):
        geometry = reduce_geometry(user)
        if geometry is not None:
            return max(1, geometry.reduced)
        return max(1, elements(user.operands[0].shape) // max(1, elements(user.shape)))
    if isinstance(op, hlo.Dot):
        dims = (op.lhs_contracting_dims, op.rhs_contracting_dims)[number] if number < 2 else ()
        repeats = 1
        for d in dims:
            repeats *= user.operands[number].shape.dims[d]
        return repeats
    if isinstance(op, hlo.ReduceWindow) and number < len(user.operands) // 2:
        return prod(op.window.size)
    return 1
