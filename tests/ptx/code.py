"""A kernel and the functions that it calls, as basic blocks; and groups of threads that run one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ptx.text import Function, Instruction, PtxError

BARRIER = re.compile(r"(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?")
SHUFFLE = re.compile(r"shfl\.sync\.(up|down|bfly|idx)\.b32")
TOGETHER = re.compile(r"shfl\.sync\..*|mma\.sync\..*|ldmatrix\.sync\..*")
"""What threads of a warp do together: a basic block of its own."""
WARP = 32


class Code:
    """A kernel and the functions that it calls, as basic blocks of steps."""

    def __init__(self, functions: dict[str, Function], places: dict[str, int], entry: Function) -> None:
        self.functions, self.places, self.entry = functions, places, entry
        self.blocks: list[Block] = []
        self.starts: dict[str, int] = {}
        self.local = 0
        self.frames: dict[str, int] = {}
        for function in self._called(entry):
            for variable in function.variables:
                if variable.space == "local":
                    self.local = -(-self.local // variable.align) * variable.align
                    self.frames[variable.name] = self.local
                    self.local += variable.size
            self.local = -(-self.local // 16) * 16
            self.starts[function.name] = len(self.blocks)
            self._split(function)

    def _called(self, entry: Function) -> list[Function]:
        """The functions below the entry, callees first."""
        found: list[Function] = []
        pending = [entry]
        while pending:
            function = pending.pop()
            if function in found:
                found.remove(function)
            found.append(function)
            if len(found) + len(pending) > 1000:
                raise PtxError(f"{function.name}: functions call each other in a circle")
            for one in function.code:
                if one.opcode.startswith("call"):
                    pending.append(self.function(callee_of(one)))
        return found[::-1]

    def function(self, name: str) -> Function:
        found = self.functions.get(name)
        if found is None:
            raise PtxError(f"a call of {name}, which is not in the module")
        return found

    def _split(self, function: Function) -> None:
        """Basic blocks begin at labels and behind whatever makes threads part or wait."""
        starts = {0, *function.labels.values()}
        for number, one in enumerate(function.code):
            if one.guard and one.opcode.split(".")[0] not in ("bra", "ret", "exit"):
                raise PtxError(f"a guard on what is not a branch: {one}")
            if one.opcode.split(".")[0] in ("bra", "ret", "exit", "call", "trap"):
                starts.add(number + 1)
            elif BARRIER.fullmatch(one.opcode) or TOGETHER.fullmatch(one.opcode):
                starts |= {number, number + 1}
        ends = sorted(starts - {len(function.code)}) + [len(function.code)]
        numbers = {begin: len(self.blocks) + n for n, begin in enumerate(ends[:-1])}
        names = {name: numbers.get(at, -1) for name, at in function.labels.items()}
        for begin, end in zip(ends, ends[1:], strict=False):
            self.blocks.append(Block(function, function.code[begin:end], len(self.blocks), names))

    def width(self, key: str) -> int:
        """Bits of a register, by its name in the whole program."""
        function, _, name = key.rpartition(":")
        return (self.function(function) if function else self.entry).width(name)

    def address(self, name: str) -> int | None:
        """The address of a variable."""
        return self.frames.get(name, self.places.get(name))


class Block:
    """A basic block: steps that compute, then what its last instruction does with the threads."""

    def __init__(
        self, function: Function, code: list[Instruction], number: int, labels: dict[str, int]
    ) -> None:
        self.function, self.code, self.number, self.labels = function, code, number, labels
        self.steps: list[Callable[[Group], None]] = []
        self.writes: set[str] = set()
        self.last: Instruction | None = None
        self.loaded = 0  # bytes of global memory, by a thread
        self.waits = bool(code) and TOGETHER.fullmatch(code[0].opcode) is not None
        """Whether it is something that threads of a warp do together."""

    def key(self, name: str) -> str:
        """A register's name in the whole program: functions have registers of their own."""
        return name if self.function.entry else f"{self.function.name}:{name}"

    def width(self, name: str) -> int:
        return self.function.width(name)


class Group:
    """Threads that run together: all (`index` is None), or those numbered in `index`."""

    def __init__(self, run: Any, index: np.ndarray | None) -> None:
        self.run, self.index = run, index
        self.count = run.count if index is None else len(index)
        self.values: dict[str, np.ndarray] = run.registers if index is None else _Some(run.registers, index)

    def numbers(self) -> np.ndarray:
        return self.run.everyone if self.index is None else self.index

    def of(self, array: np.ndarray) -> np.ndarray:
        return array if self.index is None else array[self.index]


class _Some(dict):
    """Registers of some threads, fetched when they are asked for."""

    def __init__(self, registers: dict[str, np.ndarray], index: np.ndarray) -> None:
        super().__init__()
        self.registers, self.index = registers, index

    def __missing__(self, name: str) -> np.ndarray:
        found = self[name] = self.registers[name][self.index]
        return found


def callee_of(call: Instruction) -> str:
    return next(operand for operand in call.operands if not operand.startswith("("))


def names_in(words: str) -> list[str]:
    return [name.strip() for name in words.strip("(){}").split(",") if name.strip()]
