"""Executes instructions for a group of threads: functions that read operands, compute, and write results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptx import matrix
from ptx.code import SHUFFLE, WARP, Block, Code, Group, names_in
from ptx.instructions import TYPES, Meaning, meaning
from ptx.memory import LOCAL, SHARED
from ptx.operands import address_of, reader, writer
from ptx.text import Instruction, PtxError

_ACCESS = re.compile(
    r"(ld|st)(?:\.(?:volatile|weak|relaxed\.\w+|acquire\.\w+|release\.\w+))?(?:\.(global|shared|local|param|const))?"
    r"(?:::\w+)?(\.nc)?(?:\.(?:ca|cg|cs|lu|cv|wb|wt|L\d\S*?))*(?:\.v([248]))?\.([bsuf]\d+)"
)
_ATOMIC = re.compile(
    r"(atom|red)(?:\.(?:relaxed|acquire|release|acq_rel))?(?:\.(?:gpu|cta|sys))?(?:\.(global|shared))?"
    r"\.(add|min|max|and|or|xor|exch|cas|inc|dec)(?:\.noftz)?\.(\w+)"
)
_NOTHING = re.compile(r"membar\.\w+|fence\.\S+|griddepcontrol\.\w+|prefetch\S*|discard\S*|nanosleep\.u32")
Step = Callable[[Group], None]


def step_of(code: Code, block: Block, one: Instruction) -> Step:
    """A function that executes an instruction for a group of threads."""
    for pattern, make in _STEPS:
        found = pattern.fullmatch(one.opcode)
        if found is not None:
            return make(code, block, one, *found.groups())
    if one.opcode.startswith("mov.") and "{" in one.operands[0] + one.operands[1]:
        return _split_or_join(code, block, one)
    known = meaning(one.opcode)
    if known is None:
        raise PtxError(f"an unknown instruction: {one}")
    return _compute(code, block, one, known)


def _compute(code: Code, block: Block, one: Instruction, known: Meaning) -> Step:
    """A step without any memory: results from operands."""
    words = one.operands[len(known.results) :]
    operands = [reader(code, block, w, dtype) for w, dtype in zip(words, known.operands, strict=True)]
    put = writer(block, one.operands[0], known.results[0])
    compute = known.compute
    if len(operands) == 1:
        (operand,) = operands
        return lambda group: put(group, compute(operand(group)))
    if len(operands) == 2:
        first, second = operands
        return lambda group: put(group, compute(first(group), second(group)))
    return lambda group: put(group, compute(*[operand(group) for operand in operands]))


def _split_or_join(code: Code, block: Block, one: Instruction) -> Step:
    """mov of a register to several smaller ones, or of these to it."""
    whole = TYPES[one.opcode.split(".")[1]]
    if one.operands[0].startswith("{"):
        names = names_in(one.operands[0])
        part = np.dtype(f"u{whole.itemsize // len(names)}")
        puts = [writer(block, name, part) for name in names]
        source = reader(code, block, one.operands[1], whole)

        def split(group: Group) -> None:
            value = np.broadcast_to(source(group), (group.count,))
            for number, put in enumerate(puts):
                put(group, (value >> whole.type(8 * part.itemsize * number)).astype(part))

        return split
    names = names_in(one.operands[1])
    part = np.dtype(f"u{whole.itemsize // len(names)}")
    sources = [reader(code, block, name, part) for name in names]
    put = writer(block, one.operands[0], whole)

    def join(group: Group) -> None:
        value = whole.type(0)
        for number, source in enumerate(sources):
            value = value | np.asarray(source(group)).astype(whole) << whole.type(8 * part.itemsize * number)
        put(group, value)

    return join


def _access(
    code: Code,
    block: Block,
    one: Instruction,
    kind: str,
    space: str | None,
    nc: str | None,
    vector: str | None,
    word: str,
) -> Step:
    """ld and st."""
    dtype, count = TYPES[word], int(vector or 1)
    number = 1 if kind == "ld" else 0
    base, offset, name = address_of(code, block, one.operands[number])
    names = names_in(one.operands[1 - number])
    if space == "param":
        return _parameter(code, block, kind, name, offset, dtype, names)
    if name:
        raise PtxError(f"{name} is not known")
    size = dtype.itemsize

    def indices(group: Group) -> np.ndarray:
        address = np.broadcast_to(np.asarray(base(group), np.uint64), (group.count,))
        address = address + np.uint64(offset % (1 << 64))
        run = group.run
        index = run.memory.place(
            space or "generic", address, size * count, size * count, group.of(run.place), group.numbers()
        )
        if run.memory.traffic is not None:
            run.memory.traffic.access(kind, index, size * count, group.of(run.warp))
        return index

    if kind == "ld" and space == "global":
        block.loaded += size * count
    if kind == "ld":
        puts = [writer(block, one_name, dtype) for one_name in names]

        def load(group: Group) -> None:
            index = indices(group)
            memory = group.run.memory
            if nc:
                memory.mark(index, size * count, write=False)
            for n, put in enumerate(puts):
                put(group, memory.load(index + n * size, size).view(dtype))

        return load
    sources = [reader(code, block, one_name, dtype) for one_name in names]

    def store(group: Group) -> None:
        index = indices(group)
        memory = group.run.memory
        memory.mark(index, size * count, write=True)
        for n, source in enumerate(sources):
            value = np.broadcast_to(source(group), (group.count,))
            memory.store(index + n * size, value.view(f"u{size}") if value.dtype != bool else value)

    return store


def _parameter(
    code: Code, block: Block, kind: str, name: str, offset: int, dtype: np.dtype, names: list[str]
) -> Step:
    """ld and st of parameters: those of the kernel are the same for all threads."""
    size, key = dtype.itemsize, f"{block.function.name}:{name}"
    if kind == "ld":
        puts = [writer(block, one, dtype) for one in names]

        def load(group: Group) -> None:
            for n, put in enumerate(puts):
                at = offset + n * size
                given = group.run.uniform.get(name)
                if given is not None:
                    put(group, np.full(group.count, given[at : at + size].view(dtype)[0]))
                else:
                    rows = group.of(group.run.params[key])[:, at : at + size]
                    put(group, np.ascontiguousarray(rows).view(dtype)[:, 0])

        return load
    sources = [reader(code, block, one, dtype) for one in names]
    sizes: dict[str, int] = {}  # several calls may use a name, at different sizes
    for variable in (*block.function.variables, *block.function.results):
        sizes[variable.name] = max(variable.size, sizes.get(variable.name, 0))

    def store(group: Group) -> None:
        whole = group.run._param(key, sizes[name])
        for n, source in enumerate(sources):
            at = offset + n * size
            value = np.ascontiguousarray(np.broadcast_to(source(group), (group.count,)))
            whole[group.numbers(), at : at + size] = value.view(np.uint8).reshape(-1, size)

    return store


def _shared_address(code: Code, block: Block, one: Instruction, to: str | None, window: str) -> Step:
    """cvta of shared and local memory."""
    begin = np.uint64(SHARED if window == "shared" else LOCAL)
    source = reader(code, block, one.operands[1], TYPES["u64"])
    put = writer(block, one.operands[0], TYPES["u64"])

    def convert(group: Group) -> None:
        address = np.asarray(source(group))
        put(group, address & ~begin if to else address | begin)

    return convert


def _shuffle(code: Code, block: Block, one: Instruction, mode: str) -> Step:
    """shfl.sync, as the PTX manual defines it."""
    targets = one.operands[0].split("|")
    put = writer(block, targets[0].strip(), TYPES["b32"])
    flag = writer(block, targets[1].strip(), TYPES["pred"]) if len(targets) > 1 else None
    word, lane, bounds = (reader(code, block, o, TYPES["u32"]) for o in one.operands[1:4])

    def move(group: Group) -> None:
        run, numbers = group.run, group.numbers()
        held = np.zeros(run.count, np.uint32)
        held[numbers] = word(group)
        own = run.thread[numbers] % WARP
        by, limits = (np.asarray(o(group)).astype(np.int64) for o in (lane, bounds))
        segment = limits >> 8 & 31
        clamp = limits & 31
        first = own & segment
        last = first | clamp & ~segment
        by = by & 31
        wanted = {"up": own - by, "down": own + by, "bfly": own ^ by, "idx": first | by & ~segment}[mode]
        inside = wanted >= last if mode == "up" else wanted <= last
        found = np.where(inside, wanted, own)
        put(group, held[numbers - own + found])
        if flag is not None:
            flag(group, inside)

    return move


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b, "exch": lambda a, b: b,
}  # fmt: skip


def _atomic(
    code: Code, block: Block, one: Instruction, kind: str, space: str | None, how: str, word: str
) -> Step:
    """atom and red: one thread after the other."""
    dtype = TYPES[word]
    operands = list(one.operands)
    put = writer(block, operands.pop(0), dtype) if kind == "atom" else None
    base, offset, _ = address_of(code, block, operands[0])
    values = [reader(code, block, o, dtype) for o in operands[1:]]

    def update(group: Group) -> None:
        address = np.broadcast_to(np.asarray(base(group), np.uint64), (group.count,)) + np.uint64(offset)
        run, size = group.run, dtype.itemsize
        index = run.memory.place(
            space or "generic", address, size, size, group.of(run.place), group.numbers()
        )
        given = [np.broadcast_to(value(group), (group.count,)) for value in values]
        old = np.empty(group.count, dtype)
        for n in range(group.count):
            old[n] = run.memory.load(index[n : n + 1], size).view(dtype)[0]
            if how == "cas":
                new = given[1][n] if old[n] == given[0][n] else old[n]
            else:
                new = _COMBINE[how](old[n], given[0][n])
            run.memory.store(index[n : n + 1], np.array([new], dtype).view(f"u{size}"))
        if put is not None:
            put(group, old)

    return update


def _nothing(code: Code, block: Block, one: Instruction) -> Step:
    """Does nothing: fences and hints have no effect here, where all accesses are in order."""
    return lambda group: None


_STEPS: Sequence[tuple[re.Pattern[str], Callable[..., Step]]] = (
    (_ACCESS, _access),
    (_ATOMIC, _atomic),
    (SHUFFLE, _shuffle),
    (re.compile(r"cvta(\.to)?\.(shared|local)\.u64"), _shared_address),
    (_NOTHING, _nothing),
    *matrix.STEPS,
)
