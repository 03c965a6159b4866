"""Objects that several threads emit."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.codegen.llvm import emit_object

TEXTS = [
    f"""define i64 @f(i64 %x) {{
      %y = mul i64 %x, {number}
      %z = udiv i64 %y, {number + 3}
      ret i64 %z
    }}"""
    for number in range(40)
]


def emitted(text: str) -> bytes:
    return emit_object(text, host_target())


def test_threads_emit_the_objects_of_one_thread():
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(emitted, TEXTS))
    assert found == [emitted(text) for text in TEXTS]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_that_is_forked_while_others_emit_emits():
    ended = threading.Event()

    def emit_all():
        while not ended.is_set():
            for text in TEXTS:
                emitted(text)

    threads = [threading.Thread(target=emit_all) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if not child:
                os._exit(0 if emitted(TEXTS[0]) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_the_first_error_of_several_threads_is_raised(monkeypatch):
    from axla.cpu import compiler

    def refuse(text, target, *, level):
        raise axla.CompileError("no")

    monkeypatch.setattr(compiler.llvm, "emit_object", refuse)
    monkeypatch.setenv("AXLA_NUM_THREADS", "2")
    names = [f"s{n}" for n in range(9)]
    sines = "\n".join(
        f"b{name} = f32[{n + 901},7] broadcast(x), dimensions={{}} {name} = f32[{n + 901},7] sine(b{name})"
        for n, name in enumerate(names)
    )
    with pytest.raises(axla.CompileError, match="no"):
        axla.compile(
            axla.parse(
                f"HloModule m ENTRY e {{ x = f32[] parameter(0) {sines} ROOT t = tuple({', '.join(names)}) }}"
            )
        )


def test_polynomials_round_once_per_step():
    """Of Horner's form; a product that a number is added to alone rounds by itself."""
    text = """HloModule m
    ENTRY e { x = f32[64] parameter(0)
      a = f32[] constant(3)  b = f32[] constant(1)  c = f32[] constant(-4)
      as = f32[64] broadcast(a), dimensions={}  bs = f32[64] broadcast(b), dimensions={}
      cs = f32[64] broadcast(c), dimensions={}
      m = f32[64] multiply(as, x)  s = f32[64] add(m, bs)
      n = f32[64] multiply(s, x)  ROOT r = f32[64] add(n, cs) }"""
    x = np.nextafter(np.float32(1), np.float32(2), dtype=np.float32) + np.arange(64, dtype=np.float32) / 4096
    found = np.asarray(axla.compile(axla.parse(text))(x))
    step = (np.float32(3) * x + np.float32(1)).astype(np.float64)
    once, twice = (step * x - 4).astype(np.float32), (step * x).astype(np.float32) - np.float32(4)
    assert not np.array_equal(once, twice)
    np.testing.assert_array_equal(found, once if host_target().has_fma else twice)


NESTED = """HloModule m
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] add(x, y) }
max { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] maximum(x, y) }
ENTRY e {
  p = f32[30,8,7] parameter(0)
  zero = f32[] constant(0)
  a = f32[30,8,7] abs(p)
  s = f32[30,8] reduce(a, zero), dimensions={2}, to_apply=add
  ROOT m = f32[30] reduce(s, zero), dimensions={1}, to_apply=max
}"""


def test_small_reductions_in_each_other_are_written_out_once():
    """Each is of at most 16 elements: written out both, they would be 56 sums."""
    program = axla.compile(axla.parse(NESTED))
    assert 7 <= program.as_text("llvm").count(" fadd ") <= 4 * 7
    x = np.random.default_rng(0).standard_normal((30, 8, 7)).astype(np.float32)
    np.testing.assert_allclose(np.asarray(program(x)), np.abs(x).sum(2).max(1), rtol=1e-6)
