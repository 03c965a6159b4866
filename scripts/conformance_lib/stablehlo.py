"""The sections that run StableHLO: test cases that check themselves, and models from their StableHLO."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence

from axla.comparison import check_itself, random_inputs
from axla.core.errors import AxlaError, UnsupportedError
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.stablehlo.checks import has_checks
from axla.stablehlo.importer import import_source
from axla.stablehlo.text import parse
from conformance_lib.corpora import require
from conformance_lib.programs import SENSITIVE, Models
from conformance_lib.section import (
    DIFFERS,
    OK,
    REFUSED,
    UNSUPPORTED,
    Outcome,
    kind_of,
    pairs_of,
    run_flat,
    said,
)  # fmt: skip


class StableHLO:
    """Cases of a kind; `kinds` are those of the corpus' list."""

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
        """Parses a case and runs its body with its inputs as arguments."""

        def outcome(kind: str, detail: str = "") -> Outcome:
            return Outcome(self.name, case, backend, kind, detail, time.perf_counter() - begin)

        begin = time.perf_counter()
        try:
            source = parse((self.root / f"{case}.mlir").read_text())
        except AxlaError as error:
            return outcome(REFUSED, said(error))
        try:
            if not dict(source.functions()):
                return outcome(OK)  # nothing to run
            if not has_checks(source):
                module = import_source(source)
                verify(module)
                run_flat(module, random_inputs(module), backend)
                return outcome(OK)
            problems = [str(output) for output in check_itself(source, backend).outputs if output.problem]
        except UnsupportedError as error:
            return outcome(UNSUPPORTED, said(error))
        except Exception as error:
            return outcome(kind_of(error), said(error))
        if not problems:
            return outcome(OK)
        moves = self.rows[case]["xla_cpu"] == "fail" and self.kinds == ("static",)
        return outcome(SENSITIVE if moves else DIFFERS, problems[0])


class Interpret(StableHLO):
    """What StableHLO's own interpreter is tested with. Where XLA differs, the file is right."""

    name = "interpret"
    kinds = ("interpret-static", "interpret-parallel", "interpret-quantized", "interpret-instrumentation")


class StableHLOModels(Models):
    """Whole programs, from StableHLO text."""

    name = "models-stablehlo"
    backends = ("interpreter", "cpu")

    def run(self, case: str, backend: str) -> Outcome:
        begin = time.perf_counter()

        def outcome(kind: str, detail: str = "", pairs: tuple[str, ...] = ()) -> Outcome:
            return Outcome(self.name, case, backend, kind, detail, time.perf_counter() - begin, pairs)

        try:
            module: Module = import_source(parse((self.root / case / "module.mlir").read_text()))
            verify(module)
        except AxlaError as error:
            return outcome(REFUSED, said(error))
        inputs, check = self.data(case, backend)
        try:
            found = run_flat(module, inputs(), backend)
        except Exception as error:
            return outcome(kind_of(error), said(error))
        problem = check(module, found)
        return outcome(DIFFERS if problem else OK, problem, pairs_of(module))
