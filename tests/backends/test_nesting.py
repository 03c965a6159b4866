"""Nested arguments and results as leaves, and back."""

import numpy as np
import pytest

import axla
from axla.backends.nesting import flatten, is_flat_call, nest

TEXT = """HloModule m
ENTRY e {
  p = (f32[], (f32[2], f32[])) parameter(0)
  q = f32[3] parameter(1)
  a = f32[] get-tuple-element(p), index=0
  b = (f32[2], f32[]) get-tuple-element(p), index=1
  t = (f32[3], f32[]) tuple(q, a)
  ROOT r = ((f32[3], f32[]), (f32[2], f32[])) tuple(t, b)
}"""


def test_leaves_are_in_order_and_results_nest_again():
    executable = axla.compile(axla.parse(TEXT), backend="interpreter")
    assert not is_flat_call(executable.interface)
    a, b, c, q = (np.full(dims, n, np.float32) for n, dims in enumerate([(), (2,), (), (3,)]))
    assert flatten(executable.interface, ((a, [b, c]), q)) == [a, b, c, q]
    (first, second), (third, fourth) = executable((a, (b, c)), q)
    assert [x.tolist() for x in (first, second, third, fourth)] == [[3, 3, 3], 0, [1, 1], 2]
    assert nest(((1, 0), (), 2), "abc") == (("b", "a"), (), "c")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "1 arguments, wanted 2"),
        (((1, 2), 3), r"argument 0\[1\]: wanted a tuple of 2, found int"),
        (((1, (2, 3, 4)), 3), r"argument 0\[1\]: wanted a tuple of 2, found 3 values"),
    ],
)
def test_another_nesting_is_refused_by_place(arguments, message):
    executable = axla.compile(axla.parse(TEXT), backend="interpreter")
    with pytest.raises(axla.InvalidArgument, match=message):
        flatten(executable.interface, arguments)
