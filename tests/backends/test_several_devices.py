"""Programs on several devices of the cpu: collectives, transfers, and what happens when they fail."""

import threading
import time

import ml_dtypes
import numpy as np
import pytest

import axla
from axla.core.errors import AxlaError, Cancelled, CollectiveFailure, DeadlineExceeded

RNG = np.random.default_rng(7)
TYPES = {
    "pred": bool, "s8": np.int8, "u8": np.uint8, "s32": np.int32, "u64": np.uint64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "c64": np.complex64,
}  # fmt: skip


def values(kind: str, *dims: int) -> np.ndarray:
    dtype = np.dtype(TYPES[kind])
    if dtype.kind == "b":
        return RNG.integers(0, 2, dims).astype(bool)
    if dtype.kind in "iu":
        return RNG.integers(0, 100, dims).astype(dtype)
    found = RNG.normal(size=dims) * 10.0 ** RNG.integers(-3, 3, dims)
    return (found + 1j * found[::-1] if dtype.kind == "c" else found).astype(dtype)


def program(text: str, replicas: int, reducer: str = "add", kind: str = "f32") -> axla.Module:
    head = f"HloModule m, replica_count={replicas}\n"
    body = (
        f"f {{ a = {kind}[] parameter(0)\n b = {kind}[] parameter(1)\n ROOT c = {kind}[] {reducer}(a, b) }}\n"
    )
    return axla.parse(f"{head}{body}ENTRY e {{ {text} }}")


def collectives(kind: str, n: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Every collective of n members, on an array of these sizes."""
    rows, ring = 6 * n, ",".join(f"{{{i},{(i + 1) % n}}}" for i in range(n))
    array = f"{kind}[{rows},5]"
    return {
        "all-reduce": (f"p = {array} parameter(0)\n ROOT r = {array} all-reduce(p), to_apply=f", (rows, 5)),
        "reduce-scatter": (
            f"p = {array} parameter(0)\n"
            f"ROOT r = {kind}[6,5] reduce-scatter(p), dimensions={{0}}, to_apply=f",
            (rows, 5),
        ),
        "reduce-scatter-1": (
            f"p = {kind}[5,{rows}] parameter(0)\n"
            f"ROOT r = {kind}[5,6] reduce-scatter(p), dimensions={{1}}, to_apply=f",
            (5, rows),
        ),
        "all-gather": (
            f"p = {array} parameter(0)\n ROOT r = {kind}[{rows},{5 * n}] all-gather(p), dimensions={{1}}",
            (rows, 5),
        ),
        "all-to-all": (
            f"p = {array} parameter(0)\n ROOT r = {array} all-to-all(p), dimensions={{0}}",
            (rows, 5),
        ),
        "permute": (
            f"p = {array} parameter(0)\n"
            f"ROOT r = {array} collective-permute(p), source_target_pairs={{{ring}}}",
            (rows, 5),
        ),
        "broadcast": (
            f"p = {array} parameter(0)\n ROOT r = {array} collective-broadcast(p), "
            f"replica_groups={{{{{','.join(map(str, range(n)))}}}}}",
            (rows, 5),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("kind", TYPES)
def test_every_collective_has_the_bits_of_the_interpreter(kind, n):
    for name, (text, dims) in collectives(kind, n).items():
        module = program(text, n, "or" if kind == "pred" else "add", kind)
        given = [[values(kind, *dims)] for _ in range(n)]
        found = axla.compile(module, backend="cpu").execute_replicated(given)
        wanted = axla.compile(module, backend="interpreter").execute_replicated(given)
        for device, (a, b) in enumerate(zip(found, wanted, strict=True)):
            assert np.asarray(a[0]).tobytes() == np.asarray(b[0]).tobytes(), (name, device)
            assert a[0].device == device


def test_a_run_is_the_same_every_time_and_at_every_number_of_threads():
    text = """p = f32[40000] parameter(0)
        q = f32[40000] multiply(p, p)
        r = f32[40000] all-reduce(q), to_apply=f
        s = f32[10000] reduce-scatter(r), dimensions={0}, to_apply=f
        t = f32[40000] all-gather(s), dimensions={0}
        ROOT u = f32[40000] all-to-all(t), dimensions={0}"""
    executable = axla.compile(program(text, 4), backend="cpu")
    given = [[values("f32", 40000)] for _ in range(4)]
    first = [np.asarray(row[0]).tobytes() for row in executable.execute_replicated(given)]
    before = axla.num_threads()
    try:
        for number in range(30):
            axla.set_num_threads(1 + number % 3)
            found = executable.execute_replicated(given)
            assert [np.asarray(row[0]).tobytes() for row in found] == first
    finally:
        axla.set_num_threads(before)


def test_variadic_and_several_operands():
    variadic = axla.parse("""HloModule m, replica_count=3
        f { a = f32[] parameter(0)
          i = s32[] parameter(1)
          b = f32[] parameter(2)
          j = s32[] parameter(3)
          c = pred[] compare(a, b), direction=GE
          x = f32[] select(c, a, b)
          y = s32[] select(c, i, j)
          ROOT t = (f32[], s32[]) tuple(x, y) }
        ENTRY e { p = f32[100] parameter(0)
          q = s32[100] parameter(1)
          ROOT r = (f32[100], s32[100]) all-reduce(p, q), to_apply=f }""")
    given = [[values("f32", 100), values("s32", 100)] for _ in range(3)]
    found = axla.compile(variadic, backend="cpu").execute_replicated(given)
    stacked = np.stack([row[0] for row in given])
    np.testing.assert_array_equal(np.asarray(found[1][0]), stacked.max(0))
    wanted = np.take_along_axis(np.stack([row[1] for row in given]), stacked.argmax(0)[None], 0)[0]
    np.testing.assert_array_equal(np.asarray(found[2][1]), wanted)


LOOP = """
HloModule m, replica_count=2
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
body { t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4] get-tuple-element(t), index=1
  y = f32[4] all-reduce(x), to_apply=f
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[4]) tuple(j, y) }
cond { t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(COUNT)
  id = u32[] replica-id()
  k = s32[] convert(id)
  m = s32[] multiply(k, k)
  EXTRA
  ROOT c = pred[] compare(i, l), direction=LT }
