"""Collectives in the text of a program: what would go beyond operands and results is refused."""

import numpy as np
import pytest

import axla
from axla.core.errors import VerifyError
from axla.cpu.compiler import compile_text
from axla.program.text import parse_program

MODULE = """HloModule m, replica_count=2
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[8] parameter(0)
  y = f32[24,24] parameter(1)
  n = s32[2] parameter(2)
  s = f32[8] all-reduce-start(x), to_apply=f
  z = f32[24,24] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[8] all-reduce-done(s)
  g = f32[16] all-gather(x), dimensions={0}
  r = f32[4] reduce-scatter(x), dimensions={0}, to_apply=f
  p = f32[8] collective-permute(x), source_target_pairs={{0,1}}
  t = (f32[8], f32[8]) all-to-all(x, d)
  o = f32[8] ragged-all-to-all(x, d, n, n, n, n)
  id = u32[] replica-id()
  ROOT q = (f32[8], f32[24,24], f32[16], f32[4], f32[8], (f32[8], f32[8]), f32[8], u32[])
    tuple(d, z, g, r, p, t, o, id) }"""


@pytest.fixture(scope="module")
def text():
    return axla.compile(axla.parse(MODULE), backend="cpu").as_text("program")


def test_the_text_is_compiled_as_it_is(text):
    parse_program(text)
    compile_text(text)


def line(text: str, what: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith("collective ") and what in line)


MUTATIONS = [
    ("kind=all-gather", "rendezvous_keys=(", "rendezvous_keys=(7, "),
    ("kind=all-gather", "rendezvous_keys=(", "rendezvous_keys=(-1, "),
    ("kind=all-gather", " dimension=0", ""),
    ("kind=all-gather", "kind=all-gather", "kind=all-reduce"),
    ("kind=all-gather", "kind=all-gather", "kind=no-such-kind"),
    ("kind=all-gather", "kind=all-gather", "kind=reduce-scatter"),
    ("kind=all-gather", "kind=all-gather", "kind=collective-broadcast"),
    ("kind=all-gather", "function=0", "function=4"),
    ("kind=all-gather", "function=0", "function=-1"),
    ("kind=collective-permute", "(0, 1)", "(0, 2)"),
    ("kind=collective-permute", "(0, 1)", "(-1, 1)"),
    ("kind=collective-permute", " function=0", " dynamic_root=true function=0"),
    ("kind=all-to-all", "kind=all-to-all", "kind=all-gather"),
    ("kind=ragged-all-to-all", "kind=ragged-all-to-all", "kind=all-to-all"),
    ("kind=replica-id", "kind=replica-id", "kind=all-reduce"),
    ("kind=reduce-scatter", "folds=(", "folds=(nothing, "),
    ("kind=reduce-scatter", "folds=(", "folds=(k"),
    ("kind=reduce-scatter", "kind=reduce-scatter", "kind=all-gather"),
    ("starts=true", " starts=true", ""),
    ("starts=true", "kind=all-reduce", "kind=collective-reduce"),
    ("begun=(", " begun=(", " starts=true begun=("),
]  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m[1]}->{m[2]}")
def test_a_collective_that_is_not_in_order_is_refused(text, mutation):
    what, old, new = mutation
    found = line(text, what)
    assert old in found, found
    with pytest.raises(VerifyError):
        compile_text(text.replace(found, found.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("members=(0, 1)", "members=(0, 0)"), ("members=(0, 1)", "members=(0, 2)"),
        ("members=(0, 1)", "members=(0, -1)"), ("members=(0, 1)", "members=(0)"),
        ("participants=(2, 1)", "participants=(1, 1)"), ("participants=(2, 1)", "participants=(0, 1)"),
        ("participants=(2, 1)", "participants=(2, 1099511627776)"),
    ],
)  # fmt: skip
def test_groups_that_are_not_in_order_are_refused(text, old, new):
    assert old in text
    with pytest.raises(VerifyError):
        compile_text(text.replace(old, new))


def test_halves_are_of_one_collective_and_in_one_place(text):
    start, done = line(text, "starts=true"), line(text, "begun=(")
    mine, other = (
        one[one.index("rendezvous_keys=(") :].partition(")")[0] for one in (done, line(text, "gather"))
    )
    both = done.partition(" begun=")[0].replace(mine, other)  # in place of the second half
    with pytest.raises(VerifyError, match="but not done"):
        parse_program(text.replace(done, both))
    with pytest.raises(VerifyError, match="is written twice|rendezvous is in use"):
        parse_program(text.replace(start, f"{start}\n{start}"))
    with pytest.raises(VerifyError, match="is read before it is written"):
        parse_program(text.replace(start + "\n", ""))
    gather = line(text, "kind=all-gather")
    among = gather.replace(other, mine)
    moved = text.replace(gather + "\n", "").replace(start, f"{start}\n{among}")
    with pytest.raises(VerifyError, match="its rendezvous is in use"):
        parse_program(moved)


@pytest.mark.parametrize("count", [1 << 40, -5, np.iinfo(np.int32).min])
def test_ragged_offsets_from_outside_read_and_write_nothing(count):
    text = """HloModule m, replica_count=2
ENTRY e { x = f32[8] parameter(0)
  o = f32[8] parameter(1)
  n = s64[2] parameter(2)
  w = s64[2] parameter(3)
  ROOT r = f32[8] ragged-all-to-all(x, o, n, w, n, w) }"""
    row = [np.ones(8, np.float32), np.zeros(8, np.float32), np.full(2, count), np.full(2, 1 << 62)]
    found = axla.compile(axla.parse(text), backend="cpu").execute_replicated([row] * 2)
    for (leaf,) in found:
        assert set(np.asarray(leaf).tolist()) <= {0.0, 1.0}
