"""Dynamic dimensions: what lies behind the actual size never counts, in generated code and interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from three_ways import agree

import axla.api as axla
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.hlo import Parameter

COMPUTATIONS = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
two { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  e = f32[] add(a, c)
  f = f32[] maximum(b, d)
  ROOT r = (f32[], f32[]) tuple(e, f) }
second { a = f32[] parameter(0)
  ROOT b = f32[] parameter(1) }
twice { a = f32[] parameter(0)
  ROOT b = f32[] add(a, a) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
less2 { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT }
branch1 { p = (f32[<=4,6]) parameter(0)
  x = f32[<=4,6] get-tuple-element(p), index=0
  y = f32[<=4,6] add(x, x)
  ROOT r = (f32[<=4,6], f32[<=4,6]) tuple(y, x) }
branch2 { p = (f32[<=4,6]) parameter(0)
  x = f32[<=4,6] get-tuple-element(p), index=0
  ROOT r = (f32[<=4,6], f32[<=4,6]) tuple(x, x) }
called { x = f32[<=4,6] parameter(0)
  ROOT r = f32[<=4,6] negate(x) }
condition { s = (s32[], f32[<=4,6]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  c = s32[] constant(3)
  ROOT r = pred[] compare(n, c), direction=LT }
body { s = (s32[], f32[<=4,6]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  x = f32[<=4,6] get-tuple-element(s), index=1
  y = f32[<=4,6] add(x, x)
  z = s32[] get-dimension-size(y), dimensions={0}
  w = s32[] subtract(z, one)
  v = f32[<=4,6] set-dimension-size(y, w), dimensions={0}
  ROOT r = (s32[], f32[<=4,6]) tuple(m, v) }
"""

HEAD = """
ENTRY e {
  p = f32[4,6] parameter(0)
  n = s32[] parameter(1)
  m = s32[] parameter(2)
  zero = f32[] constant(0)
  low = f32[] constant(-1e9)
  k = s32[] constant(0)
  r = f32[<=4,6] set-dimension-size(p, n), dimensions={0}
  c = f32[4,<=6] set-dimension-size(p, m), dimensions={1}
"""

