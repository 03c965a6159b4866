"""The sections for exported StableHLO: MLIR must accept the text, and the program must compute the same.

jaxlib parses and verifies the text. If the program came from StableHLO, XLA runs the text; if it came from
HLO, axla imports it again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from bench_lib import peers

from axla.api import parse
from axla.comparison import run_flat
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.stablehlo import export_text
from axla.stablehlo.checks import CheckCase, cases
from axla.stablehlo.mlir import Source
from axla.stablehlo.modules import import_source
from conformance_lib.corpora import NotAtHand
from conformance_lib.programs import Exec
from conformance_lib.section import OK, Outcome, kind_of, said
from conformance_lib.stablehlo import StableHLO, StableHLOModels

XLA = "XLA"
NOT_BY_MLIR = "not taken by MLIR"


class NotTaken(Exception):
    """Raised if MLIR's parser, its verifier, or XLA's compiler rejects a text, with its message."""


class Mlir:
    """jaxlib, as a parser of StableHLO, and XLA:CPU, as its compiler."""

    def __init__(self) -> None:
        try:
            import jax
            from jax._src.interpreters import mlir
            from jaxlib.mlir import ir
        except ImportError:
            raise NotAtHand("the sections of exports need JAX, which reads StableHLO and runs it") from None
        self.device = jax.devices("cpu")[0]
        self.jax, self.ir, self.context = jax, ir, mlir.make_ir_context()

    def take(self, text: str) -> None:
        """Parses and verifies a text. Raises NotTaken."""
        try:
            with self.context:
                self.ir.Module.parse(text).operation.verify()
        except Exception as error:  # jaxlib has no exception class for this
            raise NotTaken(said(error)) from None

    def run(self, text: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs a text, which `take` has accepted, by XLA; returns the results."""
        try:
            program: Any = peers.xla_compile(text)
        except Exception as error:
            raise NotTaken(said(error)) from None
        with self.jax.enable_x64(True):
            placed = [self.jax.device_put(array, self.device) for array in inputs]
        found = program.execute_sharded(placed)
        return [np.asarray(array[0]) for array in found.disassemble_into_single_device_arrays()]

    def again(self, module: Module, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Exports a Module to StableHLO and runs it by XLA; returns the results."""
        text = export_text(module)
        self.take(text)
        return self.run(text, inputs)


class Export(StableHLO):
    """StableHLO is imported and exported again; XLA runs the result, which must pass the checks of the
    case.
    """

    name = "export"
    backends = (XLA,)

    def __init__(self) -> None:
        super().__init__()
        self.mlir = Mlir()

    def problems(self, source: Source, backend: str) -> list[str]:
        found: list[str] = []
        for part in source.parts():
            checked = cases(part)
            if not checked and any(op.name == "func.func" for op in part.body):
                self.mlir.take(export_text(import_source(part)))
            for case in checked:
                found += self.wrong(part, case)
        return found

    def wrong(self, part: Source, case: CheckCase) -> list[str]:
        """The checks of a case that XLA's results do not pass."""
        given, expected = (
            run_flat(import_source(part, name), (), "interpreter", replicas="first") if name else []
            for name in (case.inputs, case.expected)
        )
        found = self.mlir.again(import_source(part, case.body), given)
        values = ((c, (expected if c.from_function else found)[c.expected]) for c in case.checks)
        return [p for check, wanted in values if (p := check.problem(found[check.actual], wanted))]

    def failure(self, error: Exception) -> tuple[str, str]:
        return (NOT_BY_MLIR, str(error)) if isinstance(error, NotTaken) else super().failure(error)


class ExportModels(StableHLOModels):
    """Whole programs in StableHLO are imported and exported again; XLA must give the recorded results."""

    name = "export-models"
    backends = (XLA,)

    def __init__(self) -> None:
        super().__init__()
        self.mlir = Mlir()

    def results(self, module: Module, inputs: list[np.ndarray], backend: str) -> list[np.ndarray]:
        return self.mlir.again(module, inputs)

    def trace_differs(self, *_: Any) -> str:
        return ""  # one step is enough, since XLA runs it


class ExportExec(Exec):
    """HLO is exported to StableHLO and imported again: MLIR must accept the text, and the module must give
    the recorded results.
    """

    name = "export-exec"
    backends = ("cpu",)

    def __init__(self) -> None:
        super().__init__()
        self.mlir = Mlir()

    def run(self, case: str, backend: str) -> Outcome:
        begin = time.perf_counter()

        def outcome(kind: str, detail: str = "") -> Outcome:
            return Outcome(self.name, case, backend, kind, detail, time.perf_counter() - begin)

        module = self.module(case)
        try:
            text = export_text(module)
            self.mlir.take(text)
            again = parse(text)
            verify(again)
            inputs, _ = self.data(case, backend)
            values = inputs()
            found = run_flat(again, values, backend, replicas="first")
        except NotTaken as error:
            return outcome(NOT_BY_MLIR, str(error))
        except Exception as error:
            return outcome(kind_of(error), said(error))
        wanted = run_flat(module, values, backend, replicas="first")
        problem = self.differences(found, wanted)
        return outcome(self.different(case) if problem else OK, problem)
