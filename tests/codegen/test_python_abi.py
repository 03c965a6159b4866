"""Where compiled programs cannot be called: an UnsupportedError, never an end of the process."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
import textwrap

import pytest

from axla.codegen.native import python_abi

REASONS = [
    (
        platform,
        "machine",
        lambda: "riscv64",
        "runs on x86_64, aarch64 .this is riscv64, 64 bits.: use backend=",
    ),
    (sys, "maxsize", 2**31 - 1, "runs on x86_64, aarch64 "),
    (sys, "platform", "sunos5", "runs on linux, darwin, win32 .this is sunos5.: use backend="),
    (sysconfig, "get_config_var", lambda name: 1, "need the interpreter lock"),
]


@pytest.mark.parametrize("owner, name, value, reason", REASONS)
def test_reasons(monkeypatch, owner, name, value, reason):
    monkeypatch.setattr(owner, name, value)
    python_abi.why_not.cache_clear()
    try:
        assert re.search(reason, python_abi.why_not() or "")
    finally:
        python_abi.why_not.cache_clear()


def test_compile_where_no_program_can_be_called():
    text = """
        import platform
        platform.machine = lambda: "riscv64"
        import axla, numpy as np
        text = "ENTRY e { x = f32[2] parameter(0)  ROOT r = f32[2] add(x, x) }"
        x = axla.device_put(np.ones(2, np.float32))
        print(axla.compile(axla.parse(text), backend="interpreter")(x).tolist())
        try:
            axla.compile(axla.parse(text))
        except axla.UnsupportedError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and lines[0] == "[2.0, 2.0]", done.stderr
    assert "(this is riscv64, 64 bits): use backend='interpreter'" in lines[1]
