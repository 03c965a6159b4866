"""Layout normalization: the entry's bytes stay what they were."""

import itertools

import numpy as np
import pytest

from axla.core.dtypes import F32
from axla.core.literal import Literal
from axla.core.shape import Layout, Shape
from axla.core.shape_util import major_to_minor
from axla.interpreter.evaluate import evaluate
from axla.passes.layout.normalize import layout_normalization
from axla.text.parser import parse_hlo


def physical(array, shape):
    """An array's bytes in the layout of its shape, as a default-layout array."""
    assert isinstance(shape, Shape)
    return np.ascontiguousarray(array.transpose(major_to_minor(shape)))


@pytest.mark.parametrize("dims", [(2, 3, 4), (3, 3, 3), (2, 3, 2)])
@pytest.mark.parametrize("inner", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("outer", [(2, 1, 0), (0, 1, 2), (1, 0, 2)])
def test_same_bytes(outer, inner, dims):
    a, b = (",".join(map(str, order)) for order in (outer, inner))
    text = f"""HloModule m, entry_computation_layout={{\
(f32[2,3,4]{{{a}}}, f32[2,3,4]{{{b}}})->(f32[2,3,4]{{{b}}}, f32[4,3,2]{{{a}}})}}
f {{ p = f32[2,3,4]{{{b}}} parameter(0) ROOT n = f32[2,3,4]{{{a}}} negate(p) }}
ENTRY e {{
  x = f32[2,3,4]{{{a}}} parameter(0)
  y = f32[2,3,4]{{{b}}} parameter(1)
  z = f32[2,3,4]{{{a}}} copy(y)
  s = f32[2,3,4]{{{b}}} add(x, z)
  c = f32[2,3,4]{{{a}}} call(s), to_apply=f
  t = f32[4,3,2]{{{a}}} transpose(c), dimensions={{2,1,0}}
  ROOT r = (f32[2,3,4]{{{b}}}, f32[4,3,2]{{{a}}}) tuple(s, t)
}}"""
    sizes = ",".join(map(str, dims))
    text = text.replace("2,3,4", sizes).replace("4,3,2", ",".join(sizes.split(",")[::-1]))
    before, after = parse_hlo(text), parse_hlo(text)
    layout_normalization(after)
    boundary = after.config.entry_layout
    rng = np.random.default_rng(0)
    given = [rng.normal(size=dims).astype(np.float32) for _ in range(2)]
    wanted = [leaf.array for leaf in evaluate(before, [Literal.of(g) for g in given]).leaves()]
    lying = [Literal.of(physical(g, s)) for g, s in zip(given, boundary.parameters, strict=True)]
    found = [leaf.array for leaf in evaluate(after, lying).leaves()]
    for number, shape in enumerate(boundary.result.leaves()):
        np.testing.assert_array_equal(found[number], physical(wanted[number], shape))
    assert all(i.shape is i.shape.logical for c in after.computations for i in c.instructions)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_bitcasts_keep_the_bytes(order):
    layout = ",".join(map(str, order))
    module = parse_hlo(f"""ENTRY e {{ x = f32[2,3,4]{{2,1,0}} parameter(0) c = f32[2,3,4]{{{layout}}} copy(x)
      ROOT b = u16[6,8]{{1,0}} bitcast(c) }}""")
    layout_normalization(module)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    shape = Shape(F32, (2, 3, 4), (), Layout(order))
    wanted = physical(x, shape).view(np.uint16)
    np.testing.assert_array_equal(evaluate(module, [Literal.of(x)]).array, wanted.reshape(6, 8))
