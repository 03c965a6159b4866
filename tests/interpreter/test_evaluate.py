"""The interpreter on whole modules: control flow, computations called per element, limits, arguments."""

from __future__ import annotations

import numpy as np
import pytest

import axla.hlo  # noqa: F401  (declares the ops)
from axla.core.errors import (
    AxlaError,
    DeadlineExceeded,
    InvalidArgument,
    OutOfMemory,
    UnsupportedError,
)  # fmt: skip
from axla.interpreter import evaluate
from axla.text import parse_hlo


def run(text: str, *arguments, **limits):
    result = evaluate(parse_hlo(text), [np.asarray(a) for a in arguments], **limits)
    return result.array if result.shape.is_array else [leaf.array for leaf in result.leaves()]


ADD = "add { x = s32[] parameter(0) y = s32[] parameter(1) ROOT r = s32[] add(x, y) }\n"
LOOP = """
cond {{ p = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({n})  ROOT r = pred[] compare(i, n), direction=LT }}
body {{ p = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  a = s32[]
get-tuple-element(p), index=1
  one = s32[] constant({step})  j = s32[] add(i, one)  b = s32[] add(a, i)  ROOT t = (s32[], s32[]) tuple(j,
  b) }}
ENTRY e {{ z = s32[] constant(0)  t = (s32[], s32[]) tuple(z, z)
  w = (s32[], s32[]) while(t), condition=cond, body=body  ROOT r = s32[] get-tuple-element(w), index=1 }}
"""


def test_while_sums():
    assert run(LOOP.format(n=100, step=1)) == 4950


def test_step_limit_and_deadline_stop_a_loop():
    endless = LOOP.format(n=2_000_000_000, step=1)
    with pytest.raises(DeadlineExceeded, match="at its limit of 1000 steps"):
        run(endless, step_limit=1000)
    with pytest.raises(DeadlineExceeded, match="at its deadline of 0.2 seconds"):
        run(endless, deadline=0.2)


def test_a_deadline_stops_windows_that_see_nothing():
    text = """ENTRY e { x = s32[1,1] parameter(0) z = s32[] constant(0)
    ROOT r = s32[1,1] reduce-window(x, z), window={size=999x999 pad=0_998x0_998}, to_apply=add }"""
    with pytest.raises(DeadlineExceeded, match="at its limit of 1000 steps"):
        run(ADD + text, np.zeros((1, 1), np.int32), step_limit=1000)


def test_a_loop_that_changes_nothing_ends():
    text = """
    cond { p = s32[] parameter(0) ROOT t = pred[] constant(true) }
    body { ROOT p = s32[] parameter(0) }
    ENTRY e { z = s32[] parameter(0)  ROOT w = s32[] while(z), condition=cond, body=body }"""
    assert run(text, np.int32(7), step_limit=100) == 7


def test_dead_code_is_not_run():
    assert (
        run(
            LOOP.format(n=3, step=0).replace(
                "ROOT r = s32[] get-tuple-element(w), index=1", "ROOT k = s32[] constant(7)"
            )
        )
        == 7
    )


@pytest.mark.parametrize(("index", "wanted"), [(-1, 30), (0, 10), (1, 20), (2, 30), (5, 30)])
def test_conditional_by_index(index, wanted):
    branches = "".join(
        f"b{k} "
        f"{{ x = s32[] parameter(0) c = s32[] constant({10 * (k + 1)}) ROOT r = s32[] multiply(x, c) }}\n"
        for k in range(3)
    )
    entry = """ENTRY e { i = s32[] parameter(0) x = s32[] constant(1)
      ROOT r = s32[] conditional(i, x, x, x), branch_computations={b0,b1,b2} }"""
    assert run(branches + entry, np.int32(index)) == wanted


def test_conditional_by_pred():
    text = """
    t { x = f32[] parameter(0) ROOT r = f32[] negate(x) }
    f { x = f32[] parameter(0) ROOT r = f32[] add(x, x) }
    ENTRY e { p = pred[] parameter(0) x = f32[] constant(3)
      ROOT r = f32[] conditional(p, x, x), true_computation=t, false_computation=f }"""
    assert run(text, True) == -3 and run(text, False) == 6


@pytest.mark.parametrize("length", [0, 1, 5, 1025, 3000])
def test_reduce_over_any_length(length):
    text = (
        ADD
        + f"ENTRY e {{ x = s32[{length},2] parameter(0) z = s32[] constant(5) "
        + "ROOT r = s32[2] reduce(x, z), dimensions={0}, to_apply=add }"
    )
    x = np.arange(2 * length, dtype=np.int32).reshape(length, 2)
    assert run(text, x).tolist() == (x.sum(0) + 5).tolist()


