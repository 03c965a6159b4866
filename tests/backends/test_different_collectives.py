"""Members of a group that come to different collectives: refused, with the names of both."""

import numpy as np
import pytest

import axla
from axla.core.errors import CollectiveFailure

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])


def program(
    name: str, line: str, dtype: str = "f32", dims: str = "4", reducer: str = "add(a, b)"
) -> axla.Module:
    return axla.parse(f"""HloModule {name}
f {{ a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT c = {dtype}[] {reducer} }}
ENTRY e {{ x = {dtype}[{dims}] parameter(0)
  ROOT mine = {line} }}""")


def given(module: axla.Module) -> list[np.ndarray]:
    shape = module.entry.parameters[0].shape
    return [np.arange(1, 5).astype(shape.dtype.numpy).reshape(shape.dims)]


SUM = "f32[4] all-reduce(x), to_apply=f, channel_id=1"
PAIRS = [
    ((SUM,), ("s32[4] all-reduce(x), to_apply=f, channel_id=1", "s32")),
    ((SUM,), (SUM, "f32", "4", "maximum(a, b)")),
    (("f32[8] all-gather(x), dimensions={0}",), ("s32[8] all-gather(x), dimensions={0}", "s32")),
    (("f32[8] all-gather(x), dimensions={0}",), ("f32[4,2] all-gather(x), dimensions={0}", "f32", "2,2")),
    (("f32[8] all-gather(x), dimensions={0}",), ("f32[2] reduce-scatter(x), dimensions={0}, to_apply=f",)),
    (
        ("f32[4,2] all-gather(x), dimensions={0}", "f32", "2,2"),
        ("f32[2,4] all-gather(x), dimensions={1}", "f32", "2,2"),
    ),
    (
        ("f32[4] collective-permute(x), source_target_pairs={{0,1}}",),
        ("f32[4] collective-permute(x), source_target_pairs={{1,0}}",),
    ),
    (("f32[4] collective-broadcast(x), replica_groups={{0,1}}",), ("f32[4] all-reduce(x), to_apply=f",)),
]


@BACKENDS
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_programs_whose_collectives_differ(backend, first, second):
    modules = [program("left", *first), program("right", *second)]
    for order in (modules, modules[::-1]):
        with pytest.raises(
            CollectiveFailure, match="in left of .*in right of|in right of .*in left of"
        ) as caught:
            axla.backends.get(backend).execute_parallel(order, [given(module) for module in order])
        assert str(caught.value).count("%mine") == 2


def test_the_message_names_collectives_shapes_channel_and_participants():
    modules = [program("left", SUM), program("right", *PAIRS[0][1])]
    with pytest.raises(CollectiveFailure) as caught:
        axla.backends.get("cpu").execute_parallel(modules, [given(module) for module in modules])
    assert str(caught.value) == (
        "all-reduce %mine of f32[4]{0} in left of replica 0, partition 0 met all-reduce %mine of s32[4]{0} "
        "in right of replica 1, partition 0, in a rendezvous of (0, 1) on channel 1: they differ in "
        "operation, shapes or reducer"
    )


@BACKENDS
def test_equal_collectives_of_different_programs_meet(backend):
    left, right = program("left", SUM), program("right", SUM.replace("f32[4] all", "f32[4]{0} all"))
    (a,), (b,) = axla.backends.get(backend).execute_parallel([left, right], [given(left), given(right)])
    assert np.asarray(a).tolist() == np.asarray(b).tolist() == [2, 4, 6, 8]


@BACKENDS
def test_one_of_three_in_a_collective_of_its_own(backend):
    modules = [program("left", SUM), program("left", SUM), program("right", SUM, reducer="multiply(a, b)")]
    with pytest.raises(
        CollectiveFailure, match="all-reduce.* in left of .*all-reduce.* in right of|in right of"
    ):
        axla.backends.get(backend).execute_parallel(modules, [given(module) for module in modules])


BRANCHES = """HloModule m, replica_count=2
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
g { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
left { x = f32[4] parameter(0)
  ROOT one = f32[4] all-reduce(x), to_apply=f }
right { x = f32[4] parameter(0)
  i = s32[4] bitcast-convert(x)
  other = s32[4] all-reduce(i), to_apply=g
  ROOT o = f32[4] bitcast-convert(other) }
ENTRY e { x = f32[4] parameter(0)
  n = u32[] replica-id()
  z = u32[] constant(0)
  c = pred[] compare(n, z), direction=EQ
  ROOT r = f32[4] conditional(c, x, x), true_computation=left, false_computation=right }"""


@BACKENDS
def test_branches_of_one_program_whose_collectives_differ(backend):
    found = axla.compile(axla.parse(BRANCHES), backend=backend)
    for _ in range(3):
        with pytest.raises(CollectiveFailure, match="%one.*%other|%other.*%one"):
            found.execute_replicated([[np.ones(4, np.float32)]] * 2)


RAGGED = """HloModule m, replica_count={1}
ENTRY e {{ x = f32[8] parameter(0)
  o = f32[8] parameter(1)
  a = {0}[{1}] parameter(2)
  b = {0}[{1}] parameter(3)
  c = {0}[{1}] parameter(4)
  ROOT r = f32[8] ragged-all-to-all(x, o, a, b, c, b) }}"""


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("dtype", ["u64", "u32", "s64", "s32"])
def test_ragged_offsets_and_sizes_beyond_all_arrays(dtype, replicas):
    kind = np.dtype({"u": "uint", "s": "int"}[dtype[0]] + dtype[1:])
    low, top = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    nothing = [(top - 2, 5, 0), (0, 5, top - 2), (top // 2 + 1, top, 0)] + [(low, 5, low)] * (low < 0)
    rows_moved = [(1, top, 3), (1, 3, 2)] + [(-3, 5, 0), (0, 5, -3)] * (low < 0)
    text = RAGGED.format(dtype, replicas)
    programs = [axla.compile(axla.parse(text), backend=b) for b in ("cpu", "interpreter")]
    for run in nothing + rows_moved:
        numbers = [np.full(replicas, number, kind) for number in run]
        rows = [
            [np.arange(1, 9, dtype=np.float32) + 10 * n, np.zeros(8, np.float32)] for n in range(replicas)
        ]
        cpu, judge = (p.execute_replicated([row + numbers for row in rows]) for p in programs)
        found = [np.asarray(leaves[0]).tolist() for leaves in cpu]
        assert found == [np.asarray(leaves[0]).tolist() for leaves in judge], run
        assert any(map(any, found)) == (run in rows_moved), run