# From r, of n rows, and c, of m columns; everything reduced to what the sizes leave.
PROGRAMS = {
    "sum of rows": "ROOT s = f32[6] reduce(r, zero), dimensions={0}, to_apply=add",
    "sum of both": "ROOT s = f32[] reduce(c, zero), dimensions={0,1}, to_apply=add",
    "two results": """t = (f32[4], f32[4]) reduce(c, c, zero, low), dimensions={1}, to_apply=two
  ROOT s = f32[4] get-tuple-element(t), index=1""",
    "sizes are common": """a = f32[<=4,<=6] add(r, c)
  ROOT s = f32[] reduce(a, zero), dimensions={0,1}, to_apply=add""",
    "size of a sum": """a = f32[<=4,6] add(r, p)
  ROOT s = s32[] get-dimension-size(a), dimensions={0}""",
    "size of a static dimension": "ROOT s = s32[] get-dimension-size(p), dimensions={1}",
    "broadcast": """t = f32[<=4] reduce(r, zero), dimensions={1}, to_apply=add
  b = f32[3,<=4] broadcast(t), dimensions={1}
  ROOT s = f32[3] reduce(b, zero), dimensions={1}, to_apply=add""",
    "transpose": """t = f32[6,<=4] transpose(r), dimensions={1,0}
  ROOT s = f32[6] reduce(t, zero), dimensions={1}, to_apply=add""",
    "reverse": """t = f32[<=4,6] reverse(r), dimensions={0,1}
  ROOT s = f32[1,6] slice(t), slice={[0:1], [0:6]}""",
    "slice": """t = f32[<=4,2] slice(r), slice={[0:4], [1:3]}
  ROOT s = f32[2] reduce(t, zero), dimensions={0}, to_apply=add""",
    "dynamic slice": """t = f32[<=4,2] dynamic-slice(r, k, n), dynamic_slice_sizes={4,2}
  ROOT s = f32[2] reduce(t, zero), dimensions={0}, to_apply=add""",
    "update": """q = f32[4,6] negate(p)
  ROOT s = f32[4,6] dynamic-update-slice(q, r, k, k)""",
    "update of a shape that says more than is known": """b = f32[<=4,6] broadcast(zero), dimensions={}
  q = f32[1,6] slice(p), slice={[1:2], [0:6]}
  u = f32[<=4,6] dynamic-update-slice(b, q, k, k)
  ROOT s = f32[1,6] slice(u), slice={[1:2], [0:6]}""",
    "pad": """t = f32[<=9,6] pad(r, low), padding=1_1_1x0_0
  ROOT s = f32[6] reduce(t, zero), dimensions={0}, to_apply=add""",
    "pad, its size": """t = f32[<=9,6] pad(r, low), padding=1_1_1x0_0
  ROOT s = s32[] get-dimension-size(t), dimensions={0}""",
    "concatenate": """t = f32[<=12,6] concatenate(r, p, r), dimensions={0}
  i = s32[12,6] iota(), iota_dimension=0
  f = f32[12,6] convert(i)
  w = f32[<=12,6] multiply(t, f)
  ROOT s = f32[6] reduce(w, zero), dimensions={0}, to_apply=add""",
    "reshape that merges": """t = f32[<=24] reshape(c)
  f = f32[24] iota(), iota_dimension=0
  w = f32[<=24] multiply(t, f)
  ROOT s = f32[] reduce(w, zero), dimensions={0}, to_apply=add""",
    "reshape that splits": """t = f32[<=4,2,3] reshape(r)
  ROOT s = f32[2,3] reduce(t, zero), dimensions={0}, to_apply=add""",
    "reshape that splits a dynamic dimension": """e = s32[] constant(2)
  d = s32[] multiply(e, e)
  q = f32[4,<=6] set-dimension-size(p, d), dimensions={1}
  t = f32[4,2,<=3] reshape(q), inferred_dimension=2
  ROOT s = f32[4,2] reduce(t, zero), dimensions={2}, to_apply=add""",
    "dynamic reshape": """a = s32[] constant(6)
  t = f32[<=6,<=4] dynamic-reshape(r, a, n)
  f = f32[6,4] iota(), iota_dimension=1
  w = f32[<=6,<=4] multiply(t, f)
  ROOT s = f32[] reduce(w, zero), dimensions={0,1}, to_apply=add""",
    "window": """t = f32[<=2,6] reduce-window(r, zero), window={size=2x1 stride=2x1}, to_apply=add
  ROOT s = f32[6] reduce(t, low), dimensions={0}, to_apply=add""",
    "padded window, its size": """t = f32[<=3,6] reduce-window(r, zero),
    window={size=3x1 stride=2x1 pad=1_2x0_0}, to_apply=add
  ROOT s = s32[] get-dimension-size(t), dimensions={0}""",
    "dot that contracts": """t = f32[6,6] dot(r, r), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT s = f32[6,6] add(t, t)""",
    "dot that keeps": """t = f32[<=4,4] dot(r, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT s = f32[4] reduce(t, zero), dimensions={0}, to_apply=add""",
    "sort": """t = f32[4,<=6] sort(c), dimensions={1}, to_apply=less
  ROOT s = f32[4,1] slice(t), slice={[0:4], [0:1]}""",
    "sort of two": """t = (f32[4,<=6], f32[4,<=6]) sort(c, c), dimensions={1}, is_stable=true, to_apply=less2
  u = f32[4,<=6] get-tuple-element(t), index=1
  f = f32[4,6] iota(), iota_dimension=1
  w = f32[4,<=6] multiply(u, f)
  ROOT s = f32[4] reduce(w, zero), dimensions={1}, to_apply=add""",
    "gather": """i = s32[3] constant({0, 2, 0})
  j = s32[<=3] set-dimension-size(i, n), dimensions={0}
  t = f32[<=3,6] gather(p, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,6}
  ROOT s = f32[6] reduce(t, zero), dimensions={0}, to_apply=add""",
    "scatter": """i = s32[4] constant({3, 1, 0, 2})
  j = s32[<=4] set-dimension-size(i, n), dimensions={0}
  ROOT s = f32[4,6] scatter(p, j, r), to_apply=second, update_window_dims={1},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1""",
    "slice of a part": """t = f32[3,6] slice(r), slice={[0:3], [0:6]}
  q = f32[3,6] slice(p), slice={[1:4], [0:6]}
  a = f32[3,6] add(t, q)
  ROOT s = f32[1,6] slice(a), slice={[0:1], [0:6]}""",
    "dot with a static operand": """t = f32[6,6] dot(r, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT s = f32[6,6] add(t, t)""",
    "dot of batches": """t = f32[<=4,6,6] dot(r, p), lhs_batch_dims={0}, rhs_batch_dims={0}
  ROOT s = f32[6,6] reduce(t, zero), dimensions={0}, to_apply=add""",
    "convert to a fixed size": """t = s32[4,6] convert(r)
  u = f32[4,6] convert(t)
  z = s32[] get-dimension-size(t), dimensions={0}
  f = f32[] convert(z)
  b = f32[4,6] broadcast(f), dimensions={}
  q = f32[4,6] multiply(u, b)
  ROOT s = f32[1,6] slice(q), slice={[0:1], [0:6]}""",
    "choice by a condition": """g = f32[4,6] broadcast(zero), dimensions={}
  d = pred[<=4,6] compare(r, g), direction=GT
  t = f32[4,6] select(d, p, g)
  ROOT s = f32[1,6] slice(t), slice={[0:1], [0:6]}""",
    "map of two": """t = f32[<=4,6] map(r, p), dimensions={0,1}, to_apply=add
  ROOT s = f32[6] reduce(t, zero), dimensions={0}, to_apply=add""",
    "concatenate, other sizes": """t = f32[<=4,12] concatenate(r, p), dimensions={1}
  ROOT s = f32[12] reduce(t, zero), dimensions={0}, to_apply=add""",
    "pad that takes away": """t = f32[<=2,6] pad(r, low), padding=-3_1x0_0
  ROOT s = f32[6] reduce(t, zero), dimensions={0}, to_apply=add""",
    "reshape to a fixed size": """t = f32[24] reshape(r)
  ROOT s = f32[6] slice(t), slice={[0:6]}""",
    "reshape that rounds up": """u = f32[<=24] reshape(c)
  t = f32[<=8,3] reshape(u)
  ROOT s = s32[] get-dimension-size(t), dimensions={0}""",
    "scatter of few updates": """i = s32[4] constant({3, 1, 0, 2})
  ROOT s = f32[4,6] scatter(p, i, r), to_apply=second, update_window_dims={1},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1""",
    "convolution over features": """x = f32[4,6,1] reshape(p)
  w = f32[4,<=6,1] reshape(c)
  t = f32[4,4,1] convolution(x, w), window={size=1}, dim_labels=bf0_oi0->bf0
  ROOT s = f32[4,4,1] add(t, t)""",
    "map": """t = f32[<=4,6] map(r), dimensions={0,1}, to_apply=twice
  ROOT s = f32[6] reduce(t, zero), dimensions={0}, to_apply=add""",
    "conditional": """b = pred[] compare(n, k), direction=GT
  t = (f32[<=4,6]) tuple(r)
  u = (f32[<=4,6], f32[<=4,6]) conditional(b, t, t), true_computation=branch1, false_computation=branch2
  v = f32[<=4,6] get-tuple-element(u), index=0
  ROOT s = f32[6] reduce(v, zero), dimensions={0}, to_apply=add""",
    "call": """t = f32[<=4,6] call(r), to_apply=called
  ROOT s = f32[6] reduce(t, zero), dimensions={0}, to_apply=add""",
    "loop that shrinks": """t = (s32[], f32[<=4,6]) tuple(k, r)
  u = (s32[], f32[<=4,6]) while(t), condition=condition, body=body
  v = f32[<=4,6] get-tuple-element(u), index=1
  ROOT s = f32[6] reduce(v, zero), dimensions={0}, to_apply=add""",
}
# Where these sizes leave something to look at.
SIZES = {
    "reverse": ((1, 2), (3, 6), (4, 1)),
    "sort": ((1, 2), (3, 6), (4, 1)),
    "dynamic reshape": ((0, 0), (3, 0), (4, 0)),
}
for _name in (
    "slice of a part",
    "convert to a fixed size",
    "choice by a condition",
    "reshape to a fixed size",
):
    SIZES[_name] = ((1, 2), (3, 6), (4, 1))
