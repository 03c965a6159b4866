"""Several devices in this process: permutations in place, collectives in two halves, deadlocks that a
schedule shows, and what happens to all when one fails.
"""

import threading

import numpy as np
import pytest

import axla

IN_PLACE = """
HloModule m, replica_count=4
ENTRY e {
  x = s32[4,3] parameter(0)
  y = s32[4,3] parameter(1)
  z = s32[] constant(0)
  one = s32[] constant(1)
  id = u32[] replica-id()
  r = s32[] convert(id)
  a = (s32[], s32[]) tuple(r, z)
  b = (s32[], s32[]) tuple(z, one)
  from = ((s32[], s32[]), (s32[], s32[])) tuple(a, b)
  to = ((s32[], s32[]), (s32[], s32[])) tuple(b, a)
  PERMUTE
}"""
SLICES = "source_target_pairs={{0,1},{1,2},{2,3},{0,3},{2,1},{3,2}}, slice_sizes={{1,3},{1,2}}"
AT_ONCE = f"ROOT p = s32[4,3] collective-permute(x, y, from, to), {SLICES}"
STARTED = f"""s = (s32[4,3], s32[4,3], u32[]) collective-permute-start(x, y, from, to), {SLICES}
  ROOT p = s32[4,3] collective-permute-done(s)"""
TUPLES = """v = s32[2,3] slice(x), slice={[1:3], [0:3]}
  ins = (s32[4,3], s32[2,3]) tuple(x, v)
  outs = (s32[4,3], s32[4,3]) tuple(y, x)
  froms = (((s32[], s32[]), (s32[], s32[])), ((s32[], s32[]), (s32[], s32[]))) tuple(from, from)
  tos = (((s32[], s32[]), (s32[], s32[])), ((s32[], s32[]), (s32[], s32[]))) tuple(to, from)
  ROOT p = (s32[4,3], s32[4,3]) collective-permute(ins, outs, froms, tos),
    source_target_pairs={{0,1},{1,2},{2,3},{3,0},{0,3},{3,2},{2,1},{1,0}},
    slice_sizes={{1,3},{1,2},{2,3},{2,1}}"""


def run(text, given, backend="cpu", **options):
    module = axla.parse(text) if isinstance(text, str) else text
    found = axla.compile(module, backend=backend).execute_replicated(given, **options)
    return [[np.asarray(leaf) for leaf in row] for row in found]


def alike(text, given):
    """The results of cpu, which are those of the interpreter."""
    found, wanted = run(text, given), run(text, given, "interpreter")
    for device, (a, b) in enumerate(zip(found, wanted, strict=True)):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            assert x.tobytes() == y.tobytes(), (device, k, x, y)
    return found


def numbers(replicas, *dims):
    """An array for each replica, of different numbers."""
    size = int(np.prod(dims))
    return [np.arange(size * p, size * (p + 1), dtype=np.int32).reshape(dims) for p in range(replicas)]


@pytest.mark.parametrize("form", [AT_ONCE, STARTED])
def test_several_slices_are_moved_in_place(form):
    """The first three pairs move the first slice, the others the second; offsets are each member's own."""
    x, y = numbers(4, 4, 3), [-a for a in numbers(4, 4, 3)]
    found = alike(IN_PLACE.replace("PERMUTE", form), list(zip(x, y, strict=True)))
    wanted = [a.copy() for a in y]
    for source, target in ((0, 1), (1, 2), (2, 3)):  # from (source, 0) to (0, 1), moved inside: (0, 0)
        wanted[target][0] = x[source][source]
    for source, target in ((0, 3), (2, 1), (3, 2)):  # from (0, 1) to (target, 0)
        wanted[target][target, :2] = x[source][0, 1:]
    for a, (b,) in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_slices_of_several_buffers():
    given = list(zip(numbers(4, 4, 3), [-a for a in numbers(4, 4, 3)], strict=True))
    found = alike(IN_PLACE.replace("PERMUTE", TUPLES), given)
    np.testing.assert_array_equal(found[1][0][0], given[0][0][0])
    np.testing.assert_array_equal(found[1][1][0:2, 1:2], given[2][0][1:3, 1:2])  # the last write


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    "change",
    [("{3,2}}", "{3,2},{1,0}}"), ("{{1,3},{1,2}}", "{{1,3}}"), ("{{1,3},{1,2}}", "{{1,3},{5,2}}"),
     ("{0,3}", "{2,3}"), ("from, to)", "a, to)")],
)  # fmt: skip
def test_slices_that_do_not_fit(backend, change):
    text = IN_PLACE.replace("PERMUTE", AT_ONCE.replace(*change))
    given = list(zip(numbers(4, 4, 3), numbers(4, 4, 3), strict=True))
    with pytest.raises(axla.UnsupportedError, match="do not fit the offsets"):
        run(text, given, backend)


