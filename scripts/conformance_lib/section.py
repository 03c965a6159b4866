"""The common parts of the sections of scripts/conformance. A section has named cases, which run on
backends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from axla.core.errors import AxlaError, UnsupportedError
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.graph import Instruction, Module
from axla.ir.verify import verify

OK = "ok"
UNSUPPORTED = "unsupported"
REFUSED = "refused"  # an error in a valid text
DIFFERS = "differs"
FAILED = "failed"  # another AxlaError
BROKEN = "broken"  # an exception that is not an AxlaError
CRASHED = "crashed"
LATE = "too late"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case on a backend ("" in a section without backends).

    `pairs` are the ops of the case, each with an element type: `add f32`.
    """

    section: str
    case: str
    backend: str
    kind: str
    detail: str = ""
    seconds: float = 0.0
    pairs: tuple[str, ...] = ()


class Section(Protocol):
    """A set of cases. Each process makes its own object, which may keep what it has read."""

    name: str
    backends: tuple[str, ...]
    good: frozenset[str]
    """The kinds of outcomes that are wanted."""

    def cases(self) -> Sequence[str]: ...

    def run(self, case: str, backend: str) -> Outcome: ...


class Running:
    """A section whose cases are modules to run, with results to compare."""

    name = ""

    def module(self, case: str) -> Module:
        raise NotImplementedError

    def ready(self, case: str, backend: str) -> tuple[Callable[[Module], Any], Callable[[Module, Any], str]]:
        """Returns two functions: one runs the module of a case, the other returns the difference of the
        results from the expected ones, "" if there is none.
        """
        raise NotImplementedError

    def different(self, case: str) -> str:
        """The kind of the outcome for results that differ."""
        return DIFFERS

    def run(self, case: str, backend: str) -> Outcome:
        """Parses, verifies and runs one case, and compares the results."""

        def outcome(kind: str, detail: str = "") -> Outcome:
            return Outcome(self.name, case, backend, kind, detail, time.perf_counter() - begin, pairs)

        begin, pairs = time.perf_counter(), ()
        try:
            module = self.module(case)
            verify(module)
        except UnsupportedError as error:
            return outcome(UNSUPPORTED, said(error))
        except AxlaError as error:
            return outcome(REFUSED, said(error))
        pairs = pairs_of(module)
        run, check = self.ready(case, backend)
        try:
            found = run(module)
        except Exception as error:
            return outcome(kind_of(error), said(error))
        problem = check(module, found)
        return outcome(self.different(case) if problem else OK, problem)


def run_flat(module: Module, inputs: Sequence[np.ndarray], backend: str) -> list[np.ndarray]:
    """Runs a module whose parameter leaves are `inputs`; returns the leaves of the result."""
    import axla

    return [
        np.asarray(a) for a in axla.compile(module, backend=backend, replicas="first").execute(list(inputs))
    ]


def kind_of(error: Exception) -> str:
    """The kind of the outcome for an error in compilation or a run."""
    if isinstance(error, UnsupportedError):
        return UNSUPPORTED
    return FAILED if isinstance(error, AxlaError) else BROKEN


def said(error: Exception) -> str:
    text = error.message if isinstance(error, UnsupportedError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:400]


# The op and the element type of an instruction.

_STRUCTURE = {
    "parameter", "tuple", "get-tuple-element", "call", "fusion", "while", "conditional", "after-all",
    "opt-barrier",
}  # fmt: skip


def pairs_of(module: Module) -> tuple[str, ...]:
    """Every op of a module with the element types of its data."""
    found = {
        f"{inst.opcode} {dtype}"
        for c in module.computations
        for inst in c.instructions
        for dtype in _types(inst)
    }
    return tuple(sorted(found))


def _types(inst: Instruction) -> list[str]:
    """The element types of the data of an instruction: that of the main operand or, without operands, of the
    result; for structural ops, those of all arrays.
    """
    if inst.opcode in _STRUCTURE:
        return _leaves(inst.shape)
    if inst.opcode == "rng-bit-generator":
        return _leaves(inst.shape)[-1:]
    operands = inst.operands[1:] if inst.opcode == "select" else inst.operands
    return _leaves(operands[0].shape)[:1] if operands else _leaves(inst.shape)[:1]


def _leaves(shape: AnyShape) -> list[str]:
    if isinstance(shape, TupleShape):
        return [leaf.dtype.name for leaf in shape.leaves() if isinstance(leaf, Shape)]
    return [shape.dtype.name] if isinstance(shape, Shape) else [""]


def load_module(path: Any, name: str) -> Any:
    """Imports a Python file, such as a tool of a corpus."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
