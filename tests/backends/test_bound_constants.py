"""`axla.compile(constant=...)`: parameters that are constants of the program."""

import numpy as np
import pytest

import axla
from axla.core.errors import InvalidArgument, VerifyError

MODULE = """HloModule bound
ENTRY e {
  x = f32[40,300] parameter(0)
  w = f32[300,WIDE] parameter(1)
  b = f32[WIDE] parameter(2)
  d = f32[40,WIDE] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[40,WIDE] broadcast(b), dimensions={1}
  ROOT r = f32[40,WIDE] add(d, bb)
}"""


def program(wide):
    random = np.random.default_rng(wide)
    arrays = [random.standard_normal(s, dtype=np.float32) for s in ((40, 300), (300, wide), (wide,))]
    return axla.parse(MODULE.replace("WIDE", str(wide))), arrays


@pytest.mark.parametrize("backend", ["cpu", "one-lane", "interpreter"])
@pytest.mark.parametrize("wide", [192, 250])
def test_constants_give_what_arguments_give(backend, wide):
    module, (x, w, b) = program(wide)
    wanted = np.asarray(axla.compile(module, backend=backend)(x, w, b))
    bound = axla.compile(module, backend=backend, constant={"w": w, 2: b})
    assert [p.name for p in bound.interface.parameters] == ["x"]
    np.testing.assert_array_equal(np.asarray(bound(x)), wanted)
    first = axla.compile(module, backend=backend, constant=[(0, axla.Literal.of(x))])
    np.testing.assert_array_equal(np.asarray(first(w, b)), wanted)
    assert len(module.entry.parameters) == 3


def test_arrays_that_are_written_to_later_change_nothing():
    module, (x, w, b) = program(192)
    bound = axla.compile(module, constant={"w": w})
    wanted = np.asarray(bound(x, b)).copy()
    w[:] = 0
    np.testing.assert_array_equal(np.asarray(bound(x, b)), wanted)
    assert bound.as_text("optimized") == axla.compile(module, constant={"w": program(192)[1][1]}).as_text(
        "optimized"
    )


LARGE = """HloModule large
ENTRY e {
  x = f32[40,256] parameter(0)
  a = f32[256,192] parameter(1)
  b = f32[192,320] parameter(2)
  c = f32[40,320] parameter(3)
  s = f32[320,256] parameter(4)
  d = f32[40,192] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[40,320] dot(d, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[40,320] add(f, c)
  t = f32[256,320] transpose(s), dimensions={1,0}
  u = f32[320,256] exponential(s)
  v = f32[256,320] transpose(u), dimensions={1,0}
  h = f32[40,320] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  i = f32[40,320] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[40,320], f32[40,320], f32[40,320]) tuple(g, h, i)
}"""


@pytest.mark.parametrize("backend", ["cpu", "one-lane", "interpreter"])
@pytest.mark.parametrize("kept", [False, True])
def test_large_arrays_may_be_written_to_once_they_are_compiled(backend, kept):
    """In panels, as they are, transposed, and folded; compiled, and found in the cache."""
    random = np.random.default_rng(5)
    dims = (40, 256), (256, 192), (192, 320), (40, 320), (320, 256)
    x, *weights = [random.standard_normal(d, dtype=np.float32) / 8 for d in dims]
    module = axla.parse(LARGE)
    wanted = [np.asarray(y) for y in axla.compile(module, backend=backend)(x, *weights)]
    if kept:
        axla.compile(module, backend=backend, constant=enumerate([w.copy() for w in weights], 1))
    texts = [w.copy() for w in weights]
    flags = {"xla_cpu_enable_fast_math": False} if kept else {"verify": True}
    bound = axla.compile(module, backend=backend, constant=enumerate(weights, 1), flags=flags)
    for weight in weights:
        weight[...] = np.nan
    for found, right in zip(bound(x), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), right, rtol=1e-5, atol=1e-6)
    again = axla.compile(module, backend=backend, constant=enumerate(texts, 1), flags=flags)
    for stage in ("hlo", "optimized"):
        assert bound.as_text(stage) == again.as_text(stage)
        assert "nan" not in bound.as_text(stage)


def test_large_constants_are_in_memory_once():
    weight = np.random.default_rng(0).standard_normal((256, 192), dtype=np.float32)
    module = axla.parse(MODULE.replace("300", "256").replace("WIDE", "192"))
    for number in range(2):  # compiled, and found in the cache
        bound = axla.compile(module, constant={"w": weight})
        constants = [i.op.literal for i in bound._source().entry.instructions if i.opcode == "constant"]
        assert not any(np.shares_memory(c._values, weight) for c in constants)
        segment = np.frombuffer(bound._loaded.constants(), np.uint8)
        assert number or [np.shares_memory(c._values, segment) for c in constants] == [True]
        np.testing.assert_array_equal(constants[0].array, weight)


def test_a_view_that_is_read_only_is_copied_where_its_memory_may_be_written():
    module, (x, w, b) = program(192)
    view = w.view()
    view.flags.writeable = False
    bound = axla.compile(module, backend="interpreter", constant={"w": view})
    wanted = np.asarray(bound(x, b)).copy()
    w[:] = 0
    np.testing.assert_array_equal(np.asarray(bound(x, b)), wanted)


def test_a_program_keeps_its_constants_in_bytes():
    module, (x, w, b) = program(192)
    bound = axla.compile(module, constant={"w": w})
    again = axla.Executable.load(bound.serialize())
    np.testing.assert_array_equal(np.asarray(again(x, b)), np.asarray(bound(x, b)))


@pytest.mark.parametrize(
    "constant, message",
    [
        ([(3, 0)], "constant has parameter 3; there are 3"),
        ([(-1, 0)], "constant has parameter -1; there are 3"),
        ([("v", 0)], "constant has 'v', which is not a number or name of a parameter"),
        ([("b", np.zeros(192, "f")), (2, np.zeros(192, "f"))], "constant has parameter 2, b, twice"),
        ({"b": np.zeros(192)}, r"constant 'b': wanted f32\[192\], found float64\[192\]"),
        ({"b": np.zeros(3, "f")}, r"constant 'b': wanted f32\[192\], found float32\[3\]"),
        ([1], "wanted a mapping, or pairs"),
        (7, "wanted a mapping, or pairs"),
        (np.ones(3), "wanted a mapping, or pairs"),
    ],
)
def test_what_is_wrong_is_named(constant, message):
    with pytest.raises(InvalidArgument, match=message):
        axla.compile(program(192)[0], constant=constant)


def test_memory_of_a_result_is_no_constant():
    module = axla.parse(
        "HloModule a, input_output_alias={ {}: (0, {}, may-alias) }\n"
        "ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT n = f32[4] negate(x)\n}"
    )
    with pytest.raises(InvalidArgument, match="parameter 0, x, which is donated"):
        axla.compile(module, constant={0: np.zeros(4, "f")})


def test_an_invalid_module_is_refused():
    module, (x, *_) = program(192)
    root = module.entry.root
    module.entry.set_operands(root, [root, root.operands[1]])
    with pytest.raises(VerifyError, match="cycle"):
        axla.compile(module, constant={"x": x})
