"""Where arrays lie."""

import pytest

from axla.analysis import coalesce
from axla.analysis.buffers import assign_buffers
from axla.core.errors import InternalError, InvalidArgument, VerifyError
from axla.passes.schedule.copies import copy_insertion, in_order
from axla.passes.schedule.order import schedule
from axla.program.memory import AllocationKind
from axla.target.machine import Limits, cpu_target
from axla.text.parser import parse_hlo
from memory_check import check


def buffers_of(text):
    module = parse_hlo(text)
    schedule(module, cpu_target())
    copy_insertion(module, cpu_target())
    buffers = assign_buffers(module, Limits())
    check(buffers)
    return buffers, {i.name: i for c in module.computations for i in c.instructions}


def test_results_are_written_where_they_belong():
    buffers, by_name = buffers_of("""
ENTRY e { x = f32[64] parameter(0) a = f32[64] tanh(x) b = f32[64] negate(a) c = f32[64] abs(b)
  ROOT r = (f32[64], f32[64]) tuple(c, a) }""")
    assert str(buffers.slice(by_name["c"])) == "result0[0:256]"
    assert str(buffers.slice(by_name["a"])) == "result1[0:256]"
    assert str(buffers.slice(by_name["b"])) == "result0[0:256]"  # c is written over b
    assert buffers.workspace_bytes == 0


def test_views_are_not_copied():
    buffers, by_name = buffers_of("""
ENTRY e { x = f32[8,8] parameter(0) a = f32[8,8] tanh(x) v = f32[64] reshape(a)
  b = f32[64] reverse(v), dimensions={0}
  ROOT r = f32[8,8] reshape(b) }""")
    assert buffers.slice(by_name["v"]) == buffers.slice(by_name["a"])
    assert str(buffers.slice(by_name["b"])) == "result0[0:256]"


def test_memory_is_used_again():
    chain = " ".join(f"v{n + 1} = f32[64] reverse(v{n}), dimensions={{0}}" for n in range(20))
    buffers, _ = buffers_of(f"ENTRY e {{ v0 = f32[64] parameter(0) {chain} ROOT r = f32[64] tanh(v20) }}")
    assert buffers.workspace_bytes <= 2 * 256


def test_small_values_live_in_registers_unless_a_kernel_reads_them():
    buffers, by_name = buffers_of("""
ENTRY e { x = f32[] parameter(0) y = f32[64] parameter(1) a = f32[] tanh(x) b = f32[] negate(a)
  w = f32[64] broadcast(b), dimensions={} ROOT r = f32[64] add(y, w) }""")
    assert buffers.slices(by_name["a"]) == (None,)
    assert buffers.slice(by_name["b"]).allocation.kind is AllocationKind.WORKSPACE
    with pytest.raises(InternalError, match="no address in memory"):
        buffers.slice(by_name["a"])


def test_equal_constants_are_one():
    words = ",".join(map(str, range(100)))
    buffers, by_name = buffers_of(f"""
ENTRY e {{ x = f32[100] parameter(0) c = f32[100] constant({{{words}}}) d = f32[100] constant({{{words}}})
  a = f32[100] add(x, c) v = f32[100] reverse(a), dimensions={{0}} ROOT r = f32[100] add(v, d) }}""")
    assert len(buffers.constants) == 1 and buffers.constants_bytes == 448
    assert buffers.slice(by_name["c"]) == buffers.slice(by_name["d"])


UPDATE = """
ENTRY e {{ x = f32[64] parameter(0) u = f32[32] parameter(1) i = s32[] constant(3)
  ROOT d = f32[64] dynamic-update-slice(x, u, i) }}"""


def test_donation():
    buffers, by_name = buffers_of(
        "HloModule m, input_output_alias={ {}: (0, {}, must-alias) }" + UPDATE.format()
    )
    place = buffers.slice(by_name["d"])
    assert place == buffers.results[0] == buffers.parameters[0] == buffers.slice(by_name["x"])
    assert place.allocation.writable and buffers.aliases == ((0, 0),)
    buffers, by_name = buffers_of(UPDATE.format())
    assert buffers.results[0] != buffers.parameters[0] and not buffers.parameters[0].allocation.writable


def test_exchanged_donations():
    buffers, _ = buffers_of("""HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }
ENTRY e { x = f32[64] parameter(0) y = f32[64] parameter(1) ROOT r = (f32[64], f32[64]) tuple(y, x) }""")
    assert len(buffers.aliases) == 2


