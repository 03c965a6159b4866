"""Reading and writing StableHLO are linear: twice the program, at most 2.2 times the work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from big_source import big_text

import axla
from axla.stablehlo import export_text
from work import calls


def _export(text: str) -> Callable[[], object]:
    module = axla.parse(text)
    return lambda: export_text(module)


def _bytecode(text: str) -> Callable[[], object]:
    data = artifact(text)
    return lambda: axla.parse(data)


WORK = {"text": lambda text: lambda: axla.parse(text), "export": _export, "bytecode": _bytecode}


@pytest.mark.parametrize("step", WORK)
def test_work_is_linear(step):
    counts = []
    for size in (2000, 4000):
        counts.append(calls(WORK[step](big_text(size))))
    assert counts[1] <= 2.2 * counts[0], counts


def artifact(text: str) -> bytes:
    """Portable bytecode."""
    dialect = pytest.importorskip("jaxlib.mlir.dialects.stablehlo")
    jmlir = pytest.importorskip("jax._src.interpreters.mlir")
    from jaxlib.mlir import ir

    with jmlir.make_ir_context():
        return dialect.serialize_portable_artifact(ir.Module.parse(text), dialect.get_current_version())