SIZES["loop that shrinks"] = ((4, 0), (3, 0))


@pytest.mark.parametrize("name", PROGRAMS)
def test_backends_agree(name):
    x = (np.arange(24, dtype=np.float32).reshape(4, 6) * 5 % 17) - 4
    x[3, 5] = np.float32(1e30)
    text = "HloModule m\n" + COMPUTATIONS + HEAD + "  " + PROGRAMS[name] + "\n}"
    for sizes in SIZES.get(name, ((0, 6), (1, 2), (3, 5), (4, 1), (9, -1))):
        agree(text, [x, *(np.int32(n) for n in sizes)], 1e-6)


def test_what_is_behind_the_size_does_not_count():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    text = "HloModule m\n" + COMPUTATIONS + HEAD + "  " + PROGRAMS["sum of rows"] + "\n}"
    (found,) = agree(text, [x, np.int32(2), np.int32(0)])
    assert found.tolist() == x[:2].sum(0).tolist()
    text = text.replace(PROGRAMS["sum of rows"], PROGRAMS["reshape that merges"])
    (found,) = agree(text, [x, np.int32(0), np.int32(3)])
    assert found == (x[:, :3].ravel() * np.arange(12)).sum()


@pytest.mark.parametrize("dtype", ["u8", "s8", "pred"])
@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "minimum", "and", "or"])
def test_what_is_left_out_of_a_reduction(opcode, dtype):
    """The initial value counts once, however many elements do not."""
    text = f"""HloModule m
f {{ a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT r = {dtype}[] {opcode}(a, b) }}
ENTRY e {{ p = {dtype}[4] parameter(0)
  n = s32[] parameter(1)
  i = {dtype}[] parameter(2)
  r = {dtype}[<=4] set-dimension-size(p, n), dimensions={{0}}
  ROOT s = {dtype}[] reduce(r, i), dimensions={{0}}, to_apply=f }}"""
    kind = axla.parse(text).entry.parameters[0].shape.dtype.numpy
    for n in (0, 2):
        agree(text, [np.array([3, 1, 0, 1]).astype(kind), np.int32(n), np.array(1).astype(kind)])


