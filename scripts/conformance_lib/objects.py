"""Compiles the executable texts and the models to object files, which may not need any symbol."""

from __future__ import annotations

from collections.abc import Sequence

from axla.aot.objects import compile_object
from axla.api import parse
from axla.core.errors import AxlaError, UnsupportedError
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.target.names import target as find_target
from conformance_lib.corpora import require
from conformance_lib.section import FAILED, OK, UNSUPPORTED, Outcome, said

TARGETS = ("x86-64-v3", "x86-64", "aarch64", "armv7hf", "cortex-m4f", "riscv64gc", "riscv32imafc", "wasm32")


class Objects:
    """Compiles each text to an object file for each target. The backends of this section are targets."""

    name = "objects"
    backends = TARGETS
    good = frozenset({OK})

    def __init__(self) -> None:
        texts = sorted((require("hlo-open") / "exec").glob("*.hlo"))
        models = sorted(require("models-open").glob("*/module.hlo.txt"))
        self.paths = {p.stem: p for p in texts} | {p.parent.name: p for p in models}

    def cases(self) -> Sequence[str]:
        return list(self.paths)

    def run(self, case: str, backend: str) -> Outcome:
        try:
            module = parse(self.paths[case].read_text())
            verify(module)
            return Outcome(self.name, case, backend, *object_outcome(module, backend))
        except UnsupportedError as error:
            return Outcome(self.name, case, backend, UNSUPPORTED, error.message)
        except AxlaError as error:
            return Outcome(self.name, case, backend, FAILED, said(error))


def object_outcome(module: Module, target: str) -> tuple[str, str]:
    """Compiles a module, which it changes, to an object; returns the kind of the outcome and a detail."""
    image = compile_object(module, find_target(target)).image
    return OK, f"{len(image)} bytes"
