"""The section without a corpus: every op with every element type that it takes.

A case is an op and an element type: `add f32`. The samples of the op are converted to the type, and run by a
backend and by the interpreter on the same inputs. The section shows which combinations are supported and the
error messages of the others; it does not compare with XLA.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.comparison import compare
from axla.core.dtypes import ALL, F32, DType
from axla.core.errors import Mismatch
from axla.ir.op import OPS
from axla.tools.samples import NOTHING_TO_COMPARE, UNTYPED, modules_of, run_fed, sample_target
from conformance_lib.section import DIFFERS, OK, Outcome, kind_of, said

NOT_TAKEN = "not taken"
"""The outcome if the op does not take the element type, in XLA neither."""


class Samples:
    name = "samples"
    backends = ("interpreter", "cpu", "one-lane")
    good = frozenset({OK, NOT_TAKEN})

    def cases(self) -> Sequence[str]:
        return [
            f"{op} {dtype.name}" for op in sorted(OPS) for dtype in (ALL if op not in UNTYPED else (F32,))
        ]

    def run(self, case: str, backend: str) -> Outcome:
        opcode, dtype = case.split()
        kind, detail = sample_outcome(opcode, next(d for d in ALL if d.name == dtype), backend)
        return Outcome(self.name, case, backend, kind, detail)


def sample_outcome(opcode: str, dtype: DType, backend: str) -> tuple[str, str]:
    modules = modules_of(opcode, dtype)
    if not modules:
        return NOT_TAKEN, ""
    try:
        with sample_target():
            for module, inputs in modules:
                found = run_fed(module, inputs, backend)
                if backend != "interpreter" and opcode not in NOTHING_TO_COMPARE:
                    wanted = run_fed(module, inputs, "interpreter")
                    compare(module, found, wanted, backend, "interpreter").raise_if_different()
    except Mismatch as error:
        return DIFFERS, said(error)
    except Exception as error:
        return kind_of(error), said(error)
    return OK, ""