ENTRY e { x = f32[4] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[4]) tuple(z, x)
  w = (s32[], f32[4]) while(t), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1 }
"""


def test_collectives_in_loops():
    text = LOOP.replace("COUNT", "10").replace("EXTRA", "l = s32[] add(n, n)")
    found = axla.compile(axla.parse(text), backend="cpu").execute_replicated([[np.ones(4, np.float32)]] * 2)
    np.testing.assert_array_equal(np.asarray(found[0][0]), np.full(4, 2.0**20, np.float32))


def test_who_waits_for_a_participant_that_has_ended_is_told_so_at_once():
    """Replica 1 goes round once more than replica 0."""
    text = LOOP.replace("COUNT", "10").replace("EXTRA", "l = s32[] add(n, m)")
    executable = axla.compile(axla.parse(text), backend="cpu")
    begin = time.monotonic()
    with pytest.raises(
        CollectiveFailure, match=r"replica 1, partition 0 in .* for \(replica 0, partition 0\)"
    ):
        executable.execute_replicated([[np.ones(4, np.float32)]] * 2)
    assert time.monotonic() - begin < 5
    good = axla.compile(program("p = f32[4] parameter(0)\n ROOT r = f32[4] all-reduce(p), to_apply=f", 2))
    found = good.execute_replicated([[np.ones(4, np.float32)]] * 2)
    assert np.asarray(found[1][0]).tolist() == [2.0] * 4


@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_a_run_that_does_not_end_is_stopped_on_all(how):
    text = LOOP.replace("COUNT", "2000000000").replace("EXTRA", "l = s32[] maximum(n, m)")
    executable = axla.compile(axla.parse(text), backend="cpu")
    given = [[np.zeros(4, np.float32)]] * 2
    if how == "deadline":
        with pytest.raises(DeadlineExceeded):
            executable.execute_replicated(given, deadline=0.1)
        return

    def cancel():
        while not executable.cancel():  # until the run is there
            time.sleep(0.01)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(Cancelled):
        executable.execute_replicated(given)
    canceller.join()


def test_a_participant_that_raises_stops_all():
    def fails_on_one(x):
        if x[0] > 0:
            raise ValueError("no such value")
        return x

    axla.register_custom_call("test.fails_on_one", fails_on_one)
    text = """p = f32[4] parameter(0)
        q = f32[4] custom-call(p), custom_call_target="test.fails_on_one"
        ROOT r = f32[4] all-reduce(q), to_apply=f"""
    executable = axla.compile(program(text, 2), backend="cpu")
    with pytest.raises((AxlaError, ValueError), match="no such value"):
        executable.execute_replicated([[np.zeros(4, np.float32)], [np.ones(4, np.float32)]])
    found = executable.execute_replicated([[np.zeros(4, np.float32)]] * 2)
    assert np.asarray(found[0][0]).tolist() == [0.0] * 4


SENDER = """HloModule sender
ENTRY e { x = f32[3] parameter(0)
  t = token[] after-all()
  s = (f32[3], u32[], token[]) send(x, t), channel_id=7
  d = token[] send-done(s), channel_id=7
  ROOT r = f32[3] add(x, x) }
