"""Compiled programs as text: a printed program must parse, print the same again, and give the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import axla
from axla.backends.native import NativeExecutable
from axla.codegen.host import host_target
from axla.core.errors import AxlaError, UnsupportedError
from axla.cpu.compiler import compile_text
from axla.ir.clone import clone_module
from axla.ir.verify import verify
from axla.lowering.donation import row_major_boundary
from axla.lowering.loading import load_program
from axla.lowering.pipeline import compile_program, constants_segment
from axla.program.text import print_program
from conformance_lib.programs import Exec, Models
from conformance_lib.section import DIFFERS, FAILED, OK, UNSUPPORTED, Outcome, said


class ProgramTexts:
    """The programs of the sections `exec` and `models`, as texts of compiled programs."""

    name = "programs"
    backends = ("cpu",)
    good = frozenset({OK})

    def __init__(self) -> None:
        self.of = {case: section for section in (Models(), Exec()) for case in section.cases()}

    def cases(self) -> Sequence[str]:
        return list(self.of)

    def run(self, case: str, backend: str) -> Outcome:
        try:
            kind, detail = self.outcome(case)
        except UnsupportedError as error:
            kind, detail = UNSUPPORTED, said(error)
        except AxlaError as error:
            kind, detail = FAILED, said(error)
        return Outcome(self.name, case, backend, kind, detail)

    def outcome(self, case: str) -> tuple[str, str]:
        module = self.of[case].module(case)
        verify(module)
        inputs = self.of[case].data(case, "cpu")[0]()
        wanted = axla.compile(module, replicas="first").execute(list(inputs))
        work, constants = clone_module(module), {}
        row_major_boundary(work)
        text = print_program(compile_program(work, host_target(), constants))
        segment = constants_segment(constants)
        if print_program(load_program(text, segment, host_target())) != text:
            return DIFFERS, "the text that was read prints otherwise"
        made = compile_text(text, segment)
        found = NativeExecutable(made.images, made.interface, made.constants).execute(list(inputs))
        same = [
            np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(found, wanted, strict=True)
        ]
        return (OK, f"{len(text)} characters") if all(same) else (DIFFERS, "other bits")
