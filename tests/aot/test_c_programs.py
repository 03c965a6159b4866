"""The C programs of a library: the example, the self-test with recordings, the benchmark."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from c_folder import MATMUL, STEP, STEP_LABELS, compile_c, jit, library, run, source, write

from axla.aot import programs, weights
from axla.aot.library import CompiledLibrary, Weights
from axla.aot.recordings import Recording, record
from axla.core.dtypes import ALL, BY_NAME

pytestmark = pytest.mark.cc


def all_types() -> CompiledLibrary:
    texts = [f"  p{k} = {d.name}[5] parameter({k})" for k, d in enumerate(ALL)]
    texts += [f"  r{k} = {d.name}[5] reverse(p{k}), dimensions={{0}}" for k, d in enumerate(ALL)]
    shape = ", ".join(f"{d.name}[5]" for d in ALL)
    body = "\n".join([*texts, f"  ROOT all = ({shape}) tuple({', '.join(f'r{k}' for k in range(len(ALL)))})"])
    names = [d.name for d in ALL]
    return library("Types", source(f"HloModule m\nENTRY e {{\n{body}\n}}", names, names))


def large() -> tuple[str, CompiledLibrary]:
    text = "HloModule m\nENTRY e { x = f32[300000] parameter(0) ROOT y = f32[300000] tanh(x) }"
    return text, library("Large", source(text, ("x",), ("y",)))


def recorded(lib: CompiledLibrary) -> tuple[Recording, ...]:
    return record(lib, (None,) * len(lib.functions))


def test_the_example_prints_the_first_elements(tmp_path):
    parts = [
        source(MATMUL, ("x", "y"), ("z",), suffix="product"),
        source(STEP, *STEP_LABELS, suffix="step"),
    ]
    write(tmp_path, library("ns::Model", *parts))
    lines = run(compile_c(tmp_path, "example.c", "ns_Model.o")).splitlines()
    assert [line.split(" =")[0] for line in lines] == [
        "ns_Model_product: z f32[2,2]", "ns_Model_step: y f32[5,3]", "ns_Model_step: w f32[4,3]",
    ]  # fmt: skip
    x = (np.arange(6, dtype=np.float32) % 7) * np.float32(0.25) - np.float32(0.5)
    [z] = jit(MATMUL, [x.reshape(2, 3), x.reshape(3, 2)])
    assert lines[0].split(" = ")[1].split() == [f"{value:g}" for value in z.ravel()]
    assert lines[1].endswith(" ...") and not lines[0].endswith("...")


@pytest.mark.parametrize("using", ["gcc", "clang"])
def test_all_programs_take_every_element_type(tmp_path, using):
    lib = all_types()
    write(tmp_path, lib, recorded(lib))
    text = run(compile_c(tmp_path, "example.c", "Types.o", using=using))
    assert "Types: f16 f16[5] = 0.5 0.25 0 -0.25 -0.5\n" in text
    assert "Types: c64 c64[5] = 0.5+0i 0.25+1i 0+0i -0.25+1i -0.5+0i\n" in text
    assert "Types: pred pred[5] = 1 0 1 0 1\n" in text and "Types: s4 s4[5] = 1 0 2 1 0\n" in text
    assert run(compile_c(tmp_path, "Types_test.c", "Types.o", using=using)) == "PASSED\n"
    text = run(compile_c(tmp_path, "Types_benchmark.c", "Types.o", using=using), "0.01")
    found = re.fullmatch(r"Types: min (\S+) us, median (\S+) us, mean (\S+) us \((\d+) runs\)\n", text)
    assert found is not None and 0 < float(found[1]) <= float(found[2]) and int(found[4]) > 0


# Type, the number of the part that differs, and how many parts there are.
@pytest.mark.parametrize(
    "name, at, parts",
    [("f32", 5, 12), ("f16", 5, 12), ("f8e4m3fn", 5, 12), ("s32", 5, 12), ("c64", 10, 24), ("pred", 5, 12)],
)
def test_the_self_test_finds_one_wrong_bit(tmp_path, name, at, parts):
    dtype = BY_NAME[name]
    text = f"x = {name}[3,4] parameter(0) ROOT y = {name}[4,3] transpose(x), dimensions={{1,0}}"
    lib = library("T", source(f"HloModule m\nENTRY e {{ {text} }}", ("x",), ("y",)))
    [good] = recorded(lib)
    wrong = good.results[0].copy()
    wrong.view(np.uint8).reshape(-1)[5 * dtype.itemsize] ^= 1
    for exact in (True, False):
        write(tmp_path, lib, [dataclasses.replace(good, results=(wrong,), exact=exact)])
        inside = dtype.is_inexact and not exact  # the last bit of a float is within its tolerance
        found = run(compile_c(tmp_path, "T_test.c", "T.o"), status=0 if inside else 1)
        differ = f"y: 1 of {parts} numbers differ, the first at {at}\nFAILED\n"
        assert found == ("PASSED\n" if inside else differ)


def test_a_tolerance_has_an_end_and_nan_is_nan(tmp_path):
    text = "HloModule m\nENTRY e { x = f32[6] parameter(0) ROOT y = f32[6] negate(x) }"
    lib = library("T", source(text, ("x",), ("y",)))
    x = np.array([1, np.nan, np.inf, 0, 2, 3], np.float32)
    wanted = -x
    other_nan = wanted.copy()
    other_nan.view(np.uint32)[1] = 0x7FC01234
    infinite, positive_zero, far = wanted.copy(), wanted.copy(), wanted.copy()
    infinite[2], positive_zero[3], far[4] = 1e30, 0, -2.01
    cases = [
        (wanted, True, 0), (other_nan, True, 0), (positive_zero, True, 1), (positive_zero, False, 0),
        (infinite, False, 1), (far, False, 1), (wanted * np.float32(1 + 1e-6), False, 0),
    ]  # fmt: skip
    for array, exact, status in cases:
        write(tmp_path, lib, [Recording((x,), (array,), (None,), exact)])
        run(compile_c(tmp_path, "T_test.c", "T.o"), status=status)


def test_constants_are_only_read(tmp_path):
    """Small ones are known to the entry; kernels read them from the object, where nothing can be written."""
    text = """HloModule m
