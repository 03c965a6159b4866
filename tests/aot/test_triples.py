"""Triples without an alias: what is found out of their machines, what is refused, and the order of bytes."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from machines import CROSS, run
from package_machines import MACHINES, run_test
from test_packed import NAMES, TEXT
from test_targets import HARD, MATHS
from test_weights import MAIN, PROGRAM, VARIABLES

import axla
import axla.aot
from axla.aot import header, weights
from axla.aot.build import BuildSource, Label, build
from axla.aot.library import Weights
from axla.aot.machines import machine
from axla.aot.names import parse_name
from axla.aot.objects import compile_object
from axla.codegen import llvm
from axla.codegen.object_files import symbols
from axla.core import dtypes as D
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.core.literal import bytes_in
from axla.program import abi
from axla.runtime.safetensors import read_file, write_safetensors
from axla.target.names import TARGETS, target

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from docs_lib import triples  # noqa: E402

S390X = "s390x-linux-gnu"
# 32 and 64 bits, both orders of bytes, and machines that lack this and that.
SOME = (S390X, "powerpc-linux-gnu", "sparc64-linux-gnu", "mips-linux-gnu", "i386-linux-gnu")
REFUSED = {
    "avr-none-elf": "addresses of 16 bits",
    "nvptx64-nvidia-cuda": "is a GPU",
    "bpfel-linux-gnu": "runs inside a kernel",
    "powerpc64-ibm-aix": "XCOFF",
    "i686-pc-windows-msvc": "a format that axla does not read",
    "armv5te-linux-gnueabi": "LLVM calls __aeabi_.* for f32",
    "sparc-linux-gnu": "LLVM calls __ashldi3 .* for 64-bit integers",
}


def test_what_is_found_of_a_machine():
    found = machine(S390X)
    assert (found.name, found.triple, found.form.format) == (S390X, "s390x-unknown-linux-gnu", "elf")
    assert (found.form.byte_order, found.form.pointer_bytes, found.index_type) == ("big", 8, "i64")
    assert found.has_double and not found.has_rounding and {found.lanes(dtype) for dtype in D.ALL} == {1}
    assert machine(S390X, "z15").lanes(D.F32) == machine("powerpc64le-linux-gnu").lanes(D.F32) == 4
    small = machine("powerpc-linux-gnu")
    assert (small.form.byte_order, small.form.pointer_bytes, small.index_type) == ("big", 4, "i32")
    assert not small.has_square_root and not small.has_wide_division and small.has_division
    assert machine("aarch64-linux-android").has_fma and not machine("mips-linux-gnu").has_fma
    assert machine("riscv64-none-elf").form.relocation == "static"
    assert machine("riscv64-none-elf").features == {"+m", "+a", "+f", "+d", "+c"}
    assert machine("riscv64-none-elf", features=["-c"]).features == {"+m", "+a", "+f", "+d", "-c"}


def test_an_alias_is_what_it_was():
    assert machine("aarch64-linux-gnu") == TARGETS["aarch64"]
    assert machine("riscv64-unknown-linux-musl") == TARGETS["riscv64gc"]


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_have_a_reason(name):
    with pytest.raises(UnsupportedError, match=f"target {name}: .*{REFUSED[name]}"):
        machine(name)


def test_features_bring_what_is_refused_without():
    assert machine("armv5te-linux-gnueabi", features=["+vfp2"]).has_double


@pytest.mark.parametrize("name", ["no-such-machine", "xtensa-none-elf", "s390x", "riscv64-gc"])
def test_what_llvm_does_not_know_is_unknown(name):
    with pytest.raises(InvalidArgument, match=rf"target '{name}' is unknown.*triples of LLVM's"):
        machine(name)


def test_wrong_words_are_refused():
    with pytest.raises(InvalidArgument, match="z99"):
        machine(S390X, "z99")


@pytest.mark.parametrize("name", SOME)
def test_objects_stand_alone(name):
    found = machine(name)
    for text in (HARD, MATHS):
        rows = symbols(compile_object(axla.parse(text), found, allow_libgcc=True).image)
        assert (rows.defined, rows.needed) == ({"program_run", "program_run_frame"}, frozenset())


@pytest.mark.parametrize("name", SOME)
def test_the_frame_is_what_llvm_makes_of_it(name):
    import llvmlite.binding as binding

    found = machine(name)
    for struct_ in abi.STRUCTS:
        with llvm.LOCK:
            parts = [f.llvm if f.count == 1 else f"[{f.count} x {f.llvm}]" for f in struct_.fields]
            text = f"@g = global {{ {', '.join(parts)} }} zeroinitializer"
            module = binding.parse_assembly(text, binding.create_context())
            data = llvm.machine(found).target_data
            kind = module.get_global_variable("g").global_value_type
            for k, field in enumerate(struct_.fields):
                wanted = struct_.offset(field.name, found.form.pointer_bytes)
                assert data.get_element_offset(kind, k) == wanted, (name, struct_.name, field.name)


def test_bytes_in_an_order():
    numbers = np.array([[1, 2 + 3j]], np.complex64)
    assert bytes(bytes_in(numbers, "big")) == struct.pack(">4f", 1, 0, 2, 3)
    assert bytes(bytes_in(numbers, "little")) == struct.pack("<4f", 1, 0, 2, 3)
    assert bytes(bytes_in(np.array([1.5, 2], D.BF16.numpy), "big")).hex() == "3fc04000"
    assert bytes(bytes_in(np.array([1, -2], D.S4.numpy), "big")) == bytes(
        bytes_in(np.array([1, -2], D.S4.numpy))
    )
    assert not bytes_in(np.zeros((0, 3)), "big")


def table(size: int) -> str:
    """A program with a constant: of 40 numbers in the code, of 400 in the segment of constants."""
    numbers = ", ".join(str(k + 0.5) for k in range(size))
    array = f"f32[{size}]"
    return f"""ENTRY e {{ x = {array} parameter(0)
      t = {array} constant({{{numbers}}})  ROOT y = {array} add(x, t) }}"""


@pytest.mark.parametrize("where", Weights)
@pytest.mark.parametrize("size", [40, 400])
def test_constants_are_in_the_order_of_the_machine(where, size):
    numbers = [k + 0.5 for k in range(size)]
    for name, order, other in ((S390X, ">", "<"), ("mips64el-linux-gnuabi64", "<", ">")):
        code = compile_object(axla.parse(table(size)), machine(name), weights=where)
        everything = code.image + code.constants_image + code.constants
        assert struct.pack(f"{order}{size}f", *numbers) in everything
        assert struct.pack(f"{other}{size}f", *numbers) not in everything


def need(name: str) -> None:
    compiler, runner = CROSS[name]
    for tool in (compiler, runner[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on the PATH")


@pytest.mark.cc
@pytest.mark.parametrize("where", ["separate", "file"])
def test_weights_apart(tmp_path, where):
    need(S390X)
    package = axla.aot.compile(table(400), out=tmp_path, target=S390X, name="model", weights=where)
    if where == "separate":
        run_test(tmp_path, "model", S390X, MACHINES[S390X][0])
        return
    subprocess.run(
        [f"{S390X}-gcc", "-static", "model_test.c", "model_loader.c", "model.o", "-o", "test"],
        check=True,
        cwd=tmp_path,
    )
    done = subprocess.run(["qemu-s390x-static", "./test"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "PASSED\n", done.stdout + done.stderr
    data, entries, metadata = read_file(tmp_path / "model.weights")
    assert metadata["byte_order"] == "big"
    assert bytes(data[entries["t"].begin :][:8]) == struct.pack(">2f", 0.5, 1.5)
    assert "big-endian" in package.report and '"byte_order": "big"' in (tmp_path / "model.json").read_text()
    with pytest.raises(UnsupportedError, match="compiled for s390x"):
        axla.aot.load(tmp_path)


@pytest.mark.cc
def test_files_of_variables_are_turned(tmp_path):
    """A file of any machine's, and weights that a loader of the machine takes."""
    need(S390X)
    labels = (Label("x", "x"), Label("state", "params['s']"), Label("w", "w", variable=True))
    source = BuildSource(axla.parse(PROGRAM), labels, (Label("y", "y"), Label("next", "next")))
    library = build(parse_name("Net"), [source], machine(S390X), weights=Weights.FILE)
    for name, data in {**header.write(library), **weights.write(library), "main.c": MAIN}.items():
        (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    (tmp_path / "Net.o").write_bytes(library.image)
    write_safetensors(tmp_path / "v.safetensors", VARIABLES)
    for options in ((), ("-DAXLA_NO_MMAP",)):
        subprocess.run(
            [f"{S390X}-gcc", "-static", *options, "-Wall", "-Wextra", "-Werror", "main.c", "Net_loader.c",
             "Net.o", "-o", "main"], check=True, cwd=tmp_path,
        )  # fmt: skip
        done = subprocess.run(
            ["qemu-s390x-static", "./main", "v.safetensors"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.stdout == "0 3 6 table.one 0 0\n", done.stdout + done.stderr


@pytest.mark.cc
def test_packed_elements(tmp_path):
    need(S390X)
    axla.aot.compile(TEXT, out=tmp_path, target=S390X, name="P", names=NAMES, pack_int4=True)
    run_test(tmp_path, "P", S390X, MACHINES[S390X][0])


# Bits of other widths, as the last index picks them, a vector at a time and one by one.
WIDTHS = """ENTRY e {
  a = u32[6,8] parameter(0)
  b = f64[24] parameter(1)
  c = u8[16,4] parameter(2)
  narrow = u8[6,8,4] bitcast-convert(a)
  halves = s32[24,2] bitcast-convert(b)
  wide = f32[16] bitcast-convert(c)
  nibbles = u4[16,4,2] bitcast-convert(c)
  some = u8[6,8,1] slice(narrow), slice={[0:6],[0:8],[1:2]}
  ROOT all = (u8[6,8,4], s32[24,2], f32[16], u4[16,4,2], u8[6,8,1]) tuple(narrow, halves, wide, nibbles, some)
}"""


@pytest.mark.cc
@pytest.mark.parametrize("cpu", [None, "z15"])
def test_bits_of_other_widths(tmp_path, cpu):
    need(S390X)
    axla.aot.compile(WIDTHS, out=tmp_path, target=S390X, target_cpu=cpu, name="model")
    run_test(tmp_path, "model", S390X, MACHINES[S390X][0])


# Rows of pairs of bf16, which other machines read, and write, as words.
ROWS = """max {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT most = bf16[] maximum(a, b)
}
ENTRY e {
  x = bf16[6,256] parameter(0)
  least = bf16[] constant(-inf)
  most = bf16[6] reduce(x, least), dimensions={1}, to_apply=max
  mosts = bf16[6,256] broadcast(most), dimensions={0}
  ROOT below = bf16[6,256] subtract(x, mosts)
}"""


@pytest.mark.cc
def test_pairs_of_bf16(tmp_path):
    x = np.random.default_rng(0).integers(-9, 9, (6, 256)).astype(D.BF16.numpy)
    [found] = run(compile_object(axla.parse(ROWS), machine(S390X, "z15")), [x], tmp_path)
    np.testing.assert_array_equal(found, x - x.max(1, keepdims=True))


@pytest.mark.cc
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
def test_transposition_in_registers(tmp_path, kind):
    text = f"""ENTRY e {{
      x = {kind}[33,70] parameter(0)
      ROOT t = {kind}[70,33] transpose(x), dimensions={{1,0}}
    }}"""
    x = np.arange(33 * 70).reshape(33, 70).astype(D.BY_NAME[kind].numpy)
    [found] = run(compile_object(axla.parse(text), machine(S390X, "z15")), [x], tmp_path)
    np.testing.assert_array_equal(found, x.T)


def test_the_table_of_triples():
    """A sample of its rows; all triples have one. `scripts/docs --check` looks at the whole page."""
    text = triples.PAGE.read_text(encoding="utf-8")
    rows = [line + "\n" for line in text.partition(triples.HEADING)[2].splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [*triples.TRIPLES]
    for triple, row in [*zip(triples.TRIPLES, rows, strict=True)][::9]:
        assert triples.row(triple) == row, "run scripts/docs"


def test_the_table_has_every_architecture():
    """Those that the bundled LLVM has, by LLVM's names."""
    import llvmlite.binding as binding

    llvm.initialise()
    with llvm.LOCK:
        listed = {binding.get_triple_parts(triple).Arch for triple in triples.TRIPLES}
        there = {arch for arch in ARCHITECTURES.split() if _is_known(binding, f"{arch}-unknown-unknown")}
    assert there <= listed


ARCHITECTURES = """
aarch64 aarch64_be aarch64_32 amdgcn arc arm armeb avr bpfeb bpfel csky dxil hexagon i386 kalimba lanai
loongarch32 loongarch64 m68k mips mips64 mips64el mipsel msp430 nvptx nvptx64 powerpc powerpc64
powerpc64le powerpcle r600 renderscript32 renderscript64 riscv32 riscv32be riscv64 riscv64be s390x shave
sparc sparcel sparcv9 spir spir64 spirv spirv32 spirv64 tce tcele thumb thumbeb ve wasm32 wasm64 x86_64
xcore xtensa
"""


def _is_known(binding, triple: str) -> bool:
    try:
        binding.Target.from_triple(triple)
    except RuntimeError:
        return False
    return True


def test_targets_says_what_is_known(capsys):
    from axla.tools import main

    assert main.main(["targets", S390X]) == 0
    said = capsys.readouterr().out
    assert "s390x-unknown-linux-gnu" in said and "byte order          big" in said
    assert main.main(["targets"]) == 0
    assert "Any other triple that LLVM knows" in capsys.readouterr().out
    assert main.main(["targets", "avr-none-elf"]) == 1
    assert "addresses of 16 bits" in capsys.readouterr().err
    assert target("x86-64").form.byte_order == "little"