@pytest.mark.parametrize(
    ("alias", "message"),
    [("{}: (7, {}, may-alias)", "no parameter 7"), ("{}: (1, {}, must-alias)", "cannot lie in parameter 1"),
     ("{1}: (0, {}, may-alias)", "no element"), ("{}: (0, {3}, may-alias)", "no element")],
)  # fmt: skip
def test_wrong_aliases(alias, message):
    try:
        module = parse_hlo(f"HloModule m, input_output_alias={{ {alias} }}" + UPDATE.format())
    except Exception as error:  # some are already refused by the parser
        pytest.skip(f"refused before: {error}")
    schedule(module, cpu_target())
    with pytest.raises(InvalidArgument, match=message):
        copy_insertion(module, cpu_target())


def test_buffers_want_copies():
    module = parse_hlo("ENTRY e { ROOT x = f32[64] parameter(0) }")
    schedule(module, cpu_target())
    with pytest.raises(InternalError, match="copy-insertion first"):
        assign_buffers(module, Limits())


def test_text():
    buffers, _ = buffers_of(
        "ENTRY e { x = f32[64] parameter(0) a = f32[64] tanh(x) ROOT r = f32[64] reverse(a), dimensions={0} }"
    )
    assert str(buffers).split("\n")[1:] == [
        "  parameter 0 parameter0[0:256]", "  result 0 result0[0:256]",
        "  workspace 256 bytes, constants 0 bytes", "  e {", "    %x: parameter0[0:256]",
        "    %a: workspace[0:256]", "    %r: result0[0:256]", "  }", "}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "spoils",
    [
        {},
        {0: 1},
        {0: 1, 1: 2},
        {0: 1, 1: 0},
        {0: 1, 1: 2, 2: 0},
        {0: 1, 2: 1, 3: 0},
        {0: 1, 1: 0, 2: 0, 3: 2},
        {1: 3, 3: 1, 0: 2, 2: 0},
    ],
)
def test_copies_at_once(spoils):
    """Playing the copies one by one gives what doing them at once gives."""
    count = 4
    source = {n: f"old {spoils[n]}" if n in spoils else f"value {n}" for n in range(count)}
    memory = {f"place {n}": f"old {n}" for n in range(count)}
    early: dict[int, str] = {}
    for n in in_order(list(range(count)), dict(spoils)):
        if n < 0:
            early[~n] = memory[f"place {spoils[~n]}"]
        else:
            now = early.get(n) or (memory[f"place {spoils[n]}"] if n in spoils else source[n])
            memory[f"place {n}"] = now
    assert memory == {f"place {n}": source[n] for n in range(count)}


SORTED = """
lt { a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { x = TYPE[24,96] parameter(0) d = TYPE[24,96] sort(x), dimensions={1}, to_apply=lt
  q = TYPE[24,96] reverse(d), dimensions={0,1} LAST }"""
WIDER = {
    "lent": ("f32", "z = s8[24,96] convert(q) ROOT r = s8[8,24,96] broadcast(z), dimensions={1,2}"),
    "reused": ("f64", "ROOT r = c64[24,96] convert(q)"),
}


@pytest.mark.parametrize("kind", WIDER)
def test_results_do_not_hold_what_needs_a_greater_alignment(kind):
    """Callers align results to their elements only."""
    dtype, last = WIDER[kind]
    buffers, by_name = buffers_of(SORTED.replace("TYPE", dtype).replace("LAST", last))
    assert {buffers.slice(by_name[name]).allocation.kind for name in "dq"} == {AllocationKind.WORKSPACE}


def test_results_hold_what_needs_no_greater_alignment():
    last = "y = s32[24,96] convert(q) ROOT r = s32[24,96] reverse(y), dimensions={1}"
    buffers, by_name = buffers_of(SORTED.replace("TYPE", "f32").replace("LAST", last))
    assert AllocationKind.RESULT in {buffers.slice(by_name[name]).allocation.kind for name in "dqy"}


@pytest.mark.parametrize("kind", WIDER)
def test_the_check_finds_wrong_alignment(monkeypatch, kind):
    monkeypatch.setattr(coalesce, "element_alignment", lambda shape: 1)
    dtype, last = WIDER[kind]
    with pytest.raises(VerifyError, match="is not aligned to"):
        buffers_of(SORTED.replace("TYPE", dtype).replace("LAST", last))
