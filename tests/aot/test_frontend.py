"""Programs of every kind become sources with names; what cannot be a library is refused with op and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import axla
import axla.aot
from axla.aot.compiling import library_of
from axla.aot.frontend import example, examples
from axla.aot.library import Role
from axla.aot.machines import alias_of, machine
from axla.aot.options import Options
from axla.aot.refusals import refuse
from axla.codegen.host import host_target
from axla.target.names import TARGETS

MATMUL = """HloModule matmul
ENTRY e {
  x.1 = f32[2,3] parameter(0)
  y.7 = f32[3,2] parameter(1)
  ROOT z = f32[2,2] dot(x.1, y.7), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
TUPLES = """HloModule tuples
ENTRY e {
  p = (f32[4], (s32[], f32[4])) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
  q = (s32[], f32[4]) get-tuple-element(p), index=1
  n = s32[] get-tuple-element(q), index=0
  b = f32[4] get-tuple-element(q), index=1
  add.3 = f32[4] add(a, b)
  ROOT r = (f32[4], s32[]) tuple(add.3, n)
}
"""
OPEN = "func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {\n  return %x : tensor<?x3xf32>\n}"


def names(one) -> tuple[list[str], list[str]]:
    source = one.source
    return [a.name for a in source.arguments], [r.name for r in source.results]


def test_names_of_hlo():
    assert names(example(MATMUL)) == (["x", "y"], ["z"])
    # Tuples are taken apart; a name that nobody chose is none.
    assert names(example(TUPLES)) == (["p_0", "p_1", "p_2"], ["result0", "result1"])
    labels = [a.label for a in example(TUPLES).source.arguments]
    assert labels == ["p[0]", "p[1]", "p[2]"]


@pytest.mark.parametrize(
    "make",
    [
        lambda path: axla.parse(MATMUL),
        lambda path: path,
        lambda path: str(path),
        lambda path: path.read_bytes(),
        lambda path: bytearray(path.read_bytes()),
        lambda path: axla.XlaComputation(axla.parse(MATMUL)),
    ],
)
def test_programs_of_many_kinds(tmp_path, make):
    path = tmp_path / "m.hlo"
    path.write_text(MATMUL)
    assert names(example(make(path))) == (["x", "y"], ["z"])


@pytest.mark.parametrize("kind", [Path, str])
def test_errors_name_the_file_of_a_program(tmp_path, kind):
    path = tmp_path / "wrong.hlo"
    path.write_text("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = f32[3] negate(x) }")
    with pytest.raises(axla.AxlaError, match="wrong.hlo"):
        axla.aot.compile(kind(path), out=tmp_path / "out")


def test_a_builder_s_computation():
    b = axla.XlaBuilder("twice")
    x = axla.ops.Parameter(b, 0, axla.Shape(axla.dtypes.F32, (4,)), "x")
    assert names(example(b.build(x + x))) == (["x"], ["result0"])


def test_example_arrays_are_kept_when_they_fit():
    x, y = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    kept = example(MATMUL, [x, y]).inputs
    assert kept is not None and np.array_equal(kept[1], y)
    assert example(MATMUL, [x]).inputs is None
    assert example(MATMUL, [x, y.astype(complex)]).inputs is None


def test_open_sizes_need_arguments():
    with pytest.raises(axla.InvalidArgument, match=r"argument 0 is tensor<\?x3xf32>"):
        example(OPEN)
    for one in (example(OPEN, [np.zeros((5, 3), np.float32)]),):
        assert one.source.module.entry.root.shape.dims == (5, 3)


def test_several_sizes_and_several_functions():
    batches = {k: [np.zeros((k, 3), np.float32)] for k in (1, 8)}
    found = [(one.source.suffix, one.source.rows) for one in examples(OPEN, batches)]
    assert found == [("1", 1), ("8", 8)]
    library, _ = library_of(OPEN, batches, Options(name="ns::Both"))
    assert library.batches == ((1, 0), (8, 1))
    assert [f.symbol for f in library.functions] == ["ns_Both_1", "ns_Both_8"]
    two = examples({"one": MATMUL, "two": OPEN}, {"two": batches[1]})
    assert [one.source.suffix for one in two] == ["one", "two"]


ROWS = {n: [np.zeros((n, 3), np.float32)] for n in (1, 2, 4, 6)}


def test_rows_may_be_a_part_of_a_dimension():
    assert [one.source.rows for one in examples(OPEN, {2: ROWS[4], 3: ROWS[6]})] == [2, 3]


def test_a_str_that_is_a_path_and_no_file_is_said_to_be_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.mlir"):
        example(str(tmp_path / "none.mlir"))


@pytest.mark.parametrize(
    "program, args, message",
    [
        (7, None, "found int"),
        (MATMUL, np.zeros(3), "wanted a tuple of arguments, found ndarray"),
        (OPEN, {}, "must be numbers of rows, found nothing"),
        (OPEN, {"a": ()}, "must be numbers of rows, found 'a'"),
        (OPEN, {0: ()}, "must be numbers of rows, found 0"),
        (OPEN, {1: ROWS[2], 3: ROWS[2]}, r"only in the rows, the keys; found 1: f32\[2,3\]; 3: f32\[2,3\]"),
        (OPEN, {1: ROWS[2], 3: ROWS[4]}, r"only in the rows, the keys; found 1: f32\[2,3\]; 3: f32\[4,3\]"),
        (OPEN, {1: ROWS[1], 3: ROWS[4]}, "only in the rows, the keys"),
        (OPEN, {4: ROWS[2]}, "only in the rows, the keys"),
        (MATMUL, {1: (), 3: ()}, "wanted a tuple|only in the rows, the keys"),
        ({}, None, "suffixes of functions as keys"),
        ({1: MATMUL}, None, "suffix of a function must be a str, found 1"),
        ({"a": MATMUL}, {"b": ()}, "no program is called 'b'; there are a"),
        ({"a": MATMUL}, (1,), "wanted a mapping with the keys of program"),
    ],
)
def test_calls_that_are_wrong(program, args, message):
    with pytest.raises(axla.InvalidArgument, match=message):
        examples(program, args)


# JAX.


def step(params, x, state):
    return {"logits": x @ params["w"] + params["b"], "state": {"n": state["n"] + 1}}


def arguments(rows: int = 4) -> tuple:
    params = {"w": np.full((3, 2), 2, np.float32), "b": np.ones(2, np.float32)}
    return params, np.ones((rows, 3), np.float32), {"n": np.float32(5)}


def test_names_of_a_jax_function():
    pytest.importorskip("jax")
    one = example(step, arguments())
    assert names(one) == (["params_b", "params_w", "x", "state_n"], ["logits", "state_n"])
    assert one.source.arguments[0].label == "params['b']"
    assert one.inputs is not None and float(one.inputs[3]) == 5
    assert names(example(lambda x: (x, x + 1), (np.float32(1),)))[1] == ["result0", "result1"]
    assert names(example(lambda x: x + 1, (np.float32(1),)))[1] == ["result0"]


def test_variables_of_a_jax_function():
    pytest.importorskip("jax")
    library, _ = library_of(step, arguments(), Options(variables=("params", "state")))
    [function] = library.functions
    roles = [value.role for value in function.arguments]
    assert roles == [Role.CONSTANT_VARIABLE, Role.CONSTANT_VARIABLE, Role.ARGUMENT, Role.VARIABLE]
    assert [value.name for value in function.results] == ["logits"]


def test_donated_arguments_are_variables():
    jax = pytest.importorskip("jax")
    library, _ = library_of(jax.jit(step, donate_argnums=2), arguments())
    assert library.functions[0].arguments[3].role is Role.VARIABLE


def test_exports(tmp_path):
    jax = pytest.importorskip("jax")
    pytest.importorskip("flatbuffers")
    exported = jax.export.export(jax.jit(step))(*arguments())
    wanted = ["params_b", "params_w", "x", "state_n"], ["logits", "state_n"]
    path = tmp_path / "step.export"
    path.write_bytes(exported.serialize())
    for program in (exported, exported.serialize(), bytes(exported.serialize()), path, str(path)):
        assert names(example(program)) == wanted
    (rows,) = jax.export.symbolic_shape("rows")
    params, _, state = arguments()
    open_ = jax.export.export(jax.jit(step))(params, jax.ShapeDtypeStruct((rows, 3), np.float32), state)
    with pytest.raises(axla.InvalidArgument, match="argument 2 is tensor"):
        example(open_)
    one = example(open_, arguments(9))
    assert names(one) == wanted and one.source.module.entry.parameters[2].shape.dims == (9, 3)


def test_jax_functions_need_arguments():
    pytest.importorskip("jax")
    with pytest.raises(axla.InvalidArgument, match="args: a JAX function is compiled for arguments"):
        example(step)


def test_bytes_that_are_nothing():
    for content in (b"\x00\x01\x02\xff" * 9, b"\xff" * 40, b"ML\xefR\xff\xff"):
        with pytest.raises(axla.AxlaError):
            example(content)


# Refused.

AT = 'metadata={op_name="step" source_file="train.py" source_line=42}'


@pytest.mark.parametrize(
    "body, message",
    [
        (f"t = token[] after-all()\n  i = (f32[4], token[]) infeed(t), {AT}\n"
         "  ROOT r = f32[4] get-tuple-element(i), index=0", "infeed .*train.py:42"),
        (f"x = f32[4] parameter(0)\n  t = token[] after-all()\n  ROOT o = token[] outfeed(x, t), {AT}",
         "outfeed .*train.py:42"),
        (f"x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), replica_groups={{{{0,1}}}}, "
         f"to_apply=add, {AT}",
         "all-reduce .*train.py:42.* 2 participants"),
        (f'x = f32[4] parameter(0)\n  ROOT r = f32[4] custom-call(x), '
         f'custom_call_target="xla_python_cpu_callback", {AT}', "custom-call .*train.py:42.* calls back"),
        (f"ROOT x = f32[<=4] parameter(0), {AT}", r"f32\[<=4\].*train.py:42"),
    ],
)  # fmt: skip
def test_what_no_library_can_have(body, message):
    add = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
    text = f"HloModule m\n{add}ENTRY e {{\n  {body}\n}}\n"
    with pytest.raises(axla.UnsupportedError, match=message):
        refuse(axla.parse(text))


def test_one_participant_is_no_collective():
    add = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
    text = f"{add}ENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), to_apply=add\n}}\n"
    refuse(axla.parse(text))
    with pytest.raises(axla.UnsupportedError, match="8 participants"):
        refuse(axla.parse("HloModule m, replica_count=8\n" + text))
    alone = "HloModule m, num_partitions=8\nENTRY e { ROOT x = f32[4] parameter(0) }"
    with pytest.raises(axla.UnsupportedError, match="8 participants, by its header"):
        refuse(axla.parse(alone))


# Machines.


@pytest.mark.parametrize(
    "name, alias",
    [
        ("x86_64-linux-gnu", "x86-64"), ("x86_64-unknown-linux-musl", "x86-64"),
        ("amd64-linux-gnu", "x86-64"), ("aarch64-linux-gnu", "aarch64"),
        ("xtensa-none-elf", None), ("armv7-linux-gnueabihf", "armv7hf"),
        ("thumbv7em-none-eabihf", "cortex-m4f"), ("thumbv8m.main-none-eabihf", "cortex-m33"),
        ("riscv64-linux-gnu", "riscv64gc"), ("riscv32-unknown-elf", "riscv32imafc"),
        ("wasm32-wasi", "wasm32"), ("x86_64-pc-windows-msvc", "windows-x86-64"),
        ("arm64-apple-darwin23.1.0", "macos-arm64"),
        ("x86_64-apple-macosx", "macos-x86-64"), ("m68k-sun-sunos", None),
    ],
)  # fmt: skip
def test_triples_stand_for_targets(name, alias):
    assert alias_of(name) == alias
    if alias is None:
        with pytest.raises(axla.InvalidArgument, match=f"target '{name}' is unknown"):
            machine(name)
    else:
        assert machine(name) == TARGETS[alias]


def test_targets_with_other_cpus_and_features():
    assert machine("native") == host_target()
    assert machine("x86-64", "x86-64-v3") == TARGETS["x86-64-v3"]
    assert machine("x86-64", features=["+fma"]).has_fma
    with pytest.raises(axla.InvalidArgument, match="did you mean cortex-m4f"):
        machine("cortex-m4")
    with pytest.raises(axla.InvalidArgument, match=r"'fma': wanted \+ or -"):
        machine("x86-64", features=["fma"])
    with pytest.raises(axla.InvalidArgument, match="found int"):
        machine(4)  # type: ignore[arg-type]


@pytest.mark.parametrize("cpu, features", [("z80", ()), (None, ["+warp-drive"])])
def test_llvm_must_know_cpu_and_features(cpu, features):
    for _ in range(2):
        with pytest.raises(
            axla.InvalidArgument, match="target x86-64: .*(z80|warp-drive)' is not a recognized"
        ):
            library_of(MATMUL, None, Options(target_cpu=cpu, target_features=features))
    library_of(MATMUL)
