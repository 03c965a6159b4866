"""Writes C: lines, fresh names, blocks; and remembers which elements have a name already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from axla import Shape, UnsupportedError
from axla.core.dtypes import S64, DType

TYPES = {
    "pred": "uint8_t", "s8": "int8_t", "s16": "int16_t", "s32": "int32_t", "s64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f32": "float", "f64": "double",
}  # fmt: skip
"""The element types that C99 has. Those without arithmetic in C are refused (`backend.py`)."""

Index = tuple[str, ...]
"""C expressions, one for each dimension."""

Node = Any
"""An `axla.ir.graph.Instruction` that gives arrays; tables of opcodes say what its op is."""

Leaf = tuple[Node, int]
"""An array: a leaf of the result of an instruction."""


def leaf(inst: Node) -> Leaf:
    """The array that an instruction stands for: itself, or what it takes out of a tuple."""
    if inst.opcode == "get-tuple-element":
        return inst.operands[0], inst.op.index
    return inst, 0


def c_type(dtype: DType) -> str:
    """The C type of an element type; UnsupportedError for one that C99 does not have."""
    if dtype.name not in TYPES:
        raise UnsupportedError(f"c-source does not run {dtype.name}: C99 has no such type")
    return TYPES[dtype.name]


def number(value: Any, dtype: DType) -> str:
    """A literal with exactly this value."""
    if not dtype.is_float:  # C has no negative literals
        return f"(({c_type(dtype)}){int(value) % 2**64}ULL)"
    special = {"nan": "NAN", "inf": "INFINITY", "-inf": "(-INFINITY)"}
    return special.get(str(value)) or f"(({c_type(dtype)}){value.hex()})"


def flat(index: Index, shape: Shape) -> str:
    """The place of an element in a row-major array."""
    place = "0"
    for at, size in zip(index, shape.dims, strict=True):
        place = at if place == "0" else f"({place} * {size} + {at})"
    return place


class Writer:
    """The text of one C function, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = 0
        self._scopes: list[dict] = [{}]  # what has a name, in each open block

    def line(self, text: str) -> None:
        self.lines.append("  " * len(self._scopes) + text)

    def name(self, letter: str = "v") -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def value(self, dtype: DType, expression: str) -> str:
        """The name of a new variable."""
        name = self.name()
        self.line(f"{c_type(dtype)} {name} = {expression};")
        return name

    def place(self, expression: str) -> str:
        """The same for an index."""
        return self.value(S64, expression)

    def known(self, key: object) -> str | None:
        """The name that was given to `key` here, or in a block around."""
        return next((scope[key] for scope in reversed(self._scopes) if key in scope), None)

    def remember(self, key: object, name: str) -> str:
        self._scopes[-1][key] = name
        return name

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Braces behind `head`. What is named inside is not known outside."""
        self.line(f"{head} {{".strip())
        self._scopes.append({})
        yield
        self._scopes.pop()
        self.line("}")

    @contextmanager
    def loops(self, sizes: tuple[int, ...], polls: bool = False) -> Iterator[Index]:
        """Loops inside each other; gives their indices. `polls`: the outermost looks at `stop`."""
        names = tuple(self.name("i") for _ in sizes)
        with ExitStack() as blocks:
            for name, size in zip(names, sizes, strict=True):
                blocks.enter_context(self.block(f"for (int64_t {name} = 0; {name} < {size}; {name}++)"))
                if polls and name is names[0]:
                    self.line("if (*stop) return;")
            yield names

    def text(self, head: str) -> str:
        """The function behind its head."""
        return "\n".join([f"{head} {{", *self.lines, "}"])