# The same programs, but r and c are arguments, and what is of dynamic size on the way is the result.
BORDER = """
ENTRY e {
  r = f32[<=4,6] parameter(0)
  c = f32[4,<=6] parameter(1)
  p = f32[4,6] parameter(2)
  zero = f32[] constant(0)
  low = f32[] constant(-1e9)
  k = s32[] constant(0)
  n = s32[] get-dimension-size(r), dimensions={0}
  m = s32[] get-dimension-size(c), dimensions={1}
"""


def is_dynamic(inst) -> bool:
    return any(isinstance(leaf, Shape) and leaf.is_dynamic for leaf in inst.shape.leaves())


@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_and_results_of_dynamic_size(name):
    x = (np.arange(24, dtype=np.float32).reshape(4, 6) * 5 % 17) - 4
    module = axla.parse("HloModule m\n" + COMPUTATIONS + BORDER + "  " + PROGRAMS[name] + "\n}")
    entry = module.entry
    roots = [i for i in entry.instructions if is_dynamic(i) and not isinstance(i.op, Parameter)]
    for root in [entry.root, *roots]:
        entry.set_root(root)
        module.set_config(entry_layout=None)
        for rows, columns in SIZES.get(name, ((0, 2), (3, 5), (4, 6))):
            agree(module.to_string(), [x[:rows], x[:, :columns], x], 1e-6)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "pred", "s4", "c64"])
def test_trees_of_dynamic_arrays(dtype):
    """Parameters that are results, unused ones, tuples in tuples, two dynamic dimensions, empty tuples."""
    kind = axla.parse(f"HloModule m\nENTRY e {{ ROOT a = {dtype}[] parameter(0) }}").entry.root.shape.dtype
    x = (np.arange(12) % 2).astype(kind.numpy)
    a, b, c = x[:3], x[:6].reshape(3, 2), x[:0]
    text = f"""HloModule m
ENTRY e {{
  p = ({dtype}[<=4], ({dtype}[<=3,<=5], s32[2]), ()) parameter(0)
  unused = {dtype}[<=9] parameter(1)
  q = {dtype}[<=9] parameter(2)
  t = ({dtype}[<=3,<=5], s32[2]) get-tuple-element(p), index=1
  u = {dtype}[<=3,<=5] get-tuple-element(t), index=0
  v = {dtype}[<=5,<=3] transpose(u), dimensions={{1,0}}
  s = s32[] get-dimension-size(u), dimensions={{1}}
  ROOT r = (({dtype}[<=4], ({dtype}[<=3,<=5], s32[2]), ()), {dtype}[<=5,<=3], s32[], {dtype}[<=9])
    tuple(p, v, s, q)
}}"""
    found = agree(text, [a, b, np.int32([1, 2]), x[:9], c])
    assert [f.shape for f in found] == [(3,), (3, 2), (2,), (2, 3), (), (0,)]
    agree(f"HloModule m\nENTRY e {{ ROOT p = {dtype}[<=4] parameter(0) }}", [a])
    one = f"HloModule m\nENTRY e {{ p = {dtype}[<=4] parameter(0)\n ROOT t = ({dtype}[<=4]) tuple(p) }}"
    agree(one, [a])


