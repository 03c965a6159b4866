"""The glue as it is written for every system, on whatever system the tests run."""

from __future__ import annotations

import pytest

from axla.codegen.elf import Elf
from axla.codegen.llvm import emit_object
from axla.codegen.native import glue, systems
from axla.codegen.native.relocations import MACHINES
from axla.codegen.native.systems import linux, macos, windows
from axla.target.machine import CpuTarget, ObjectForm

EVERYWHERE = {"malloc", "free", "memcpy", "memset"}
POSIX = {
    "mmap", "munmap", "posix_memalign", "clock_gettime", "pthread_self", "pthread_create", "pthread_detach",
    "pthread_sigmask", "sigfillset", "sched_yield", "usleep",
}  # fmt: skip
NEEDS = {
    linux: POSIX | {"syscall", "madvise"},
    macos: POSIX | {"__ulock_wait", "__ulock_wake"},
    windows: {
        "__chkstk", "VirtualAlloc", "VirtualFree", "_aligned_malloc", "_aligned_free", "WaitOnAddress",
        "Sleep", "WakeByAddressSingle", "WakeByAddressAll", "CreateThread", "CloseHandle",
        "GetCurrentThreadId", "SwitchToThread", "QueryPerformanceCounter", "QueryPerformanceFrequency",
    },
}  # fmt: skip
PLACES = [
    (linux, "x86_64"), (linux, "aarch64"), (macos, "x86_64"), (macos, "aarch64"), (windows, "x86_64"),
]  # fmt: skip


@pytest.mark.parametrize("system, machine", PLACES)
def test_the_glue_of_a_system_needs_what_the_system_has(system, machine):
    form = ObjectForm(relocation="static", code_model="large")
    features = frozenset(system.FEATURES)
    target = CpuTarget("glue", system.TRIPLE.format(machine), "generic", features=features, form=form)
    if machine == "x86_64":
        target = CpuTarget("glue", system.TRIPLE.format(machine), "x86-64", form=form)
    found = Elf(emit_object(glue.emit(machine, system=system).text(), target, level=0))
    assert found.machine == MACHINES[machine].number
    needed = {symbol.name for symbol in found.symbols if symbol.name and symbol.section == 0}
    assert {name for name in needed if not name.startswith(("Py", "_Py"))} == EVERYWHERE | NEEDS[system]


@pytest.mark.parametrize(
    "here, machine, runs, foreign",
    [
        (linux, "x86_64", ["x86_64-unknown-linux-gnu", "x86_64-pc-linux-gnu", "x86_64-linux-gnu"],
         ["aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc-elf", "x86_64-apple-linux-gnu", "x86_64", ""]),
        (macos, "arm64", ["aarch64-apple-linux-gnu"], ["aarch64-linux-gnu", "x86_64-apple-linux-gnu"]),
        (windows, "AMD64", ["x86_64-pc-windows-msvc-elf"], ["x86_64-unknown-linux-gnu"]),
    ],
    ids=["linux", "macos", "windows"],
)  # fmt: skip
def test_objects_run_where_they_were_made_for(monkeypatch, here, machine, runs, foreign):
    monkeypatch.setattr(systems, "HERE", here)
    monkeypatch.setattr(systems.platform, "machine", lambda: machine)
    assert [triple for triple in [*runs, *foreign] if systems.runs(triple)] == runs
