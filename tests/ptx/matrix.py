"""Instructions of tensor cores, and those that bring matrices to them: mma.sync, ldmatrix, cp.async.

Fragments are as the PTX manual has them: of an operand with p elements in a register, thread t of the four of
row g (or column g) of each block of 8 holds p neighbours in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from ptx.code import WARP, Block, Code, Group, names_in
from ptx.floats import BF16, F16, F32, F64
from ptx.instructions import TYPES
from ptx.operands import address_of, reader, writer
from ptx.text import Instruction, PtxError

_MMA = re.compile(
    r"mma\.sync\.aligned\.m(\d+)n8k(\d+)\.row\.col\.(f32|f16|f64|s32)\.(\w+)\.(\w+)\.(f32|f16|f64|s32)"
)
_LDMATRIX = re.compile(r"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(?:::cta)?\.b16")
_COPY = re.compile(r"cp\.async\.(?:ca|cg)\.shared(?:::cta)?\.global(?:\.L2::\w+)?")
_COMMIT, _WAIT = re.compile(r"cp\.async\.commit_group"), re.compile(r"cp\.async\.wait_(group|all)")
_ELEMENTS = {
    "f16": F16, "bf16": BF16, "tf32": F32, "f64": F64, "s8": np.dtype("i1"), "u8": np.dtype("u1"),
}  # fmt: skip
_TF32 = np.uint32(0xFFFFE000)
Step = Callable[[Group], None]


def _whole_warps(group: Group) -> np.ndarray:
    """The numbers of the threads, a row for each warp."""
    run, numbers = group.run, group.numbers()
    if run.threads % WARP or len(numbers) % WARP:
        raise PtxError("tensor cores work with whole warps")
    return numbers.reshape(-1, WARP)


def _mma(
    code: Code, block: Block, one: Instruction, m: str, k: str, to: str, left: str, right: str, add: str
) -> Step:
    """D = A B + C by a warp, A of m x k, B of k x 8. Sums are of doubles, and rounded once."""
    if left != right or to != add or left not in _ELEMENTS:
        raise PtxError(f"an unknown instruction: {one}")
    kind, total = _ELEMENTS[left], np.dtype("i4") if to == "s32" else TYPES[to]
    wide = np.dtype("i8") if to == "s32" else F64
    word = np.dtype(f"u{max(4, kind.itemsize)}")
    packed = word.itemsize // kind.itemsize
    rows, inner = int(m), int(k)
    lists = [names_in(words) for words in one.operands]
    inputs = [[reader(code, block, name, word) for name in names] for names in lists[1:3]]
    per = max(1, 4 // total.itemsize)
    sum_word = np.dtype(f"u{per * total.itemsize}")
    sums = [reader(code, block, name, sum_word) for name in lists[3]]
    puts = [writer(block, name, sum_word) for name in lists[0]]
    wanted = (rows * inner // WARP // packed, 8 * inner // WARP // packed, rows * 8 // WARP // per)
    if tuple(map(len, lists[1:])) != wanted or len(puts) != len(sums):
        raise PtxError(f"{one}: wanted {wanted} registers")
    lane = np.arange(WARP)
    quarter, place = lane >> 2, lane & 3
    tall = rows // 8  # blocks of 8 rows

    cells = [n * per + j for n in range(len(sums)) for j in range(per)]
    places = [(quarter + 8 * (cell // 2), place * 2 + cell % 2) for cell in cells]

    def elements(read: Callable[[Group], np.ndarray], group: Group, kind: np.dtype) -> np.ndarray:
        """A register of every thread as its elements: warps, lanes, elements."""
        value = np.broadcast_to(read(group), (group.count,))
        return np.ascontiguousarray(value).view(kind).reshape(-1, WARP, value.dtype.itemsize // kind.itemsize)

    def shortened(found: np.ndarray) -> np.ndarray:
        return (found.view(np.uint32) & _TF32).view(F32) if left == "tf32" else found

    def multiply(group: Group) -> None:
        warps = len(_whole_warps(group))
        a, b = np.zeros((warps, rows, inner), wide), np.zeros((warps, inner, 8), wide)
        c = np.zeros((warps, rows, 8), wide)
        for number, read in enumerate(inputs[0]):
            found = shortened(elements(read, group, kind))
            for j in range(packed):
                column = place * packed + number // tall * 4 * packed + j
                a[:, quarter + 8 * (number % tall), column] = found[:, :, j]
        for number, read in enumerate(inputs[1]):
            found = shortened(elements(read, group, kind))
            for j in range(packed):
                b[:, place * packed + number * 4 * packed + j, quarter] = found[:, :, j]
        for n, read in enumerate(sums):
            found = elements(read, group, total)
            for j in range(per):
                c[:, places[n * per + j][0], places[n * per + j][1]] = found[:, :, j]
        made = (a @ b + c).astype(total)
        for n, put in enumerate(puts):
            parts = [made[:, places[n * per + j][0], places[n * per + j][1]] for j in range(per)]
            put(group, np.ascontiguousarray(np.stack(parts, -1)).view(sum_word).reshape(-1))

    return multiply


def _ldmatrix(code: Code, block: Block, one: Instruction, count: str, turned: str | None) -> Step:
    """Matrices of 8 x 8 halves, whose rows begin at the addresses of 8 threads each, as fragments."""
    names = names_in(one.operands[0])
    puts = [writer(block, name, TYPES["b32"]) for name in names]
    base, offset, _ = address_of(code, block, one.operands[1])
    if len(puts) != int(count):
        raise PtxError(f"{one}: wanted {count} registers")
    lane = np.arange(WARP)

    def load(group: Group) -> None:
        run, warps = group.run, _whole_warps(group)
        address = np.broadcast_to(np.asarray(base(group), np.uint64), (group.count,)) + np.uint64(offset)
        used = np.tile(lane < 8 * int(count), len(warps))
        numbers = group.numbers()[used]
        index = run.memory.place("shared", address[used], 16, 16, run.place[numbers], numbers)
        rows = np.stack([run.memory.load(index + 2 * n, 2) for n in range(8)], -1).reshape(
            len(warps), -1, 8, 8
        )
        for number, put in enumerate(puts):
            matrix = rows[:, number].swapaxes(1, 2) if turned else rows[:, number]
            pairs = np.ascontiguousarray(matrix).view(np.uint32)  # warps, 8 rows, 4 pairs
            put(group, pairs[:, lane >> 2, lane & 3].reshape(-1))

    return load


class Copies:
    """Copies from global to shared memory that are under way: they are done when their thread waits for them,
    and not before.
    """

    def __init__(self, threads: int) -> None:
        self.groups = np.zeros(threads, np.int64)  # that each thread has committed
        self.pending: list[tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]] = []

    def begin(self, numbers: np.ndarray, index: np.ndarray, words: list[np.ndarray]) -> None:
        self.pending.append((numbers, self.groups[numbers].copy(), index, words))

    def wait(self, group: Group, left: int | None) -> None:
        """Does the copies of a group's threads but for the last `left` groups of copies, or all."""
        waits = np.zeros(len(self.groups), bool)
        waits[group.numbers()] = True
        kept = []
        for numbers, made, index, words in self.pending:
            due = waits[numbers] & ((made < self.groups[numbers] - left) if left is not None else True)
            for n, word in enumerate(words):
                group.run.memory.store(index[due] + 4 * n, word[due])
            if not due.all():
                kept.append((numbers[~due], made[~due], index[~due], [word[~due] for word in words]))
        self.pending = kept


