"""JAX programs on axla, in a process where it is JAX's platform: see jax_checks.py."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
FILE = Path(__file__).with_name("jax_checks.py")
NAMES = re.findall(r"@check\ndef (\w+)", FILE.read_text())


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "JAX_PLATFORMS": "axla", **variables}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def report() -> dict[str, str]:
    done = run(str(FILE), JAX_NUM_CPU_DEVICES="4")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_a_program_on_axla(report, name):
    assert not report[name], report[name]


def test_who_did_not_ask_sees_the_stock_client():
    text = (
        "import jax; print(jax.devices()[0].client.platform_version, 'axla.api' in __import__('sys').modules)"
    )
    done = run("-c", text, JAX_PLATFORMS="cpu")
    assert "axla" not in done.stdout.replace("axla.api", "") and "False" in done.stdout, (
        done.stdout + done.stderr
    )


def test_functions_of_atexit_run_programs():
    text = """
import atexit, threading

@atexit.register
def save():
    print(float((x * 2)[5]), float(long(m)[0, 0]), float(long(m)[0, 0]))
    print(float(jax.jit(lambda x: jax.pure_callback(lambda x: x + 1, x, x))(x[5])))
    stop.set()
    worker.join()

def work():
    while not stop.is_set():
        long(m)

import jax, jax.numpy as jnp
stop, worker = threading.Event(), threading.Thread(target=work, daemon=True)
long = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, x: x @ x / 300, x))
x, m = jnp.arange(9.0), jnp.ones((300, 300))
long(m).block_until_ready()
worker.start()
"""
    done = run("-c", text)
    assert (done.returncode, done.stdout) == (0, "10.0 1.0 1.0\n6.0\n"), done.stdout + done.stderr


def test_at_the_end_threads_of_the_client_do_not_wait_for_the_interpreter():
    text = """
import atexit, ctypes as c, sys
from axla.pjrt.plugin import NAME, capsule
from axla.pjrt.structs import EXECUTABLE
from axla.pjrt.table import API, FUNCTIONS

def kept():
    before = sys.getrefcount(owner)
    c.pythonapi.Py_IncRef(c.py_object(owner))
    destroy(c.addressof(arguments))  # without the interpreter lock
    return sys.getrefcount(owner) - before

atexit.register(lambda: print(kept()))  # is called last
pointer = c.PYFUNCTYPE(c.c_void_p, c.py_object, c.c_char_p)(("PyCapsule_GetPointer", c.pythonapi))
table = API.ctypes().from_address(pointer(capsule({}), NAME))
destroy = c.CFUNCTYPE(c.c_void_p, c.c_void_p)(table.Executable_Destroy)
owner = []
program = EXECUTABLE.ctypes()(owner=id(owner))
arguments = FUNCTIONS["Executable_Destroy"].ctypes()(executable=c.addressof(program))
print(kept())
"""
    done = run("-c", text)
    assert (done.returncode, done.stdout) == (0, "0\n1\n"), done.stdout + done.stderr


def test_install_by_hand_and_too_late():
    text = """
import axla.jax.plugin as plugin, jax
plugin.install()
jax.config.update("jax_num_cpu_devices", 3)
plugin.install()
print(jax.devices())
"""
    assert "AxlaDevice(id=2)]" in run("-c", text, JAX_PLATFORMS="").stdout
    late = "import jax; jax.devices(); import axla.jax.plugin as plugin; plugin.install()"
    assert "before the first use" in run("-c", late, JAX_PLATFORMS="").stderr
