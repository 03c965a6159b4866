"""Runs kernels: the threads of many blocks at once, those that stand lowest in the code first.

A group of threads that stand at the same instruction runs to the end of its basic block; where they part,
each part waits for its turn, and parts that come to the same place go on together. That is one of the orders
that the hardware may choose: what a kernel needs of its threads together it says by barriers and shuffles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptx.code import BARRIER, WARP, Block, Code, Group, callee_of, names_in
from ptx.instructions import TYPES
from ptx.matrix import Copies
from ptx.memory import Memory
from ptx.operands import reader
from ptx.steps import step_of
from ptx.text import Function, PtxError, Variable, parse

_MOST_THREADS = 1 << 16
"""So many run at once, where there are more blocks."""
_SHARED_BYTES = 227 << 10


class Kernels:
    """A module of PTX, loaded into memory: its code is made ready once, and launched many times."""

    def __init__(self, text: str, memory: Memory) -> None:
        self.memory = memory
        self.module = parse(text)
        self.places: dict[str, int] = {}
        self._owned: list[int] = []
        self._codes: dict[str, Code] = {}
        functions = self.module.functions.values()
        called = [v for f in functions if not f.entry for v in f.variables if v.space == "shared"]
        everybody = [*(v for v in self.module.variables if v.space == "shared"), *called]
        common = self._shared(everybody, 0)
        # Of kernels, each has its own.
        own = ([v for v in f.variables if v.space == "shared"] for f in functions if f.entry)
        self.shared = max((self._shared(variables, common) for variables in own), default=common)
        if self.shared > _SHARED_BYTES:
            raise PtxError(f"{self.shared} bytes of shared memory; a block has {_SHARED_BYTES}")
        for variable in self.module.variables:
            if variable.space != "shared":
                self._global(variable)

    def _shared(self, variables: Sequence[Variable], begin: int) -> int:
        """Places variables from there on; where they end."""
        for variable in variables:
            begin = -(-begin // variable.align) * variable.align
            self.places[variable.name] = begin
            begin += variable.size
        return begin

    def _global(self, variable: Variable) -> None:
        address = self.memory.allocate(variable.size)
        if address is None:
            raise PtxError(f"no room for {variable.name}")
        self._owned.append(address)
        self.places[variable.name] = address
        view = self.memory.view(address, variable.size)
        view[:] = 0
        view[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)

    def close(self) -> None:
        """Gives its global memory back."""
        while self._owned:
            self.memory.free(self._owned.pop())

    @property
    def names(self) -> list[str]:
        return [f.name for f in self.module.functions.values() if f.entry]

    def ready(self, name: str) -> Code:
        """A kernel's code; PtxError where it has instructions that are not known."""
        if name not in self._codes:
            self._codes[name] = self._ready(self.module.functions[name])
        return self._codes[name]

    def launch(self, name: str, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        """Runs a kernel to its end. Arguments are integers, of the sizes of its parameters."""
        function = self.module.functions.get(name)
        if function is None or not function.entry:
            raise PtxError(f"no kernel {name}")
        if function.threads and function.threads != threads:
            raise PtxError(f"{name} is launched with {threads} threads; it wants {function.threads}")
        if len(arguments) != len(function.parameters):
            raise PtxError(f"{name} has {len(function.parameters)} parameters, not {len(arguments)}")
        code = self.ready(name)
        own = self.shared + threads * code.local
        each = max(1, min(_MOST_THREADS // threads, self.memory.room // max(own, 1)))
        try:
            for first in range(0, blocks, each):
                here = np.arange(first, min(first + each, blocks))
                self.memory.begin(len(here), threads, self.shared, code.local)
                with np.errstate(all="ignore"):
                    Run(code, self.memory, here, blocks, threads, arguments).finish()
        finally:
            self.memory.finish()

    def _ready(self, function: Function) -> Code:
        """A kernel with all that its blocks do."""
        code = Code(self.module.functions, self.places, function)
        for block in code.blocks:
            for one in block.code:
                if one.opcode.split(".")[0] in _ENDS or BARRIER.fullmatch(one.opcode):
                    block.last = one
                    continue
                try:
                    block.steps.append(step_of(code, block, one))
                except PtxError as error:
                    raise PtxError(f"{block.function.name}: {error}") from None
                except (KeyError, ValueError, IndexError) as error:
                    raise PtxError(f"{block.function.name}: {one}: {error!r}") from error
        return code


class _Registers(dict):
    """Registers of all threads; one that nobody has written holds anything."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def __missing__(self, key: str) -> np.ndarray:
        bits = self.run.code.width(key)
        dtype = TYPES["pred"] if bits == 1 else np.dtype(f"u{bits // 8}")
        found = self[key] = np.full(self.run.count, 0xA5, dtype)
        return found


class Run:
    """Some blocks of a launch, on their way."""

    def __init__(
        self,
        code: Code,
        memory: Memory,
        blocks: np.ndarray,
        all_blocks: int,
        threads: int,
        arguments: Sequence[int],
    ):
        self.code, self.memory = code, memory
        self.blocks, self.threads = all_blocks, threads
        self.count = len(blocks) * threads
        self.everyone = np.arange(self.count)
        self.block = np.repeat(blocks, threads)
        self.thread = np.tile(np.arange(threads), len(blocks))
        self.place = self.everyone // threads  # of its block among those that run
        self.warp = self.place * -(-threads // WARP) + self.thread // WARP
        self.live = np.full(len(blocks), threads)
        self.registers: dict[str, np.ndarray] = _Registers(self)
        self.params: dict[str, np.ndarray] = {}
        self.uniform = {
            parameter.name: np.frombuffer(value.to_bytes(parameter.size, "little"), np.uint8)
            for parameter, value in zip(code.entry.parameters, arguments, strict=True)
        }
        self.copies = Copies(self.count)
        self.ready: dict[int, list[np.ndarray | None]] = {code.starts[code.entry.name]: [None]}
        self.waiting: dict[int, list[np.ndarray]] = {}  # at barriers, by the block behind
        self.meeting: dict[int, list[np.ndarray]] = {}  # at shuffles, for others of their warp

    def finish(self) -> None:
        blocks = self.code.blocks
        while self.ready or self.waiting or self.meeting:
            if not self.ready:
                self.release()
                continue
            number = min(self.ready)
            group = self._together(self.ready.pop(number) + self.meeting.pop(number, []))
            block = blocks[number]
            if block.waits and not self._complete(block, group):
                self.meeting[number] = [group.numbers()]
                continue
            for step, one in zip(block.steps, block.code, strict=False):
                try:
                    step(group)
                except PtxError as error:
                    raise PtxError(f"{block.function.name}: {one}: {error}") from None
            if self.memory.traffic is not None:
                self.memory.traffic.block(group.of(self.warp), len(block.code), block.loaded)
            self._keep(block, group)
            _ENDS.get(block.last.opcode.split(".")[0] if block.last else "", Run.fall)(self, block, group)

    def _together(self, parts: list[np.ndarray | None]) -> Group:
        if len(parts) == 1:
            return Group(self, parts[0])
        numbers = np.sort(np.concatenate([p for p in parts if p is not None]))
        return Group(self, None if len(numbers) == self.count else numbers)

    def _keep(self, block: Block, group: Group) -> None:
        """Writes what some threads have computed to the registers of all."""
        if group.index is None:
            return
        for name in block.writes:
            value = group.values[name]
            if name not in self.registers:
                self.registers[name] = np.zeros(self.count, value.dtype)
            self.registers[name][group.index] = value

    def go(self, number: int, index: np.ndarray | None) -> None:
        """Threads stand before a basic block."""
        if index is None or len(index):
            self.ready.setdefault(number, []).append(index)

    # -- how basic blocks end ------------------------------------------------------------------------------

    def fall(self, block: Block, group: Group) -> None:
        self.go(block.number + 1, group.index)

    def branch(self, block: Block, group: Group) -> None:
        one = block.last
        assert one is not None
        target = block.labels[one.operands[0]]
        if target < 0:
            raise PtxError(f"{block.function.name}: {one}: no code behind the label")
        if not one.guard:
            self.go(target, group.index)
            return
        taken = group.values[block.key(one.guard)] ^ one.negated
        numbers = group.numbers()
        for number, chosen in ((target, taken), (block.number + 1, ~taken)):
            if chosen.all():
                self.go(number, group.index)
                return
            self.go(number, numbers[chosen])

    def leave(self, block: Block, group: Group) -> None:
        """ret and exit."""
        one = block.last
        assert one is not None
        if one.guard:
            taken = group.values[block.key(one.guard)] ^ one.negated
            self.go(block.number + 1, group.numbers()[~taken])
            group = Group(self, group.numbers()[taken])
        if block.function.entry:
            np.subtract.at(self.live, self.place[group.numbers()], 1)
            return
        back = group.of(self.registers[f"{block.function.name}:back"])
        for number in np.unique(back):
            self.go(
                int(number),
                group.numbers()[back == number]
                if group.index is not None or (back != number).any()
                else None,
            )

    def call(self, block: Block, group: Group) -> None:
        one = block.last
        assert one is not None
        callee = self.code.function(callee_of(one))
        lists = [names_in(o) for o in one.operands if o.startswith("(")]
        given = lists[-1] if callee.parameters else []
        for name, parameter in zip(given, callee.parameters, strict=True):
            value = self.params[f"{block.function.name}:{name}"]
            self._param(f"{callee.name}:{parameter.name}", parameter.size)[group.numbers()] = group.of(value)[
                :, : parameter.size
            ]
        if f"{callee.name}:back" not in self.registers:
            self.registers[f"{callee.name}:back"] = np.zeros(self.count, np.int64)
        self.registers[f"{callee.name}:back"][group.numbers()] = block.number + 1
        for name, result in zip(lists[0] if callee.results else [], callee.results, strict=True):
            # The caller's name stands for the bytes that the function will have written.
            self.params[f"{block.function.name}:{name}"] = self._param(
                f"{callee.name}:{result.name}", result.size
            )
        self.go(self.code.starts[callee.name], group.index)

    def _param(self, name: str, size: int) -> np.ndarray:
        found = self.params.get(name)
        if found is None or found.shape[1] != size:
            found = self.params[name] = np.zeros((self.count, size), np.uint8)
        return found

    def trap(self, block: Block, group: Group) -> None:
        raise PtxError(f"{block.function.name}: {group.count} threads came to a trap")

    # -- threads together ----------------------------------------------------------------------------------

    def barrier(self, block: Block, group: Group) -> None:
        if group.index is None:
            self.go(block.number + 1, None)
        else:
            self.waiting.setdefault(block.number + 1, []).append(group.numbers())

    def release(self) -> None:
        """Lets the blocks go on all whose threads wait at a barrier."""
        count = np.zeros(len(self.live), np.int64)
        for parts in self.waiting.values():
            for part in parts:
                np.add.at(count, self.place[part], 1)
        free = (count == self.live) & (count > 0)
        if not free.any():
            where = sorted({self.code.blocks[n].function.name for n in (*self.waiting, *self.meeting)})
            raise PtxError(
                f"{', '.join(where)}: threads wait at a barrier or shuffle that others do not come to"
            )
        waiting, self.waiting = self.waiting, {}
        for number, parts in waiting.items():
            every = np.sort(np.concatenate(parts))
            chosen = free[self.place[every]]
            self.go(number, None if chosen.all() and len(every) == self.count else every[chosen])
            if not chosen.all():
                self.waiting[number] = [every[~chosen]]

    def _complete(self, block: Block, group: Group) -> bool:
        """Whether all threads that a shuffle names, or all of their warps, are in the group."""
        one = block.code[0]
        members = np.uint32(0xFFFFFFFF)
        if one.opcode.startswith("shfl"):
            members = reader(self.code, block, one.operands[4], TYPES["u32"])(group)
        here = np.zeros(self.count, np.uint64)
        numbers = group.numbers()
        here[numbers] = np.uint64(1) << (self.thread[numbers] % WARP).astype(np.uint64)
        present = np.zeros(int(self.warp[-1]) + 1, np.uint64)
        np.bitwise_or.at(present, self.warp, here)
        width = min(self.threads, WARP)
        wanted = np.broadcast_to(members, numbers.shape).astype(np.uint64)
        if (wanted >> np.uint64(width)).any():
            raise PtxError(f"{block.function.name}: {one}: names threads that do not exist")
        return bool((present[self.warp[numbers]] & wanted == wanted).all())


_ENDS: dict[str, Callable[[Run, Block, Group], None]] = {
    "bra": Run.branch, "ret": Run.leave, "exit": Run.leave, "call": Run.call, "trap": Run.trap,
    "bar": Run.barrier, "barrier": Run.barrier,
}  # fmt: skip