"""
RECEIVER = """HloModule receiver
ENTRY e { t = token[] after-all()
  s = (f32[3], u32[], token[]) recv(t), channel_id=7
  d = (f32[3], token[]) recv-done(s), channel_id=7
  v = f32[3] get-tuple-element(d), index=0
  ROOT r = f32[3] negate(v) }
"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_programs_send_to_each_other(backend):
    x = np.arange(3, dtype=np.float32)
    modules = [axla.parse(SENDER), axla.parse(RECEIVER)]
    (double,), (negative,) = axla.backends.get(backend).execute_parallel(modules, [[x], []])
    assert np.asarray(double).tolist() == [0, 2, 4]
    assert np.asarray(negative).tolist() == [0, -1, -2]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_who_receives_what_nobody_sends_is_told_so(backend):
    with pytest.raises(CollectiveFailure, match="nobody sent"):
        axla.backends.get(backend).execute_parallel([axla.parse(RECEIVER)] * 2, [[], []])


def test_whole_arrays_are_cut_and_joined_by_shardings():
    text = """
    module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
      sdy.mesh @mesh = <["x"=2]>
      func.func public @main(%a: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
          -> (tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
        %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>]
            out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x3xf32>) {
          %1 = stablehlo.partition_id : tensor<ui32>
          %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<f32>
          %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
          %4 = stablehlo.add %b, %3 : tensor<4x3xf32>
          sdy.return %4 : tensor<4x3xf32>
        } : (tensor<8x3xf32>) -> tensor<8x3xf32>
        return %0 : tensor<8x3xf32>
      }
    }"""
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    for backend in ("cpu", "interpreter"):
        found = np.asarray(axla.compile(axla.parse(text), backend=backend)(x))
        np.testing.assert_array_equal(found, x + np.repeat([0, 1], 4)[:, None])


SHARD_MAP = """
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
    %i = stablehlo.iota dim = 0 : tensor<4x3xf32>
    %0 = sdy.manual_computation(%a, %i) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{"x"}, {}]>]
        out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<2x3xf32>, %j: tensor<2x3xf32>) {
      %1 = stablehlo.add %b, %j : tensor<2x3xf32>
      sdy.return %1 : tensor<2x3xf32>
    } : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
}"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_parameters_without_a_sharding_and_whole_arrays_are_cut_as_regions_want_them(backend):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    program = axla.compile(axla.parse(SHARD_MAP), backend=backend)
    np.testing.assert_array_equal(np.asarray(program(x)), x + np.arange(4, dtype=np.float32)[:, None])
    rows = program.execute_replicated([[x[:2]], [x[2:]]])
    np.testing.assert_array_equal(np.asarray(rows[1][0]), x[2:] + np.float32([[2], [3]]))


AUTOMATIC = """
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0 = stablehlo.negate %a : tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
}"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_outside_of_regions_every_partition_computes_whole_arrays(backend):
    of_gspmd = AUTOMATIC.replace('sdy.mesh @mesh = <["x"=2]>', "")
    for shardy, gspmd in (('[{"x"}, {}]', "devices=[2,1]<=[2]"), ("[{}, {}]", "replicated")):
        said = f"sdy.sharding = #sdy.sharding<@mesh, {shardy}>"
        of_gspmd = of_gspmd.replace(said, f'mhlo.sharding = "{{{gspmd}}}"')
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for text in (AUTOMATIC, of_gspmd):
        module = axla.parse(text)
        rows = axla.compile(module, backend=backend).execute_replicated([[x[:2]], [x[2:]]])
        assert all((np.asarray(row[0]) == -x).all() for row in rows)
        assert (np.asarray(axla.compile(module, backend=backend)(x)) == -x).all()
        assert (np.asarray(axla.compile(module, backend=backend, replicas="first")(x)) == -x).all()