def test_reduce_keeps_order_and_combines_several_arrays():
    text = """
    argmax { v = f32[] parameter(0) i = s32[] parameter(1) w = f32[] parameter(2) j = s32[] parameter(3)
      g = pred[] compare(v, w), direction=GE  m = f32[] select(g, v, w)  k = s32[] select(g, i, j)  ROOT t =
      (f32[], s32[]) tuple(m, k) }
    ENTRY e { x = f32[6] parameter(0) i = s32[6] iota(), iota_dimension=0 l = f32[] constant(-inf) z = s32[]
    constant(0)
      ROOT r = (f32[], s32[]) reduce(x, i, l, z), dimensions={0}, to_apply=argmax }"""
    value, at = run(text, np.array([1, 5, 2, 5, 0, 5], np.float32))
    assert (value, at) == (5, 1)


def test_reducer_that_is_not_elementwise_runs_element_by_element():
    text = """
    big { ROOT x = s32[] parameter(0) }
    small { x = s32[] parameter(0) ROOT n = s32[] negate(x) }
    pick { x = s32[] parameter(0) y = s32[] parameter(1) g = pred[] compare(x, y), direction=GT s = s32[]
    add(x, y)
      ROOT r = s32[] conditional(g, s, s), true_computation=big, false_computation=small }
    ENTRY e { a = s32[2] parameter(0) b = s32[2] parameter(1) ROOT r = s32[2] map(a, b), dimensions={0},
    to_apply=pick }"""
    assert run(text, np.array([3, 1], np.int32), np.array([1, 3], np.int32)).tolist() == [4, -4]


def scatter(combiner: str, updates: str = "f32[4,2]", window: str = "{1}", inserted: str = "{0}") -> str:
    return f"""
    c {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] {combiner} }}
    ENTRY e {{ o = f32[3,2] parameter(0) i = s32[4,1] parameter(1) u = {updates} parameter(2)
      ROOT r = f32[3,2] scatter(o, i, u), update_window_dims={window}, inserted_window_dims={inserted},
        scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c }}"""


def test_scatter_applies_updates_in_order_and_skips_windows_outside():
    operand = np.zeros((3, 2), np.float32)
    updates = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    indices = np.array([[1], [-1], [1], [3]], np.int32)
    assert run(scatter("subtract(x, y)"), operand, indices, updates).tolist() == [[0, 0], [-6, -8], [0, 0]]
    assert run(scatter("add(y, y)"), operand, indices, updates).tolist() == [[0, 0], [10, 12], [0, 0]]


def test_scatter_skips_windows_that_begin_at_the_largest_index():
    text = scatter("add(x, y)", "f32[4,2,2]", "{1,2}", "{}").replace("s32[4,1]", "s64[4,1]")
    indices = np.array([[2**63 - 1], [-(2**63)], [1], [2**62]])
    result = run(text, np.zeros((3, 2), np.float32), indices, np.ones((4, 2, 2), np.float32))
    assert result.tolist() == [[0, 0], [1, 1], [1, 1]]


def test_scatter_of_overlapping_windows():
    operand = np.zeros((3, 2), np.float32)
    updates = np.ones((4, 2, 2), np.float32)
    text = scatter("add(x, y)", "f32[4,2,2]", "{1,2}", "{}")
    indices = np.array([[0], [1], [1], [2]], np.int32)  # the last one does not fit
    assert run(text, operand, indices, updates).tolist() == [[1, 1], [3, 3], [2, 2]]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 33])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_sort_is_stable_for_any_length(length, direction):
    text = f"""
    before {{ a = s32[] parameter(0) b = s32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
      ROOT r = pred[] compare(a, b), direction={direction} }}
    ENTRY e {{ x = s32[{length},3] parameter(0) i = s32[{length},3] iota(), iota_dimension=0
      ROOT r = (s32[{length},3], s32[{length},3]) sort(x, i), dimensions={{0}}, is_stable=true,
      to_apply=before }}"""
    x = np.random.default_rng(length).integers(0, 4, (length, 3)).astype(np.int32)
    order = np.argsort(x if direction == "LT" else -x, axis=0, kind="stable")
    keys, positions = run(text, x)
    assert np.array_equal(positions, order) and np.array_equal(keys, np.take_along_axis(x, order, 0))


def test_bitcast_reads_memory_in_the_order_of_layouts():
    text = "ENTRY e { x = f32[2,3]{0,1} parameter(0) ROOT r = f32[3,2]{1,0} bitcast(x) }"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert run(text, x).tolist() == x.T.tolist()


