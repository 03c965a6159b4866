"""The instructions of a kernel, and the indices at which each value is read, seen from the kernel's roots.

A *key* is a number that stands for the index at which a value is evaluated. Values evaluated at the same
index share a key; a value with two keys is computed twice. The kinds of keys:

    lin(n)     element i of a value of n elements, i the linear index in a space of n elements that all roots
               of that size share. Row values have lin(rows), full values lin(rows * columns), values of one
               element lin(1).
    special    the index space of a hero's operand, e.g. ("mid", o, r, i)
    via        derived from another key through an op that moves elements (slice, gather, ...)

`count` is the number of evaluations under a key. The code generator hoists what does not vary in the inner
loop, so lin(n) counts n.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import prod

import axla.hlo as hlo
from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape
from axla.ir.graph import Computation, Instruction
from axla.ir.traverse import post_order
from axla.kernels.geometry import collapsed_transpose, is_leading_broadcast, reduce_geometry, row_space


def elements(shape: AnyShape) -> int:
    """The number of elements of an array, or of the first array of a tuple; 0 if there is none."""
    return shape.size if isinstance(shape, Shape) else next((leaf.size for leaf in shape.arrays()), 0)


def chased(inst: Instruction) -> Instruction:
    """The array of which an instruction is a reshape or bitcast, through any number of them; else the
    instruction itself.
    """
    while isinstance(inst.op, hlo.Reshape | hlo.Bitcast):
        inst = inst.operands[0]
    return inst


class AccessKeys:
    """Assigns numbers to keys. Kernels of a computation that are compared with each other share one object.

    `row_in_lane` is the limit of that name: the longest row that one lane computes as a whole. Elements of
    such rows, and reductions of them, are computed once.
    """

    def __init__(self, row_in_lane: int = 0) -> None:
        self.row_in_lane = row_in_lane
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
        """The key `lin(n)`: the linear index in a space of n elements."""
        key = self._key(n, n)
        self.linear[key] = n
        return key

    def special(self, what: tuple, count: int) -> int:
        """The key of the index space of a hero's operand, which has `count` elements. `what` names the space
        and the index, as in ("mid", o, r, i).
        """
        return self._key(what, count)

    def via(self, user: Instruction, number: int, parent: int, count: int) -> int:
        """The key under which `user`, evaluated `count` times under `parent`, reads operand `number`."""
        return self._key((user.id, number, parent), count)

    def root(self, inst: Instruction) -> int:
        """The key under which a kernel evaluates its root `inst`: `lin` of its number of elements."""
        return self.lin(elements(inst.shape))

    def of_operand(self, user: Instruction, number: int, key: int) -> int:
        """The key under which `user`, which is evaluated under `key`, reads operand `number`."""
        operand = user.operands[number]
        shape = operand.shape
        if not isinstance(shape, Shape):  # a tuple, read by a get-tuple-element
            return key
        op = user.op
        if shape.size == 1:
            return self.lin(1)
        cls = type(op)
        if op.elementwise or cls is hlo.Map:
            same = shape.dims == user.shape.dims
            return key if same else self.via(user, number, key, self.count[key])
        if (op.keeps_order or cls is hlo.GetTupleElement) and shape.size == elements(user.shape):
            return key
        if cls is hlo.Broadcast:
            return self._of_broadcast(user, shape, key)
        if cls is hlo.Transpose and len(collapsed_transpose(user)[0]) == 1:
            return key
        if cls in (hlo.Reduce, hlo.Concatenate) and self._by_rows(user, key):
            return self.lin(shape.size)
        return self.via(user, number, key, self.count[key] * _repeats(user, number))

    def _by_rows(self, user: Instruction, key: int) -> bool:
        """Whether a reduce or concatenation is evaluated per row, with rows that one lane computes as a
        whole.
        """
        linear = self.linear.get(key) == elements(user.shape)
        return linear and 0 < row_space(user)[1] <= self.row_in_lane

    def _of_broadcast(self, user: Instruction, source: Shape, key: int) -> int:
        leading = is_leading_broadcast(user)
        if leading and source.size == elements(user.shape):
            return key
        if leading and self.linear.get(key) == elements(user.shape):
            return self.lin(source.size)
        return self.via(user, 0, key, self.count[key])

    def of_operands(self, user: Instruction, keys: Iterable[int]) -> list[dict[int, None]]:
        """For each operand, the keys under which `user` reads it, where `user` is evaluated under each of
        `keys`.
        """
        return [dict.fromkeys(self.of_operand(user, n, k) for k in keys) for n in range(len(user.operands))]


def _repeats(user: Instruction, number: int) -> int:
    """The number of elements of operand `number` that one element of `user` needs."""
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


# -- kernels --

Keys = dict[int, None]
"""The keys under which a value is read, as an ordered set."""
OperandKeys = Callable[[AccessKeys, Instruction], list[int]]
"""Returns the keys under which a hero, evaluated once in the index space of the roots, reads its operands."""


@dataclass(frozen=True, slots=True)
class KernelBody:
    """The instructions of a kernel: `order` holds them operands first, without parameters and the root tuple;
    `roots` are those whose values the kernel writes.
    """

    order: tuple[Instruction, ...]
    roots: tuple[Instruction, ...]

    @property
    def uniform(self) -> bool:
        """Whether all roots have the same number of elements."""
        size = elements(self.roots[0].shape)
        return all(elements(r.shape) == size for r in self.roots)


def kernel_body(kernel: Instruction | Computation) -> KernelBody:
    """The body of a fused computation, of a fusion, or of a single instruction that is a kernel by itself."""
    if isinstance(kernel, Instruction):
        if not isinstance(kernel.op, hlo.Fusion):
            return KernelBody((kernel,), (kernel,))
        kernel = kernel.op.calls
    root, roots = kernel.root, kernel_roots(kernel)
    steps = (i for i in post_order(kernel) if not isinstance(i.op, hlo.Parameter))
    return KernelBody(tuple(i for i in steps if i is not root or roots == (root,)), roots)


def kernel_roots(computation: Computation) -> tuple[Instruction, ...]:
    """The instructions whose values a kernel writes: its root, or the operands of a root tuple."""
    root = computation.root
    return root.operands if isinstance(root.op, hlo.Tuple) else (root,)


def root_shape(root: Instruction) -> Shape:
    """The shape of a root; for a root with several results, which have the same dims, the shape of the
    first.
    """
    return next(root.shape.arrays())


def hero_keys(keys: AccessKeys, hero: Instruction, mine: Iterable[int], of: OperandKeys) -> list[int] | None:
    """The keys under which a hero reads its operands, from the function `of` of its kind; None unless the
    hero has one key (`mine`), that of a root.
    """
    return of(keys, hero) if list(mine) == [keys.root(hero)] else None


def own_keys(keys: AccessKeys, hero: Instruction) -> list[int]:
    """One key for each operand, for operands that are each read in an index space of their own."""
    return [keys.special(("operand", hero.id, n), elements(o.shape)) for n, o in enumerate(hero.operands)]


@dataclass(frozen=True, slots=True)
class Accesses:
    """The keys of every instruction, parameters included, that the roots of a kernel need."""

    keys: AccessKeys
    of: dict[Instruction, Keys]
    heroes: tuple[Instruction, ...]  # operands first


MOST_PLACES = 10_000
"""The highest number of (instruction, key) pairs in a kernel; each is emitted. Fusion stays below 400."""


def accesses(body: KernelBody, heroes: Sequence[Instruction] = (), of: OperandKeys = own_keys) -> Accesses:
    """Finds the keys of all values of a kernel, from the roots down. `of` returns the keys of the operands of
    the `heroes`. A hero that is read in another space than that of a root counts as an ordinary op.
    """
    keys = AccessKeys()
    found_keys: dict[Instruction, Keys] = {}
    candidates = set(heroes)
    found: list[Instruction] = []
    left = MOST_PLACES
    for root in body.roots:
        found_keys.setdefault(root, {})[keys.root(root)] = None
    for inst in reversed(body.order):
        mine = found_keys.get(inst)
        if mine is None:
            continue  # dead
        left -= len(mine)
        if left < 0:
            raise UnsupportedError(f"{inst!r}: its kernel would have more than {MOST_PLACES} places")
        special = hero_keys(keys, inst, mine, of) if inst in candidates else None
        if special is not None:
            found.append(inst)
            read = [{k: None} for k in special]
        else:
            read = keys.of_operands(inst, mine)
        for operand, its in zip(inst.operands, read, strict=True):
            found_keys.setdefault(operand, {}).update(its)
    return Accesses(keys, found_keys, tuple(reversed(found)))