def test_permutes_of_several_arrays():
    text = """HloModule m, replica_count=3
ENTRY e { x = s32[4] parameter(0)
  y = f32[2] convert(s32[2] slice(x), slice={[0:2]})
  ROOT p = (s32[4], f32[2]) collective-permute(x, y), source_target_pairs={{0,2},{2,1}} }"""
    text = text.replace("convert(s32[2] slice(x), slice={[0:2]})", "convert(v)")
    text = text.replace("  y =", "  v = s32[2] slice(x), slice={[0:2]}\n  y =")
    x = numbers(3, 4)
    found = alike(text, [[a] for a in x])
    assert [row[0].tolist() for row in found] == [[0] * 4, x[2].tolist(), x[0].tolist()]
    assert [row[1].tolist() for row in found] == [[0, 0], x[2][:2].tolist(), x[0][:2].tolist()]


HEAD = """HloModule m, replica_count=2
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
scattered { a = f32[64] parameter(0)
  ROOT r = f32[32] reduce-scatter(a), dimensions={0}, to_apply=f }
columns { a = f32[4,16] parameter(0)
  ROOT r = f32[4,8] reduce-scatter(a), dimensions={1}, to_apply=f }
exchanged { a = f32[64] parameter(0)
  ROOT r = f32[64] all-to-all(a), dimensions={0} }
spread { a = f32[64] parameter(0)
  ROOT r = f32[64] collective-broadcast(a), replica_groups={{1,0}} }
"""
WORK = """y = f32[24,24] parameter(1)
  z = f32[24,24] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  w = f32[24,24] dot(z, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
HALVES = {
    "all-reduce": ("f32[64] all-reduce-start(p), to_apply=f", "f32[64] all-reduce-done(s)"),
    "all-gather": (
        "(f32[64], f32[128]) all-gather-start(p), dimensions={0}", "f32[128] all-gather-done(s)",
    ),
    "permute": (
        "(f32[64], f32[64], u32[]) collective-permute-start(p), source_target_pairs={{0,1}}",
        "f32[64] collective-permute-done(s)",
    ),
    "reduce-scatter": (
        "((f32[64]), f32[32], u32[]) async-start(p), calls=scattered",
        "f32[32] async-done(s), calls=scattered",
    ),
    "columns": ("((f32[4,16]), f32[4,8]) async-start(q), calls=columns", "f32[4,8] async-done(s)"),
    "all-to-all": ("((f32[64]), f32[64]) async-start(p), calls=exchanged", "f32[64] async-done(s)"),
    "broadcast": ("((f32[64]), f32[64]) async-start(p), calls=spread", "f32[64] async-done(s)"),
}  # fmt: skip


def halves(start, done, between=WORK):
    return f"""{HEAD}ENTRY e {{ x = f32[64] parameter(0)
  p = f32[64] negate(x)
  q = f32[4,16] reshape(p)
  s = {start}
  {between}
  d = {done}
  ROOT t = ({done.partition(" ")[0]}, f32[24,24]) tuple(d, w) }}"""


def floats(seed=3, replicas=2):
    rng = np.random.default_rng(seed)
    return [[rng.normal(size=d).astype(np.float32) for d in ((64,), (24, 24))] for _ in range(replicas)]


def whole(seed=3, replicas=2):
    """Small whole numbers, whose products are exact; NumPy rounds others as the machine has it."""
    rng = np.random.default_rng(seed)
    return [[rng.integers(-4, 5, d).astype(np.float32) for d in ((64,), (24, 24))] for _ in range(replicas)]


def steps_of(text):
    """The collectives of the compiled program: name, and which half."""
    program = axla.compile(axla.parse(text), backend="cpu").as_text("program")
    lines = [
        line.split() for line in program.splitlines() if line.strip().startswith(("collective ", "kernel "))
    ]
    return [
        "kernel" if line[0] == "kernel" else "starts" if "starts=true" in line else
        "done" if any(word.startswith("begun=") for word in line) else "both"
        for line in lines if line[1].startswith("name=") and "kernel=" in str(line) + "kernel="
    ]  # fmt: skip


@pytest.mark.parametrize("name", HALVES)
def test_a_collective_in_two_halves_goes_on_while_others_compute(name):
    text = halves(*HALVES[name])
    kinds = steps_of(text)
    assert kinds[kinds.index("starts") :].count("kernel") >= 2, kinds  # between the halves
    assert kinds[-1] == "done" or name == "columns"
    alike(text, whole())


def test_with_nothing_to_do_in_between():
    text = halves(*HALVES["all-reduce"]).replace(WORK, "w = f32[24,24] parameter(1)")
    alike(text, whole())


ORDERS = {
    "in order": ("d", "e"), "crossed": ("e", "d"),
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("channel", ["", ", channel_id=1"])
def test_several_are_under_way_at_once(order, channel):
    dones = {"d": "d = f32[64] all-reduce-done(s)", "e": "e = f32[64] all-reduce-done(r)"}
    between = f"""r = f32[64] all-reduce-start(x), to_apply=f{channel}
  {WORK}
  {dones[ORDERS[order][0]]}
  {dones[ORDERS[order][1]]}"""
    both = "f32[128] concatenate(d, e), dimensions={0}"
    text = halves(f"f32[64] all-reduce-start(p), to_apply=f{channel}", both, between)
    text = text.replace(f"d = {both}", f"g = {both}").replace("tuple(d,", "tuple(g,")
    assert steps_of(text).count("starts") == 2
    alike(text, whole())


def test_two_halves_in_a_loop():
    body = (
        halves(*HALVES["all-reduce"]).partition("ENTRY")[0]
        + """
