"""All passes by name, the pipelines as data, and the reasons for their order."""

from __future__ import annotations

from axla.passes.driver import Pass, Step, fixpoint
from axla.passes.simplify.cse import cse as _cse
from axla.passes.simplify.dce import dce as _dce

dce = Pass("dce", _dce)
cse = Pass("cse", _cse)

PASSES: dict[str, Pass] = {p.name: p for p in (
    cse,
    dce,
)}  # fmt: skip
"""Every pass. Where XLA has the pass, the name is XLA's."""

SIMPLIFY: tuple[Step, ...] = (fixpoint("simplify", cse, dce),)

CPU: tuple[Step, ...] = (*SIMPLIFY,)

PIPELINES: dict[str, tuple[Step, ...]] = {"simplify-all": SIMPLIFY, "cpu": CPU}

ORDER: tuple[tuple[Pass, Pass, str], ...] = (
    (cse, dce, "what cse replaced is dead"),
)  # fmt: skip
"""(earlier, later, why): the first run of the earlier is before the last of the later, wherever both are."""