ENTRY e {
  x = f32[300,3] parameter(0)
  w = f32[3,5] constant({{1,2,3,4,5},{6,7,8,9,10},{11,12,13,14,15}})
  ROOT y = f32[300,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    lib = library("T", source(text, ("x",), ("y",)))
    assert lib.constants
    write(tmp_path, lib, recorded(lib))
    assert run(compile_c(tmp_path, "T_test.c", "T.o")) == "PASSED\n"


@pytest.mark.parametrize("using", ["gcc", "clang"])
@pytest.mark.parametrize("body, arguments, results", [
    ("ROOT none = () tuple()", (), ()),
    ("x = f32[2] parameter(0) ROOT none = () tuple()", ("x",), ()),
    ("ROOT y = f32[2] constant({1,2})", (), ("y",)),
    ("x = f32[0,3] parameter(0) ROOT y = f32[0,3] negate(x)", ("x",), ("y",)),
    ("x = f32[0] parameter(0) z = f32[1] parameter(1) ROOT y = (f32[0], f32[1]) tuple(x, z)", ("x", "z"),
     ("y", "v")),
])  # fmt: skip
def test_programs_of_nothing_have_no_warnings(tmp_path, using, body, arguments, results):
    lib = library("T", source(f"HloModule m\nENTRY e {{ {body} }}", arguments, results))
    for recordings in ((), recorded(lib)):
        write(tmp_path, lib, recordings)
        assert run(compile_c(tmp_path, "T_test.c", "T.o", using=using)) == "PASSED\n"
    run(compile_c(tmp_path, "example.c", "T.o", using=using))
    run(compile_c(tmp_path, "T_benchmark.c", "T.o", using=using), "0.001")


def test_updated_variables_are_compared_too(tmp_path):
    lib = library("Step", source(STEP, *STEP_LABELS))
    [good] = recorded(lib)
    write(tmp_path, lib, [good])
    assert run(compile_c(tmp_path, "Step_test.c", "Step.o")) == "PASSED\n"
    assert run(compile_c(tmp_path, "Step_test.c", "Step.o", flags=["-DAXLA_TEST_EMBEDDED"])) == ""
    assert good.variables[0] is not None
    wrong = (good.variables[0] + np.float32(1), *good.variables[1:])
    write(tmp_path, lib, [dataclasses.replace(good, variables=wrong)])
    text = run(compile_c(tmp_path, "Step_test.c", "Step.o"), status=1)
    assert text == "w: 12 of 12 numbers differ, the first at 0\nFAILED\n"
    run(compile_c(tmp_path, "Step_test.c", "Step.o", flags=["-DAXLA_TEST_EMBEDDED"]), status=1)


@pytest.mark.parametrize("place", [Weights.FILE, Weights.SEPARATE])
def test_programs_find_weights_outside_of_the_object(tmp_path, place):
    numbers = ", ".join(str(float(n % 7)) for n in range(100))
    constant = f"w = f32[100] constant({{{numbers}}}) ROOT y = f32[100] multiply(x, w)"
    text = f"HloModule m\nENTRY e {{ x = f32[100] parameter(0) {constant} }}"
    lib = library("Net", source(text, ("x",), ("y",)), weights=place)
    write(tmp_path, lib, recorded(lib))
    apart = "Net_weights.o"
    if place is Weights.FILE:
        apart = "Net_loader.c"
        for name, contents in weights.write(lib).items():
            (tmp_path / name).write_bytes(contents.encode() if isinstance(contents, str) else contents)
    example = compile_c(tmp_path, "example.c", "Net.o", apart)
    assert run(example).startswith("Net: y f32[100] = -0 -0.25 0 0.75 2 3.75")
    assert run(compile_c(tmp_path, "Net_test.c", "Net.o", apart)) == "PASSED\n"
    assert "Net: min" in run(compile_c(tmp_path, "Net_benchmark.c", "Net.o", apart), "0.01")
    if place is Weights.FILE:
        (tmp_path / "Net.weights").unlink()
        assert run(example, status=2) == "Net.weights cannot be used: code 64\n"


def test_large_recordings_are_in_a_file_beside_the_program(tmp_path):
    _, lib = large()
    write(tmp_path, lib, recorded(lib))
    assert (tmp_path / "Large_test.bin").stat().st_size == 2_400_000
    binary = compile_c(tmp_path, "Large_test.c", "Large.o")
    assert run(binary) == "PASSED\n"
    run(compile_c(tmp_path, "Large_benchmark.c", "Large.o"), "0.01")
    assert run(compile_c(tmp_path, "example.c", "Large.o")).startswith("Large: y f32[300000] = -0.46")
    data = (tmp_path / "Large_test.bin").read_bytes()
    (tmp_path / "Large_test.bin").rename(tmp_path / "other")
    assert run(binary, "other") == "PASSED\n"
    assert run(binary, status=2) == "Large_test.bin: cannot be opened\n"
    (tmp_path / "other").write_bytes(data[:-4])
    assert run(binary, "other", status=2) == "the file of recorded data is too short\n"


def test_without_recordings_two_runs_are_compared(tmp_path):
    write(tmp_path, library("Step", source(STEP, *STEP_LABELS)))
    assert run(compile_c(tmp_path, "Step_test.c", "Step.o")) == "PASSED\n"


def test_functions_without_arguments_or_results(tmp_path):
    constant = "HloModule m\nENTRY e { ROOT c = f32[] constant(2.5) }"
    nothing = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT t = () tuple() }"
    parts = [source(constant, (), ("c",), suffix="constant"), source(nothing, ("x",), (), suffix="nothing")]
    lib = library("Few", *parts)
    for recordings in ((), recorded(lib)):
        write(tmp_path, lib, recordings)
        assert run(compile_c(tmp_path, "Few_test.c", "Few.o")) == "PASSED\n"
    assert run(compile_c(tmp_path, "example.c", "Few.o")) == "Few_constant: c f32[] = 2.5\n"
    assert "Few_nothing" in run(compile_c(tmp_path, "Few_benchmark.c", "Few.o"), "0.01")


def test_the_same_library_gives_the_same_files():
    first, second = all_types(), all_types()
    assert programs.write(first, recorded(first)) == programs.write(second, recorded(second))
