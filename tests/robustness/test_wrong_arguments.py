"""Wrong arguments to programs of `axla.compile`: an error that names the parameter, and nothing half done."""

from __future__ import annotations

import numpy as np
import pytest

import axla

TEXT = """
HloModule step, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY step {
  weights = f32[3] parameter(0)
  momentum = f32[3] parameter(1)
  count = s32[] parameter(2)
  real = f32[] convert(count)
  factor = f32[3] broadcast(real), dimensions={}
  change = f32[3] multiply(momentum, factor)
  sum = f32[3] add(weights, change)
  half = f32[] constant(0.5)
  halves = f32[3] broadcast(half), dimensions={}
  slower = f32[3] multiply(momentum, halves)
  ROOT both = (f32[3], f32[3]) tuple(sum, slower)
}
"""
W, M = np.array([1, 2, 3], np.float32), np.array([4, 4, 8], np.float32)


@pytest.fixture(scope="module")
def step():
    return axla.compile(axla.parse(TEXT))


def check_works(step):
    a, b = step.execute([axla.device_put(W), axla.device_put(M), np.int32(2)])
    np.testing.assert_array_equal(np.asarray(a), W + 2 * M)
    np.testing.assert_array_equal(np.asarray(b), M / 2)


def test_deleted_arrays_are_refused(step):
    gone = axla.device_put(M)
    gone.delete()
    kept = axla.device_put(W)
    with pytest.raises(axla.InvalidArgument, match=r"parameter 1 \(momentum\).*deleted"):
        step.execute([kept, gone, np.int32(1)])
    assert not kept.is_deleted  # it was to be donated, and was given back
    np.testing.assert_array_equal(np.asarray(kept), W)


def test_donated_arrays_are_gone(step):
    weights, momentum = axla.device_put(W), axla.device_put(M)
    step.execute([weights, momentum, np.int32(1)])
    assert weights.is_deleted and momentum.is_deleted
    with pytest.raises(axla.InvalidArgument, match=r"parameter 0 \(weights\).*deleted or donated"):
        step.execute([weights, axla.device_put(M), np.int32(1)])


def test_donating_one_array_twice_is_refused(step):
    twice = axla.device_put(W)
    with pytest.raises(axla.InvalidArgument, match=r"parameter 1 \(momentum\): donated twice.*parameter 0"):
        step.execute([twice, twice, np.int32(1)])
    assert not twice.is_deleted
    check_works(step)


def test_arrays_of_numpy_are_never_donated(step):
    weights, momentum = W.copy(), M.copy()
    step.execute([weights, momentum, np.int32(1)])
    np.testing.assert_array_equal(weights, W)
    np.testing.assert_array_equal(momentum, M)


def test_donate_argument_names_what_cannot_be_donated(step):
    with pytest.raises(axla.InvalidArgument, match="parameter 7; there are 3"):
        step.execute([W, M, np.int32(1)], donate=[7])
    with pytest.raises(axla.InvalidArgument, match=r"parameter 0 \(weights\): only an Array can be donated"):
        step.execute([W, M, np.int32(1)], donate=[0])


def test_keyword_arguments_are_refused(step):
    with pytest.raises(TypeError, match="count"):
        step(W, M, count=np.int32(1))


@pytest.mark.parametrize("deadline", [0, -1.0])
def test_a_deadline_in_the_past_is_exceeded(step, deadline):
    with pytest.raises(axla.DeadlineExceeded):
        step.execute([W, M, np.int32(1)], deadline=deadline)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"backend": "abacus"}, "abacus.*cpu"),
        ({"target_cpu": "z80"}, "z80"),
        ({"num_replicas": 1000}, "replica"),
        ({"donate": [9]}, "9"),
        ({"target_features": ["+no-such-feature"]}, "no-such-feature"),
        ({"target_features": ["avx2"]}, "avx2"),
        ({"target_cpu": "x86-64", "backend": "one-lane"}, "one-lane"),
    ],
)
def test_wrong_options_of_compile(options, message):
    with pytest.raises(axla.AxlaError, match=message):
        axla.compile(axla.parse(TEXT), **options)


@pytest.mark.parametrize("module", [None, TEXT, 3])
def test_compile_wants_a_module(module):
    with pytest.raises(axla.InvalidArgument, match="Module"):
        axla.compile(module)


NESTED = """
HloModule nested
ENTRY nested {
  p = (f32[2], (s32[], f32[])) parameter(0)
  a = f32[2] get-tuple-element(p), index=0
  t = (s32[], f32[]) get-tuple-element(p), index=1
  n = s32[] get-tuple-element(t), index=0
  x = f32[] get-tuple-element(t), index=1
  xs = f32[2] broadcast(x), dimensions={}
  y = f32[2] add(a, xs)
  ROOT r = (s32[], (f32[2])) tuple(n, (f32[2]) tuple(y))
}
"""


def nested_program():
    text = NESTED.replace("tuple(n, (f32[2]) tuple(y))", "tuple(n, inner)")
    return axla.compile(axla.parse(text.replace("  ROOT r", "  inner = (f32[2]) tuple(y)\n  ROOT r")))


def test_nested_arguments():
    program = nested_program()
    n, (y,) = program((np.float32([1, 2]), (np.int32(5), np.float32(10))))
    assert int(n) == 5
    np.testing.assert_array_equal(np.asarray(y), [11, 12])
    flat = program.execute([np.float32([1, 2]), np.int32(5), np.float32(10)])
    assert len(flat) == 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "0 arguments, wanted 1"),
        ((np.float32([1, 2]),), "argument 0: wanted a tuple of 2, found ndarray"),
        (((np.float32([1, 2]), (np.int32(5),)),), r"argument 0\[1\]: wanted a tuple of 2, found 1 values"),
        (((np.float32([1]), (np.int32(5), np.float32(1))),), r"parameter 0 .*wanted f32\[2\]"),
    ],
)
def test_wrong_nesting(arguments, message):
    with pytest.raises(axla.InvalidArgument, match=message):
        nested_program()(*arguments)
