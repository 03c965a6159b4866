"""Kernel kinds, from the text of one fusion or of one instruction."""

import pytest

from axla.analysis.inplace import overwritable
from axla.kernels.kinds import kernel_kind
from axla.passes.layout.dots import dot_canonicalize
from axla.target.machine import Limits, cpu_target
from axla.text.parser import parse_hlo

HEAD = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
"""


def kind_of(text):
    return kernel_kind(parse_hlo(HEAD + text).entry.root, Limits())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ENTRY e { x = f32[8,9] parameter(0) ROOT r = f32[8,9] tanh(x) }", "loop [8, 9]"),
        ("ENTRY e { x = f32[80,90] parameter(0) ROOT r = f32[90,80] transpose(x), dimensions={1,0} }",
         "transpose [80, 90] by [1, 0], 1 heroes"),
        ("ENTRY e { x = f32[4,80,90] parameter(0) ROOT r = f32[80,4,90] transpose(x), dimensions={1,0,2} }",
         "loop [80, 4, 90]"),
        ("ENTRY e { x = f32[80,1,90] parameter(0) ROOT r = f32[1,80,90] transpose(x), dimensions={1,0,2} }",
         "loop [1, 80, 90]"),
        ("ENTRY e { x = f32[5,6,7,8] parameter(0) ROOT r = f32[7,8,5,6] transpose(x), dimensions={2,3,0,1} }",
         "transpose [30, 56] by [1, 0], 1 heroes"),
        ("ENTRY e { x = f32[80,90] parameter(0) z = f32[] constant(0)"
         " ROOT r = f32[80] reduce(x, z), dimensions={1}, to_apply=add }", "row [80] x [90], stages 1"),
        ("ENTRY e { x = f32[80,90] parameter(0) z = f32[] constant(0)"
         " ROOT r = f32[90] reduce(x, z), dimensions={0}, to_apply=add }", "column [1,(80),90], 1 reduces"),
        ("ENTRY e { x = f32[8,80,90] parameter(0) z = f32[] constant(0)"
         " ROOT r = f32[8,90] reduce(x, z), dimensions={1}, to_apply=add }", "column [8,(80),90], 1 reduces"),
        ("ENTRY e { x = f32[80,90] parameter(0) z = f32[] constant(0)"
         " ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add }", "row [] x [80, 90], stages 1"),
        ("ENTRY e { x = f32[80,3] parameter(0) z = f32[] constant(0)"
         " ROOT r = f32[80] reduce(x, z), dimensions={1}, to_apply=add }", "loop [80], 1 inner"),
        ("ENTRY e { x = f32[80,16] parameter(0) ROOT r = f32[80,80] dot(x, x),"
         " lhs_contracting_dims={1}, rhs_contracting_dims={1} }", "dot 1 x [80,16] x [16,80] rhs^T"),
        ("ENTRY e { x = f32[4,16,80] parameter(0) ROOT r = f32[4,80,80] dot(x, x), lhs_batch_dims={0},"
         " rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
         "dot 4 x [80,16] x [16,80] lhs^T"),
        ("ENTRY e { x = f32[80] parameter(0) u = f32[20] parameter(1) i = s32[] parameter(2)"
         " ROOT r = f32[80] dynamic-update-slice(x, u, i) }", "update [20]"),
        ("ENTRY e { x = f32[80] parameter(0) ROOT r = f32[160] concatenate(x, x), dimensions={0} }",
         "concatenate 2 pieces to [160] along 0"),
        ("ENTRY e { x = f32[8] parameter(0) ROOT r = f32[16] concatenate(x, x), dimensions={0} }",
         "loop [16]"),
        ("ENTRY e { x = f32[80] parameter(0) ROOT r = f32[80] copy(x) }", "copy [80]"),
    ],
)  # fmt: skip
def test_one_instruction(text, wanted):
    assert str(kind_of(text)) == wanted


def test_stages():
    kind = kind_of("""
f { x = f32[8,64] parameter(0) z = f32[] constant(0)
  p = f32[8] reduce(x, z), dimensions={1}, to_apply=add
  b = f32[8,64] broadcast(p), dimensions={0}
  d = f32[8,64] subtract(x, b)
  q = f32[8] reduce(d, z), dimensions={1}, to_apply=add
  m = f32[8] reduce(x, z), dimensions={1}, to_apply=add
  n = f32[8] add(q, m)
  ROOT t = (f32[8,64], f32[8]) tuple(d, n) }
ENTRY e { x = f32[8,64] parameter(0) ROOT r = (f32[8,64], f32[8]) fusion(x), kind=kInput, calls=f }""")
    assert [[i.name for i in stage] for stage in kind.stages] == [["p", "m"], ["q"]]
    assert (kind.full_roots, kind.row_roots) == ((0,), (1,))


def test_a_reduce_read_across_rows_is_no_row_kernel():
    kind = kind_of("""
f { x = f32[64,64] parameter(0) z = f32[] constant(0)
  s = f32[64] reduce(x, z), dimensions={1}, to_apply=add
  b = f32[64,64] broadcast(s), dimensions={1}
  ROOT d = f32[64,64] subtract(x, b) }
ENTRY e { x = f32[64,64] parameter(0) ROOT r = f32[64,64] fusion(x), kind=kLoop, calls=f }""")
    assert str(kind) == "loop [64, 64], 1 inner"


def test_overwritable():
    def of(body):
        module = parse_hlo(f"f {{ x = f32[64] parameter(0) y = f32[64] parameter(1) {body} }}"
                           "ENTRY e { x = f32[64] parameter(0) y = f32[64] parameter(1)"
                           " ROOT r = f32[64] fusion(x, y), kind=kLoop, calls=f }")  # fmt: skip
        return overwritable(module.entry.root, Limits())

    assert of("ROOT r = f32[64] add(x, y)") == {0: (0, 1)}
    assert of("v = f32[64] reverse(y), dimensions={0} ROOT r = f32[64] add(x, v)") == {0: (0,)}
    assert of("v = f32[64] reverse(x), dimensions={0} w = f32[64] add(x, v) ROOT r = f32[64] add(w, y)") == {
        0: (1,)
    }
    assert of(
        "a = f32[8,8] reshape(x) b = f32[8,8] negate(a) c = f32[64] reshape(b) ROOT r = f32[64] add(c, y)"
    ) == {0: (0, 1)}


def test_canonical_dots_are_dot_kernels():
    module = parse_hlo("""ENTRY e { x = f32[3,5,40] parameter(0) w = f32[40,2,9] parameter(1)
      ROOT d = f32[3,5,2,9] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0} }""")
    dot_canonicalize(module, cpu_target())
    assert str(kernel_kind(module.entry.root.operands[0], Limits())) == "dot 1 x [15,40] x [40,18]"
