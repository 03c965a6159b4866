"""The sections that run StableHLO: tests that check themselves, and models."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence

import numpy as np

import axla
from axla.comparison import check_itself, random_inputs
from axla.core.errors import AxlaError
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.stablehlo.checks import has_checks
from axla.stablehlo.mlir import Source
from axla.stablehlo.modules import import_source
from axla.stablehlo.text import parse, parse_type
from axla.stablehlo.types import shape_of
from conformance_lib.corpora import require
from conformance_lib.programs import SENSITIVE, Check, Inputs, Models, Programs
from conformance_lib.section import (
    DIFFERS,
    OK,
    REFUSED,
    Outcome,
    kind_of,
    load_module,
    run_flat,
    said,
)  # fmt: skip


class StableHLO:
    """Tests that check their own results. `kinds` selects rows of the corpus' list."""

    name = "stablehlo"
    kinds: tuple[str, ...] = ("static",)
    backends = ("interpreter", "cpu")
    good = frozenset({OK})

    def __init__(self) -> None:
        self.root = require("stablehlo-open")
        with (self.root / "manifest.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["kind"] in self.kinds]
        self.rows = {row["file"].removesuffix(".mlir"): row for row in rows}

    def cases(self) -> Sequence[str]:
        return list(self.rows)

    def run(self, case: str, backend: str) -> Outcome:
        """Parses a case, and runs its body with its inputs as arguments."""

        def outcome(kind: str, detail: str = "") -> Outcome:
            return Outcome(self.name, case, backend, kind, detail, time.perf_counter() - begin)

        begin = time.perf_counter()
        try:
            source = parse((self.root / f"{case}.mlir").read_text())
        except AxlaError as error:
            return outcome(REFUSED, said(error))
        try:
            if not any(op.name == "func.func" for part in source.parts() for op in part.body):
                return outcome(OK)  # nothing to run
            problems = self.problems(source, backend)
        except Exception as error:
            return outcome(*self.failure(error))
        if not problems:
            return outcome(OK)
        moves = self.rows[case]["xla_cpu"] == "fail" and self.kinds == ("static",)
        return outcome(SENSITIVE if moves else DIFFERS, problems[0])

    def problems(self, source: Source, backend: str) -> list[str]:
        """The checks that fail. A program without checks must only run."""
        if has_checks(source):
            return [str(output) for output in check_itself(source, backend).outputs if output.problem]
        module = import_source(source)
        verify(module)
        run_flat(module, random_inputs(module), backend)
        return []

    def failure(self, error: Exception) -> tuple[str, str]:
        """The kind of the outcome for an error, and its message."""
        return kind_of(error), said(error)


class Interpret(StableHLO):
    """The tests of StableHLO's own interpreter. If XLA differs from the test, the test is right."""

    name = "interpret"
    kinds = ("interpret-static", "interpret-parallel", "interpret-quantized", "interpret-instrumentation")


class Quantized(StableHLO):
    """Programs with quantized types, compared with the numbers that these represent."""

    name = "quantized"
    kinds = ("quantized",)


class Dynamic(Programs):
    """Programs with open sizes (`?`), specialized to arguments and compared with the results of XLA:CPU."""

    name = "dynamic"
    corpus = "stablehlo-open"
    backends = ("interpreter", "cpu")

    def __init__(self) -> None:
        self.root = require(self.corpus)
        self.compare = load_module(require("hlo-open") / "tools" / "compare.py", "corpus_compare")
        self.recipe = load_module(self.root / "tools" / "hlo_inputs.py", "corpus_inputs")
        rows = map(json.loads, (self.root / "dynamic.jsonl").read_text().splitlines())
        self.rows = {row["file"].removesuffix(".mlir"): row for row in rows}

    def cases(self) -> Sequence[str]:
        return list(self.rows)

    def module(self, case: str) -> Module:
        row = self.rows[case]
        path = self.root / "dynamic" / row["file"]
        return axla.parse(path, arg_types=row["arg_types"], dim_args=row["dim_args"])

    def data(self, case: str, backend: str) -> tuple[Inputs, Check]:
        row = self.rows[case]

        def inputs() -> list[np.ndarray]:
            shapes = [shape_of(parse_type(text)) for text in row["arg_types"]]
            return [
                self.recipe.make_input(row["seed"], k, s.dtype.name, s.dims)
                for k, s in enumerate(shapes)
                if isinstance(s, Shape)
            ]

        return inputs, self.against(self.root / "dynamic-expected" / f"{case}.npz", row["out_dtypes"])


class StableHLOModels(Models):
    """Whole programs as StableHLO text."""

    name = "models-stablehlo"
    file = "module.mlir"
    backends = ("interpreter", "cpu")

    def module(self, case: str) -> Module:
        return axla.parse(self.root / case / self.file)


class BytecodeModels(StableHLOModels):
    """Whole programs as portable StableHLO bytecode."""

    name = "models-bytecode"
    file = "module.vhlo.bc"
