"""Every op at one realistic size: the rows of ops.txt as programs, with the called computations in ops.hlo.

A row is `name | parameters | instructions`; the last instruction is the root. `a b c: row` stands for one row
per word, with the word in place of each `@`. An indented line continues the line before it. A parameter is a
shape and, after a colon, the kind of its values: `<n` integers below n, `+` positive numbers, `1` numbers
between -1 and 1, `spd` positive definite matrices, `low` lower triangular ones; without a kind, normally
distributed numbers or small integers. `name*` marks ops whose results are not compared. Computations that are
named for their op and type (`add_f32`, `less_s32`...) are made as needed.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

NUMPY = {
    "pred": np.bool_, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128, "s8": np.int8, "s16": np.int16, "s32": np.int32,
    "s64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
TOLERANCE = {"bf16": 3e-2, "f16": 5e-3, "f64": 1e-9, "c128": 1e-9}
HERE = Path(__file__).resolve().parent
COMBINERS = {"add": "add", "max": "maximum", "mul": "multiply", "and": "and", "or": "or"}
DIRECTIONS = {"less": "LT", "greater": "GT", "ge": "GE"}


@dataclass(frozen=True)
class Op:
    """A program with one op, and the ops that it needs."""

    group: str
    name: str
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    compared: bool

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"

    @property
    def text(self) -> str:
        lines = [
            f" p{n} = {shape.partition(':')[0]} parameter({n})" for n, shape in enumerate(self.parameters)
        ]
        lines += [f" {line}" for line in self.body[:-1]]
        main = "\n".join([*lines, f" ROOT {self.body[-1]}"])
        return f"HloModule op\n\n{_computations(main)}ENTRY main {{\n{main}\n}}\n"

    @property
    def tolerance(self) -> float:
        types = {shape.partition("[")[0] for shape in self.parameters}
        return max((TOLERANCE.get(t, 2e-3) for t in types), default=2e-3)

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [_values(rng, parameter) for parameter in self.parameters]


def ops() -> Iterator[Op]:
    """Yields all ops of the table."""
    group = ""
    for row in _rows():
        if row.startswith("["):
            group = row.strip("[]")
            continue
        for line in _each(row):
            name, parameters, body = (column.strip() for column in line.split("|"))
            *before, root = (instruction.strip() for instruction in body.split(";"))
            instructions = (*before, f"out = {root}")
            yield Op(group, name.rstrip("*"), tuple(parameters.split()), instructions, name[-1] != "*")


def _rows() -> list[str]:
    text = (HERE / "ops.txt").read_text().replace("\n    ", " ")
    return [line for line in text.splitlines() if line.strip()]


def _each(row: str) -> list[str]:
    """One row for each of the words before the colon; the row itself if there is none."""
    words, colon, rest = row.partition(": ")
    return [rest.replace("@", word) for word in words.split()] if colon and "|" not in words else [row]


def _values(rng: np.random.Generator, parameter: str) -> np.ndarray:
    shape, _, kind = parameter.partition(":")
    name, _, sizes = shape.rstrip("]").partition("[")
    dims = tuple(int(n) for n in sizes.split(",") if n)
    dtype = np.dtype(NUMPY[name])
    if dtype.kind in "iub":
        high = int(kind[1:]) if kind.startswith("<") else 2 if dtype.kind == "b" else 100
        return rng.integers(0, high, dims).astype(dtype)
    found: np.ndarray = np.asarray(rng.standard_normal(dims))
    if dtype.kind == "c":
        found = found + 1j * rng.standard_normal(dims)
    if kind == "+":
        found = np.abs(found) + 0.1
    elif kind == "1":
        found = np.tanh(found)
    elif kind == "spd":
        found = found @ np.conj(np.swapaxes(found, -1, -2)) + dims[-1] * np.eye(dims[-1])
    elif kind == "low":
        found = np.tril(found) / math.sqrt(dims[-1]) + 2 * np.eye(dims[-1])
    return found.astype(dtype)


@functools.cache
def _written() -> dict[str, str]:
    """The computations of ops.hlo by name."""
    parts = (HERE / "ops.hlo").read_text().split("\n}\n")
    return {part.split()[0]: part.strip() + "\n}\n" for part in parts if part.strip()}


def _computations(main: str) -> str:
    """The texts of the computations that the text `main` calls."""
    found = {}
    for name in re.findall(r"\w+", main):
        what, _, dtype = name.partition("_")
        if name in _written():
            found[name] = _written()[name]
        elif dtype in NUMPY and what in COMBINERS:
            found[name] = _binary(name, dtype, f"{dtype}[] {COMBINERS[what]}(a, b)")
        elif dtype in NUMPY and what in DIRECTIONS:
            found[name] = _binary(name, dtype, f"pred[] compare(a, b), direction={DIRECTIONS[what]}")
    return "\n".join(found.values())


def _binary(name: str, dtype: str, root: str) -> str:
    return f"{name} {{\n a = {dtype}[] parameter(0)\n b = {dtype}[] parameter(1)\n ROOT c = {root}\n}}\n"