body { t = (s32[], f32[64], f32[24,24]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[64] get-tuple-element(t), index=1
  y = f32[24,24] get-tuple-element(t), index=2
  s = f32[64] all-reduce-start(x), to_apply=f
  z = f32[24,24] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[64] all-reduce-done(s)
  half = f32[] constant(0.5)
  h = f32[64] broadcast(half), dimensions={}
  n = f32[64] multiply(d, h)
  m = f32[24,24] tanh(z)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[64], f32[24,24]) tuple(j, n, m) }
cond { t = (s32[], f32[64], f32[24,24]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(20)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[64] parameter(0)
  y = f32[24,24] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[64], f32[24,24]) tuple(zero, x, y)
  ROOT w = (s32[], f32[64], f32[24,24]) while(t), condition=cond, body=body }"""
    )
    assert "starts" in steps_of(body)
    given = floats()
    given[1][1] = given[0][1]
    found, wanted = run(body, given), run(body, given, "interpreter")
    for a, b in zip(found, wanted, strict=True):
        assert a[1].tobytes() == b[1].tobytes()
        np.testing.assert_allclose(a[2], b[2], rtol=1e-5, atol=1e-6)


CALLS = """c = f32[64] custom-call(x), custom_call_target="test.before"
  p = f32[64] negate(c)"""


def calling(name):
    """Halves with a call of a function before the start, and of another one between them."""
    start, done = HALVES[name]
    text = halves(start, done, WORK.replace("dot(y, y)", "dot(k, y)"))
    text = text.replace("p = f32[64] negate(x)", CALLS).replace(
        "  z =", '  k = f32[24,24] custom-call(y), custom_call_target="test.between"\n  z ='
    )
    return text


def test_who_starts_a_collective_does_not_wait():
    """Replica 0 starts only when replica 1 is between the halves."""
    there, seen = threading.Event(), []

    def before(x):
        if x[0] == 0:
            seen.append(there.wait(30))
        return x

    def between(y):
        if y[0, 0] == 1:
            there.set()
        return y

    axla.register_custom_call("test.before", before)
    axla.register_custom_call("test.between", between)
    given = [[np.full(64, r, np.float32), np.full((24, 24), r, np.float32)] for r in (0, 1)]
    found = run(calling("all-reduce"), given, deadline=60)
    assert seen == [True]
    assert found[0][0].tolist() == found[1][0].tolist() == [-1.0] * 64


@pytest.mark.parametrize("where", ["before", "between"])
@pytest.mark.parametrize("replica", [0, 1])
def test_a_participant_that_raises_around_the_halves(where, replica):
    def fails(x):
        if x.flat[0] == replica + 1:
            raise ValueError("no such value")
        return x

    axla.register_custom_call("test.before", fails if where == "before" else np.copy)
    axla.register_custom_call("test.between", fails if where == "between" else np.copy)
    executable = axla.compile(axla.parse(calling("all-gather")), backend="cpu")
    given = [[np.full(64, r, np.float32), np.full((24, 24), r, np.float32)] for r in (1, 2)]
    for _ in range(10):
        with pytest.raises(axla.AxlaError, match="no such value"):
            executable.execute_replicated(given, deadline=60)
    good = [[np.zeros(64, np.float32), np.zeros((24, 24), np.float32)]] * 2
    assert not np.asarray(executable.execute_replicated(good)[1][0]).any()


def test_a_failure_of_a_program_without_results_is_raised():
    def fails(x):
        raise ValueError("no such value")

    axla.register_custom_call("test.fails", fails)
    text = """HloModule m, replica_count=2
ENTRY e { x = f32[4] parameter(0)
  c = () custom-call(x), custom_call_target="test.fails", custom_call_has_side_effect=true
  ROOT t = () tuple() }"""
    with pytest.raises(axla.AxlaError, match="no such value"):
        run(text, [[np.zeros(4, np.float32)]] * 2)
