"""The boundary structs are the same in Python, LLVM and C."""

from __future__ import annotations

import ctypes as c
import shutil
import subprocess

import pytest

from axla.core.status import FRAME_ERRORS
from axla.program import abi
from axla.program.abi import CField, Struct

MIXED = Struct("axla_mixed", "Padding in the middle and at the end.",
    CField("a", "i8", ""), CField("b", "i64", ""), CField("c", "i32", "", count=3), CField("d", "i8", ""),
)  # fmt: skip


@pytest.mark.parametrize("struct", [*abi.STRUCTS, MIXED], ids=lambda s: s.name)
def test_ctypes_has_the_declared_layout(struct: Struct):
    kind = struct.ctypes()
    assert c.sizeof(kind) == struct.size
    assert {f.name: getattr(kind, f.name).offset for f in struct.fields} == {
        f.name: struct.offset(f.name) for f in struct.fields
    }


def test_frame_is_version_one():
    names = [f.name for f in abi.FRAME.fields]
    assert abi.FRAME_VERSION == 1
    assert names[0] == "version" and abi.FRAME.offset("version") == 0
    # A change here is a new version: objects compiled ahead of time depend on it. What was added behind the
    # first 120 bytes is only read by programs for several devices, which are not compiled ahead of time.
    assert (abi.FRAME.offset("peers"), abi.FRAME.offset("parallel_for"), abi.FRAME.offset("cancel")) == (
        120,
        48,
        64,
    )


def llvm_type(struct: Struct) -> str:
    parts = [f.llvm if f.count == 1 else f"[{f.count} x {f.llvm}]" for f in struct.fields]
    return f"{{ {', '.join(parts)} }}"


@pytest.mark.parametrize("struct", [*abi.STRUCTS, MIXED], ids=lambda s: s.name)
def test_llvm_has_the_declared_layout(struct: Struct):
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_native_target()
    module = llvm.parse_assembly(f"@g = global {llvm_type(struct)} zeroinitializer")
    machine = llvm.Target.from_default_triple().create_target_machine()
    kind = module.get_global_variable("g").global_value_type
    data = machine.target_data
    assert data.get_abi_size(kind) == struct.size
    for i, f in enumerate(struct.fields):
        assert data.get_element_offset(kind, i) == struct.offset(f.name)


@pytest.mark.cc
def test_c_header_has_the_declared_layout(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler on the PATH")
    (tmp_path / "axla_abi.h").write_text(abi.c_header())
    prints = []
    for struct in abi.STRUCTS:
        prints.append(f'printf("{struct.name} %zu\\n", sizeof({struct.name}));')
        for f in struct.fields:
            prints.append(f'printf("{struct.name}.{f.name} %zu\\n", offsetof({struct.name}, {f.name}));')
    program = '#include <stdio.h>\n#include <stddef.h>\n#include "axla_abi.h"\n'
    program += "static int32_t entry(axla_frame *f) { return f->cancel[0]; }\n"
    program += (
        "int main(void) { axla_entry_function *e = entry; (void)e;\n" + "\n".join(prints) + "\nreturn 0; }\n"
    )
    (tmp_path / "layout.c").write_text(program)
    binary = tmp_path / "layout"
    subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Werror", "-o", binary, tmp_path / "layout.c"], check=True
    )
    printed = dict(line.split() for line in subprocess.check_output([binary], text=True).splitlines())
    expected = {}
    for struct in abi.STRUCTS:
        expected[struct.name] = str(struct.size)
        expected |= {f"{struct.name}.{f.name}": str(struct.offset(f.name)) for f in struct.fields}
    assert printed == expected


def test_error_codes_leave_room_for_messages():
    assert max(FRAME_ERRORS) < abi.FIRST_MESSAGE
    assert all(row.name and row.about for row in FRAME_ERRORS.values())
    assert f"AXLA_DEADLINE = {abi.DEADLINE}" in abi.c_header()