BY_HAND = """HloModule g, num_partitions=2
ENTRY e {
  x = f32[6] parameter(0), sharding={devices=[2]<=[2]}
  f = f32[3] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  y = f32[3] add(f, f), sharding={manual}
  ROOT r = f32[6] custom-call(y), custom_call_target="SPMDShardToFullShape", sharding={devices=[2]<=[2]}
}"""


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("ROOT r = f32[6]", "ROOT r = f32[5]", axla.UnsupportedError),
        ("ROOT r = f32[6]", "ROOT r = f32[600]", axla.VerifyError),
        ("x = f32[6]", "x = f32[7]", axla.UnsupportedError),
        (
            "sharding={devices=[2]<=[2]}",
            "sharding={devices=[1,2]<=[2] last_tile_dims={manual}}",
            axla.VerifyError,
        ),
    ],
)
def test_parts_that_do_not_make_the_whole_are_refused(old, new, error):
    with pytest.raises(error):
        axla.compile(axla.parse(BY_HAND.replace(old, new)))


def test_whole_arrays_are_donated_and_results_may_nest():
    x = axla.device_put(np.arange(6, dtype=np.float32))
    (found,) = axla.compile(axla.parse(BY_HAND)).execute([x], donate=[0])
    assert found.tolist() == [0, 2, 4, 6, 8, 10] and x.is_deleted
    nested = BY_HAND.replace("ROOT r", "r").replace(
        "\n}", "\n  t = (f32[6]) tuple(r)\n  ROOT both = ((f32[6]), f32[6]) tuple(t, r)\n}"
    )
    (inner,), outer = axla.compile(axla.parse(nested))(np.arange(6, dtype=np.float32))
    assert inner.tolist() == outer.tolist() == [0, 2, 4, 6, 8, 10]


def test_a_client_grows_to_the_devices_of_an_assignment():
    module = program("p = f32[4] parameter(0)\n ROOT r = f32[4] all-reduce(p), to_apply=f", 2)
    found = axla.compile(module, device_assignment=[[6], [1]]).execute_replicated(
        [[np.ones(4, np.float32)]] * 2
    )
    assert [row[0].device for row in found] == [6, 1]


def test_a_run_waits_for_inputs_that_another_device_makes():
    """The first run makes its results when it is let go, after the second was handed over."""
    go = threading.Event()

    def held(x):
        assert go.wait(30)
        return x + 1

    axla.register_custom_call("test.held_back", held)
    call = 'custom-call(p), custom_call_target="test.held_back"'
    slow = axla.parse(f"HloModule s\nENTRY e {{ p = f32[4] parameter(0)\n  ROOT r = f32[4] {call} }}")
    made = axla.compile(slow, device_assignment=[[2]]).execute([np.ones(4, np.float32)], asynchronous=True)
    total = axla.compile(program("p = f32[4] parameter(0)\n ROOT r = f32[4] all-reduce(p), to_apply=f", 2))
    found = total.execute_replicated([made, made], asynchronous=True)
    stopped = total.execute_replicated([made, made], asynchronous=True, deadline=0.02)
    with pytest.raises(DeadlineExceeded):
        stopped[1][0].block_until_ready()
    go.set()
    assert [row[0].tolist() for row in found] == [[4.0] * 4] * 2


HOST_CHANNELS = """HloModule h, replica_count=2
ENTRY e {
  x = f32[4] parameter(0)
  t = token[] after-all()
  s = (f32[4], u32[], token[]) send(x, t), channel_id=908, is_host_transfer=true
  sd = token[] send-done(s), channel_id=908, is_host_transfer=true
  r = (f32[4], u32[], token[]) recv(sd), channel_id=907, is_host_transfer=true
  rd = (f32[4], token[]) recv-done(r), channel_id=907, is_host_transfer=true
  ROOT o = f32[4] get-tuple-element(rd), index=0
}"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_channels_of_the_host_are_those_of_each_device(backend):
    for device in range(2):
        axla.feeds(device).from_host(907).put(np.full(4, 10 + device, np.float32))
    executable = axla.compile(axla.parse(HOST_CHANNELS), backend=backend)
    found = executable.execute_replicated([[np.full(4, d, np.float32)] for d in range(2)], deadline=20)
    assert [np.asarray(row[0])[0] for row in found] == [10, 11]
    assert [axla.feeds(device).to_host(908).get()[0] for device in range(2)] == [0, 1]