def test_custom_calls():
    text = """ENTRY e { x = f32[2,4] parameter(0)
      ROOT r = (f32[2,2], s32[2,2]) custom-call(x), custom_call_target="TopK" }"""
    values, places = run(text, np.array([[1, 3, 3, 2], [np.nan, -1, 5, -np.inf]], np.float32))
    assert values[0].tolist() == [3, 3] and places.tolist() == [[1, 2], [0, 2]]
    with pytest.raises(UnsupportedError, match="'Nobody'"):
        run(text.replace("TopK", "Nobody"), np.zeros((2, 4), np.float32))


def test_tuples_and_tokens_pass_through():
    text = """
    ENTRY e { p = (f32[2], (s32[], f32[2])) parameter(0)
      q = (s32[], f32[2]) get-tuple-element(p), index=1
      x = f32[2] get-tuple-element(q), index=1  t = token[] after-all()  y = f32[2] add-dependency(x, t)
      b = (s32[], f32[2]) opt-barrier(q)  i = s32[] get-tuple-element(b), index=0  ROOT r = (f32[2], s32[],
      token[]) tuple(y, i, t) }"""
    x = np.array([1, 2], np.float32)
    result = evaluate(parse_hlo(text), [(x, (np.int32(7), x + 1))])
    assert result.elements[0].array.tolist() == [2, 3] and result.elements[1].array == 7
    assert result.shape.elements[2].is_token


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes 1 arguments, found 0"),
        ([np.zeros(3, np.float32)], r"parameter x: wanted f32\[2\], found float32\[3\]"),
        ([np.zeros(2, np.float64)], r"parameter x: wanted f32\[2\], found float64\[2\]"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        run("ENTRY e { ROOT x = f32[2] parameter(0) }", *arguments)


def test_memory_is_refused_before_it_is_taken():
    huge = "f32[1000000,1000000]"
    text = f"ENTRY e {{ i = {huge} iota(), iota_dimension=0 ROOT r = {huge} add(i, i) }}"
    with pytest.raises(OutOfMemory, match="4000000000000 bytes"):
        run(text)


def test_deep_calls_are_an_error_not_a_crash():
    head = "c0 { ROOT x = f32[] parameter(0) }\n"
    calls = "".join(
        f"c{k} {{ x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=c{k - 1} }}\n"
        for k in range(1, 300)
    )
    with pytest.raises(AxlaError, match="deep"):
        run(
            head + calls + "ENTRY e { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=c299 }",
            np.float32(1),
        )


def test_a_long_chain_takes_no_recursion():
    chain = "".join(f"a{k} = s32[] add(a{k - 1}, one)\n" for k in range(1, 5000))
    assert (
        run(
            "ENTRY e "
            f"{{ a0 = s32[] parameter(0) one = s32[] constant(1)\n{chain} ROOT r = s32[] add(a4999, one) }}",
            np.int32(0),
        )
        == 5000
    )


def test_an_element_of_a_tuple_does_not_need_the_others():
    text = """
    ENTRY e { s = f32[4] parameter(0)  n = f32[4] negate(s)
      bits = (f32[4], f32[4]) rng-bit-generator(s), algorithm=rng_default
      t = ((f32[4], f32[4]), f32[4]) tuple(bits, n)  ROOT r = f32[4] get-tuple-element(t), index=1 }"""
    assert run(text, np.ones(4, np.float32)).tolist() == [-1] * 4


def test_a_product_of_floats_that_gives_integers():
    """Operands are converted to the type of the result, as `convert` does it."""
    text = """ENTRY e { x = f16[1,2] parameter(0)
  y = u16[2,1] parameter(1)
  ROOT z = u16[1,1] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    x, y = np.array([[-1.5, 2.75]], np.float16), np.array([[3], [5]], np.uint16)
    for backend in ("interpreter", "cpu", "one-lane"):
        [found] = axla.compile(axla.parse(text), backend=backend).execute([x, y])
        assert np.asarray(found).tolist() == [[10]], backend


def test_a_product_that_gives_pred():
    """An or of ands, whatever is multiplied: what is not zero is true, and nothing cancels."""
    text = """ENTRY e { x = pred[1,2] parameter(0)
  y = f32[2,3] parameter(1)
  ROOT z = pred[1,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    x, y = np.array([[True, True]]), np.array([[-1, 0.5, 0], [1, 0, 0]], np.float32)
    for backend in ("interpreter", "cpu", "one-lane"):
        [found] = axla.compile(axla.parse(text), backend=backend).execute([x, y])
        assert np.asarray(found).tolist() == [[True, True, False]], backend