def _copy(code: Code, block: Block, one: Instruction) -> Step:
    """cp.async of 4, 8 or 16 bytes; those beyond the size of the source are zeros."""
    target, target_offset, _ = address_of(code, block, one.operands[0])
    source, source_offset, _ = address_of(code, block, one.operands[1])
    size = int(one.operands[2], 0)
    given = reader(code, block, one.operands[3], TYPES["u32"]) if len(one.operands) > 3 else None

    def copy(group: Group) -> None:
        run, numbers = group.run, group.numbers()

        def place(
            space: str, base: Callable[[Group], np.ndarray], offset: int, chosen: np.ndarray
        ) -> np.ndarray:
            address = np.broadcast_to(np.asarray(base(group), np.uint64), (group.count,)) + np.uint64(offset)
            return run.memory.place(
                space, address[chosen], size, size, run.place[numbers[chosen]], numbers[chosen]
            )

        most = np.broadcast_to(size if given is None else given(group), (group.count,))
        words = [np.zeros(group.count, np.uint32) for _ in range(size // 4)]
        some = most > 0
        index = place("global", source, source_offset, some)
        for n, word in enumerate(words):
            inside = most[some] >= 4 * n + 4
            word[np.flatnonzero(some)[inside]] = run.memory.load(index[inside] + 4 * n, 4)
        everyone = np.ones(group.count, bool)
        run.copies.begin(numbers, place("shared", target, target_offset, everyone), words)

    return copy


def _commit(code: Code, block: Block, one: Instruction) -> Step:
    def commit(group: Group) -> None:
        group.run.copies.groups[group.numbers()] += 1

    return commit


def _wait(code: Code, block: Block, one: Instruction, what: str) -> Step:
    left = None if what == "all" else int(one.operands[0], 0)
    return lambda group: group.run.copies.wait(group, left)


STEPS: Sequence[tuple[re.Pattern[str], Callable[..., Step]]] = (
    (_MMA, _mma), (_LDMATRIX, _ldmatrix), (_COPY, _copy), (_COMMIT, _commit), (_WAIT, _wait),
)  # fmt: skip
