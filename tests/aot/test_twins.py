"""Each of tfcompile's test programs has a twin here, compiled by axla and called from one C++ program."""

from __future__ import annotations

import subprocess

import pytest
from c_folder import CPP, compiler

import axla.aot

pytest.importorskip("jax")
from tfcompile_twins import TWINS  # noqa: E402

pytestmark = pytest.mark.cc


@pytest.mark.filterwarnings("ignore:.*files of other libraries")  # on purpose: one program, one folder
def test_twins(tmp_path):
    cxx = compiler("c++")
    objects, includes, tests = [], [], []
    for name, twin in TWINS.items():
        program, args = twin.make()
        axla.aot.compile(program, args, out=tmp_path, name=f"twins::{name}", self_test=False, **twin.options)
        includes.append(f'#include "twins_{name}.hpp"')
        objects += [f"twins_{name}.o"]
        objects += [f"twins_{name}_weights.o"] if twin.options.get("weights") == "separate" else []
        tests.append(f"void test_{name}() {{ {name} c;\n{twin.checks}\n}}")
    calls = "\n".join(f'  std::puts("{name}"); test_{name}();' for name in TWINS)
    (tmp_path / "twins.cc").write_text(
        "\n".join([
            *includes,
            "#include <cstdio>\n#include <type_traits>",
            "#define expect(condition) \\",
            "  do { if (!(condition)) { std::puts(#condition); std::exit(1); } } while (0)",
            "using namespace twins;",
            *tests,
            f"int main() {{\n{calls}\n}}\n",
        ])
    )  # fmt: skip
    command = [cxx, *CPP, "-pthread", "-O0", "twins.cc", *objects, "-o", "twins"]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / "twins"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert done.stdout.split() == list(TWINS)