# Result and op of parameters, with their shapes and the sizes that are given.
MORE = {
    "convolution": (
        "f32[<=4,<=7,<=3,4] convolution(a, b), window={size=3x3 pad=1_1x0_1 stride=1x2 lhs_dilate=2x1}, "
        "dim_labels=b01f_01io->b01f",
        ("f32[<=4,<=4,<=6,<=2]", (3, 3, 5, 1)), ("f32[3,3,<=2,4]", (3, 3, 1, 4)),
    ),
    "convolution in groups": (
        "f32[2,<=3,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2",
        ("f32[2,<=5,2]", (2, 4, 2)), ("f32[3,1,4]", (3, 1, 4)),
    ),
    "fft": ("c64[<=3,5] fft(a), fft_type=RFFT, fft_length={8}", ("f32[<=3,8]", (2, 8))),
    "topk": ("(f32[<=4,2], s32[<=4,2]) topk(a), k=2, largest=true", ("f32[<=4,6]", (3, 6))),
    "triangular-solve": (
        "f32[<=4,2,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
        ("f32[<=4,2,2]", (3, 2, 2)), ("f32[<=4,2,2]", (2, 2, 2)),
    ),
    "parts of elements": ("u8[<=4,4] bitcast-convert(a)", ("f32[<=4]", (3,))),
    "elements of parts": ("s32[<=4] bitcast-convert(a)", ("s16[<=4,2]", (3, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_other_ops(name):
    op, *given = MORE[name]
    lines = [f"{'ab'[n]} = {shape} parameter({n})" for n, (shape, _) in enumerate(given)]
    text = "HloModule m\nENTRY e {\n" + "\n".join([*lines, f"ROOT r = {op} }}"])
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(1, 9, sizes).astype(np.int16 if shape.startswith("s16") else np.float32)
        for shape, sizes in given
    ]
    if name == "triangular-solve":
        inputs = [x[:2] for x in inputs]  # the interpreter has one size for both
    agree(text, inputs, 1e-6)


@pytest.mark.parametrize(
    "op",
    [
        "f32[4,<=4] cholesky(a)",
        "c64[4,<=3] fft(a), fft_type=RFFT, fft_length={4}",
        "(f32[4,2], s32[4,2]) topk(a), k=2, largest=true",
        "(f32[4,<=4], f32[4], f32[4]) batch-norm-training(a, b, b), epsilon=1, feature_index=0",
    ],
)
def test_what_is_refused_by_name(op):
    text = f"HloModule m\nENTRY e {{ a = f32[4,<=4] parameter(0)\n b = f32[4] parameter(1)\n ROOT r = {op} }}"
    opcode = op[: op.index("(a")].split()[-1]
    with pytest.raises(UnsupportedError, match=f"{opcode} of .* dynamic size is not supported"):
        axla.compile(axla.parse(text))


def test_a_called_computation_hands_its_parameter_on():
    text = """HloModule m
inner { x = f32[<=4,6] parameter(0)
  ROOT r = f32[<=4,6] negate(x) }
outer { x = f32[<=4,6] parameter(0)
  ROOT r = f32[<=4,6] call(x), to_apply=inner }
ENTRY e { x = f32[<=4,6] parameter(0)
  ROOT r = f32[<=4,6] call(x), to_apply=outer }"""
    (found,) = agree(text, [np.ones((2, 6), np.float32)])
    assert found.tolist() == [[-1] * 6] * 2


def test_dynamic_reshape_takes_live_elements_in_order():
    text = """HloModule m
ENTRY e { x = f32[3,<=4] parameter(0)
  a = s32[] parameter(1)
  b = s32[] parameter(2)
  ROOT r = f32[<=6,<=6] dynamic-reshape(x, a, b) }"""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for columns, sizes in ((4, (2, 6)), (2, (6, 1)), (2, (3, 2)), (3, (3, 3)), (0, (0, 5))):
        (found,) = agree(text, [x[:, :columns], *map(np.int32, sizes)])
        assert found.tolist() == x[:, :columns].reshape(sizes).tolist()
    for dims, sizes in (("6,2", (6, 2)), ("<=6,2", (6, 2)), ("4,<=3", (4, 3))):
        still = text.replace("[3,<=4]", "[3,4]").replace("[<=6,<=6]", f"[{dims}]")
        agree(still, [x, *map(np.int32, sizes)])


def test_sizes_beyond_the_bounds_stay_in_memory():
    """The sizes of a dynamic-reshape are an operand like others: wrong ones must not reach outside."""
    text = """HloModule m
ENTRY e { x = f32[<=6] parameter(0)
  a = s32[] parameter(1)
  ROOT r = f32[<=6] dynamic-reshape(x, a) }"""
    call = axla.compile(axla.parse(text))
    for size, count in ((9, 6), (2**31 - 1, 6), (-1, 0), (-(2**31), 0)):
        assert call(np.ones(3, np.float32), np.int32(size)).shape == (count,)


@pytest.mark.parametrize(
    ("of", "to"),
    [
        ("<=1,6", "<=6"), ("<=1,<=6", "<=6"), ("<=1", "<=1,1"), ("6,<=1", "<=1,6"), ("2,<=1,3", "2,<=1,3,1"),
        ("2,<=1", "2,1,<=1"), ("<=1,2", "1,<=1,2"), ("<=1,2", "<=1,2,1"), ("<=1,<=1", "<=1"),
        ("<=0,3", "<=0"),
    ],
)  # fmt: skip
def test_reshape_of_a_dimension_of_at_most_one_element(of, to):
    """XLA carries it at the ends of a shape alone, and refuses it elsewhere."""
    text = f"HloModule m\nENTRY e {{ p = f32[{of}] parameter(0)\n ROOT r = f32[{to}] reshape(p) }}"
    bounds = [(int(d.lstrip("<=")), d[0] == "<") for d in of.split(",")]
    for less in (0, 1):
        dims = [max(0, n - less) if dynamic else n for n, dynamic in bounds]
        (found,) = agree(text, [np.arange(1, 1 + np.prod(dims), dtype=np.float32).reshape(dims)])
        assert found.ravel().tolist() == list(range(1, 1 + found.size)) and found.size == np.prod(dims)


def test_which_dimension_takes_a_size():
    text = "HloModule m\nENTRY e { p = f32[<=6] parameter(0)\n ROOT r = f32[<=3,<=2] reshape(p) }"
    for backend in ("interpreter", "cpu"):
        with pytest.raises(UnsupportedError, match=r"dimensions \[0, 1\]; set inferred_dimension"):
            axla.compile(axla.parse(text), backend=backend).execute([np.ones(5, np.float32)])
    text = text.replace("reshape(p)", "reshape(p), inferred_dimension=1").replace("<=3", "3")
    (found,) = agree(text, [np.arange(3, dtype=np.float32)])
    assert found.tolist() == [[0], [1], [2]]


def test_set_dimension_size_keeps_the_other_sizes():
    """Whatever its shape declares, as in XLA."""
    text = """add { x = s32[] parameter(0)  y = s32[] parameter(1)  ROOT z = s32[] add(x, y) }
    ENTRY e { p = s32[2,3,3] parameter(0)  two = s32[] constant(2)  zero = s32[] constant(0)
      a = s32[2,<=3,3] set-dimension-size(p, two), dimensions={1}
      b = s32[2,3,<=3] set-dimension-size(a, two), dimensions={2}
      r = s32[<=18] reshape(b)
      ROOT s = s32[] reduce(r, zero), dimensions={0}, to_apply=add }"""
    given = np.arange(18, dtype=np.int32).reshape(2, 3, 3)
    (found,) = agree(text, [given])
    assert found == given[:, :2, :2].sum()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("c = f32[<=2,2] constant({{1,2},{3,4}})\n ROOT r = f32[<=2,2] negate(c)", [[-1, -2], [-3, -4]]),
        ("x = f32[1,3] constant({{1,3,2}})\n t = (f32[1,<=2], s32[1,<=2]) custom-call(x), "
         'custom_call_target="TopK"\n ROOT r = f32[1,<=2] get-tuple-element(t), index=0', [[3, 2]]),
    ],
)  # fmt: skip
def test_sizes_that_are_declared_dynamic_alone(text, wanted):
    (found,) = agree(f"HloModule m\nENTRY e {{ {text} }}", [])
    assert found.tolist() == wanted


def test_a_product_of_dynamic_size_is_converted_to_a_fixed_one():
    text = """ENTRY e { p = bf16[<=2,2] parameter(0)
      d = bf16[<=2,<=2] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}
      ROOT r = f32[2,2] convert(d) }"""
    (found,) = agree(text, [np.array([[1, 2], [3, 4]], ml_dtypes.bfloat16)])
    assert found.tolist() == [[5, 11], [11, 25]]
