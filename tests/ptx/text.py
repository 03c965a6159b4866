"""Reads PTX: functions as basic blocks of instructions, variables, parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|weak|internal|extern|common)\s+)*\.(global|const|shared|local|param)\s+"
    r"(?:\.align\s+(\d+)\s+)?\.(?:v([24])\s+)?\.?([bsuf]\d+)\s+(?:\.ptr\s+(?:\.(?:global|shared|local|const)\s+)?(?:\.align\s+\d+\s+)?)?"
    r"([$%\w.]+)\s*((?:\[\d*\])*)\s*(?:=\s*(.*))?",
    re.S,
)
_HEADER = re.compile(
    r"(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\s*(?:\((.*?)\)\s*)?([$%\w.]+)\s*(?:\((.*?)\))?\s*(.*)",
    re.S,
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)
_LABEL = re.compile(r"\s*([$\w.]+):(?!:)")
_INSTRUCTION = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)


class PtxError(Exception):
    """The text says what this machine does not know, or does what a GPU would not forgive."""


@dataclass(frozen=True)
class Variable:
    name: str
    space: str
    size: int
    align: int
    data: bytes = b""


@dataclass(frozen=True)
class Instruction:
    opcode: str
    operands: tuple[str, ...]
    guard: str = ""
    negated: bool = False

    def __str__(self) -> str:
        guard = f"@{'!' * self.negated}{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)};"


@dataclass
class Function:
    name: str
    entry: bool
    results: list[Variable]
    parameters: list[Variable]
    threads: int = 0
    """What .reqntid says; 0 where it does not."""
    widths: dict[str, int] = field(default_factory=dict)
    """Bits of registers, by the letters of their names; 1 of predicates."""
    variables: list[Variable] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """Where in `code` a label stands."""

    def width(self, name: str) -> int:
        """Bits of a register."""
        found = re.match(r"%[a-zA-Z_]+", name)
        if found is None or found[0] not in self.widths:
            raise PtxError(f"{self.name}: {name} is not a register")
        return self.widths[found[0]]


@dataclass
class Module:
    functions: dict[str, Function]
    variables: list[Variable]


def parse(text: str) -> Module:
    """The functions and variables of a module of PTX."""
    module = Module({}, [])
    inside: Function | None = None
    depth = 0
    for kind, words in _statements(_COMMENT.sub(" ", text)):
        if kind == "open":
            depth += 1
            if words:
                inside = _function(words)
                module.functions[inside.name] = inside
        elif kind == "close":
            depth -= 1
            inside = inside if depth else None
        elif inside is None:
            if _VARIABLE.match(words):
                module.variables.append(_variable(words))
        else:
            _inside(inside, words)
    return module


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """Splits a text into statements, beginnings of blocks (the text before the brace) and ends of blocks."""
    held, braces = "", 0
    for part in re.split(r"([;{}])", text):
        if part == "{" and not braces and held.strip().endswith(":"):
            yield "statement", held.strip()
            yield "open", ""
            held = ""
        elif part == "{" and not braces and (not held.strip() or re.search(r"\.(entry|func)\b", held)):
            yield "open", _without_directives(held).strip()
            held = ""
        elif part == "}" and not braces:
            yield "close", ""
            held = ""
        elif part == ";" and not braces:
            yield "statement", _without_directives(held).strip()
            held = ""
        else:
            braces += {"{": 1, "}": -1}.get(part, 0)
            held += part


def _without_directives(text: str) -> str:
    return re.sub(r"^\s*\.(version|target|address_size|loc|file|pragma)\b[^\n]*$", "", text, flags=re.M)


def _function(header: str) -> Function:
    found = _HEADER.match(header)
    if found is None:
        raise PtxError(f"no header of a function: {header}")
    kind, results, name, parameters, rest = found.groups()
    threads = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", rest)
    return Function(
        name, kind == "entry", _variables(results), _variables(parameters), int(threads[1]) if threads else 0
    )


def _variables(text: str | None) -> list[Variable]:
    return [_variable(part.strip()) for part in (text or "").split(",") if part.strip()]


def _variable(text: str) -> Variable:
    found = _VARIABLE.fullmatch(text)
    if found is None:
        raise PtxError(f"no variable: {text}")
    space, align, vector, kind, name, dims, value = found.groups()
    width = int(kind[1:]) // 8
    size = width * int(vector or 1)
    for count in re.findall(r"\d+", dims):
        size *= int(count)
    numbers = [int(word, 0) for word in re.findall(r"-?\w+", value or "")]
    data = b"".join((n & (1 << 8 * width) - 1).to_bytes(width, "little") for n in numbers)
    return Variable(name, space, size, int(align or width), data.ljust(size, b"\0") if value else b"")


def _inside(function: Function, words: str) -> None:
    """A statement of a function's body, with the labels before it."""
    while found := _LABEL.match(words):
        function.labels[found[1]] = len(function.code)
        words = words[found.end() :].strip()
    if not words:
        return
    if found := _REGISTERS.match(words):
        bits = 1 if found[1] == "pred" else int(found[1][1:])
        for name in re.findall(r"%[a-zA-Z_]+", found[2]):
            function.widths[name] = bits
    elif _VARIABLE.match(words):
        function.variables.append(_variable(words))
    else:
        found = _INSTRUCTION.fullmatch(words)
        if found is None:
            raise PtxError(f"no instruction: {words}")
        negated, guard, opcode, operands = found.groups()
        function.code.append(Instruction(opcode, _operands(operands), guard or "", bool(negated)))


def _operands(text: str) -> tuple[str, ...]:
    """Splits a text at the commas that are outside of brackets."""
    parts = re.findall(r"(?:\[[^\]]*\]|\{[^}]*\}|\([^)]*\)|[^,\[{(])+", text)
    return tuple(" ".join(part.split()) for part in parts if part.strip())
