"""The flags of code generation."""

import numpy as np

import axla
from axla.core import flags, trace
from axla.cpu import compiler

TEXT = """HloModule f
ENTRY e { x = f32[4,8] parameter(0) ROOT r = f32[4,8] exponential(x) }
"""


def run():
    x = np.ones((4, 8), np.float32)
    return axla.compile(axla.parse(TEXT))(x)


def test_dump_has_program_and_code(tmp_path):
    with flags.override(dump_to=str(tmp_path)):
        run()
    found = {p.name.split(".f.")[1]: p.read_text() for p in tmp_path.iterdir()}
    assert set(found) == {
        "before_optimizations.txt", "cpu_after_optimizations.txt", "program.txt", "ir.ll", "s",
    }  # fmt: skip
    assert "define" in found["ir.ll"] and "axla_entry" in found["s"]


def test_optimization_level_reaches_llvm(monkeypatch):
    seen = []
    emit = compiler.llvm.emit_object
    monkeypatch.setattr(
        compiler.llvm, "emit_object", lambda t, m, level: (seen.append(level), emit(t, m, level=level))[1]
    )
    monkeypatch.setattr(compiler, "object_for", lambda text, target, emit: emit(text, target))
    np.testing.assert_allclose(np.asarray(run()), np.e, rtol=1e-6)
    assert max(seen) == 2
    seen.clear()
    with flags.override(optimization_level=0):
        np.testing.assert_allclose(np.asarray(run()), np.e, rtol=1e-6)
    assert set(seen) == {0}


def test_trace_has_the_stages_of_compilation():
    with trace.recording() as events:
        run()
    assert {"passes", "assign-buffers", "lower", "emit", "llvm"} <= {e["name"] for e in events}
