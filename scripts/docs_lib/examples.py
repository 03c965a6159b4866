"""The examples in docs/examples: one per op, `<op>.hlo`, which begins with a comment that explains it.

An example has no parameters, so that `axla run` can run it. `lifted` makes parameters of its constants, so
that generated code can be shown instead of folded constants.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import axla
from axla.core.errors import UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.op import OPS, package_of
from axla.ir.structure import Constant, Parameter
from axla.text.literal_printer import literal_text
from axla.tools.samples import run_fed

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples"


@dataclass(frozen=True)
class Example:
    """A text that shows what an op computes."""

    opcode: str
    what: str
    text: str

    @classmethod
    def of(cls, opcode: str) -> Example:
        """The example of an op; that of an op from another package is beside its module. Raises
        FileNotFoundError if there is none.
        """
        folder, op = FOLDER, OPS[opcode]
        if package_of(op) != "axla":
            folder = Path(str(sys.modules[op.__module__].__file__)).parent
        lines = (folder / f"{opcode}.hlo").read_text(encoding="utf-8").splitlines()
        comment = [line for line in lines if line.startswith("//")]
        what = " ".join(line.removeprefix("//").strip() for line in comment)
        return cls(opcode, what, "\n".join(line for line in lines if line not in comment).strip())

    @cached_property
    def module(self) -> Module:
        return axla.parse(self.text)

    def result(self) -> str:
        """The results of the interpreter, one line per array, or the reason why there are none."""
        try:
            arrays = run_fed(self.module, [], "interpreter")
        except UnsupportedError as error:
            return f"not run: {error.message}"
        shapes = [leaf for leaf in self.module.entry.root.shape.leaves() if isinstance(leaf, Shape)]
        return "\n".join(shown(s, a) for s, a in zip(shapes, arrays, strict=True)) or "token[]"


def shown(shape: Shape, array: np.ndarray) -> str:
    """An array as HLO writes it. Floats have at most six digits, so that the page is equal on all
    machines.
    """
    if shape.dtype.is_inexact and shape.dtype.bits > 16:
        array = rounded(array)
    actual = Shape(shape.dtype, array.shape)
    text = literal_text(Literal(actual, np.ascontiguousarray(array).reshape(array.shape)))
    return f"{shape.to_string(layout=False)} {text}"


def rounded(array: np.ndarray) -> np.ndarray:
    """The numbers, rounded to six digits."""
    if array.dtype.kind == "c":
        return (rounded(array.real) + 1j * rounded(array.imag)).astype(array.dtype)
    flat = [float(f"{x:.6g}") for x in array.reshape(-1).tolist()]
    return np.asarray(flat, array.dtype).reshape(array.shape)


def lifted(module: Module) -> tuple[Module, list[np.ndarray]]:
    """Returns the program with the array constants of its entry as parameters, and the values of these."""
    copy = clone_module(module)
    entry = copy.entry
    values = []
    for inst in list(entry.instructions):
        if isinstance(inst.op, Constant) and isinstance(inst.shape, Shape):
            parameter = entry.add(Parameter(inst.shape, len(values)), name=f"{inst.name}.given")
            values.append(inst.op.literal.array)
            entry.replace(inst, parameter)
            entry.remove(inst)
    return copy, values
