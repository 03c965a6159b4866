"""Programs made to blow up passes: they stay of a sensible size, or are refused."""

from dataclasses import replace

import pytest

from axla.core import flags
from axla.core.errors import CompileError
from axla.passes import driver, pipelines
from axla.passes.layout.concatenates import concatenate_canonicalize
from axla.passes.simplify import fold, inline
from axla.target.machine import Limits, cpu_target
from axla.text.parser import parse_hlo
from work import calls


def nested(depth, call):
    """Computations each calling the next one twice: 2^depth instructions when all calls are inlined."""
    parts = ["f0 { x = f32[4] parameter(0) ROOT r = f32[4] exponential(x) }"]
    for k in range(1, depth):
        parts.append(f"f{k} {{ x = f32[4] parameter(0) a = {call('x', k - 1)} ROOT b = {call('a', k - 1)} }}")
    parts.append(f"ENTRY e {{ x = f32[4] parameter(0) ROOT r = {call('x', depth - 1)} }}")
    return parse_hlo("\n".join(parts))


def test_inlining_stops_growing(monkeypatch):
    monkeypatch.setattr(inline, "GROWTH", 5_000)
    module = nested(60, lambda x, k: f"f32[4] call({x}), to_apply=f{k}")
    driver.run(module, [pipelines.call_inliner])
    assert driver.instruction_count(module) < 20_000


def test_copies_for_each_caller_have_a_limit(monkeypatch):
    monkeypatch.setattr(inline, "CLONES", 5_000)
    module = nested(60, lambda x, k: f"f32[4] call({x}), to_apply=f{k}")
    with pytest.raises(CompileError, match="their copies add more than 5000 instructions") as raised:
        driver.run(module, [pipelines.flatten_call_graph])
    assert "flatten-call-graph" in raised.value.__notes__[0]


def test_copies_are_counted_before_they_are_made():
    def copied(depth):
        module = nested(depth, lambda x, k: f"f32[4] call({x}), to_apply=f{k}")
        with pytest.raises(CompileError, match="their copies add"):
            driver.run(module, [pipelines.call_inliner, pipelines.flatten_call_graph])

    few, many = calls(lambda: copied(30)), calls(lambda: copied(120))
    assert many < 6 * few, f"{few} and {many} calls"


def test_calls_of_a_reducer_that_double_are_refused():
    parts = ["f0 { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }"]
    for k in range(1, 60):
        parts.append(
            f"f{k} {{ x = f32[] parameter(0) y = f32[] parameter(1) "
            f"a = f32[] call(x, y), to_apply=f{k - 1} ROOT b = f32[] call(a, y), to_apply=f{k - 1} }}"
        )
    parts.append(
        "ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=f59 }"
    )
    with pytest.raises(CompileError, match="their copies add"):
        driver.run(parse_hlo("\n".join(parts)), pipelines.CPU, cpu_target())


def test_maps_that_double_are_refused():
    level = """m{0} {{ p = f32[] parameter(0)
      b = f32[2] broadcast(p), dimensions={{}}
      q = f32[2] map(b), dimensions={{0}}, to_apply=m{1}
      s = f32[2] map(q), dimensions={{0}}, to_apply=m{1}
      t = f32[1] slice(s), slice={{[0:1]}}
      ROOT r = f32[] reshape(t) }}"""
    levels = "\n".join(level.format(n, n - 1) for n in range(1, 40))
    text = f"""m0 {{ p = f32[] parameter(0) ROOT r = f32[] sine(p) }}
    {levels}
    ENTRY e {{ p = f32[8] parameter(0) ROOT r = f32[8] map(p), dimensions={{0}}, to_apply=m39 }}"""
    with pytest.raises(CompileError, match="from so many places"):
        driver.run(parse_hlo(text), pipelines.CPU, cpu_target())


def test_folding_does_bounded_work(monkeypatch):
    monkeypatch.setattr(fold, "WORK", 100_000)
    text = """ENTRY e {
      c = f32[64,64] constant({...})
      i = f32[64,64] iota(), iota_dimension=0
      k = f32[1024] constant({NUMBERS})
      s = f32[1024] sine(k)
      t = f32[1024] cosine(s)
      ROOT r = (f32[64,64], f32[64,64], f32[1024]) tuple(c, i, t)
    }""".replace("NUMBERS", ",".join(str(n) for n in range(1024)))
    module = parse_hlo(text)
    driver.run(module, [pipelines.constant_folding])
    assert [i.opcode for i in module.entry.instructions].count("constant") == 2
    monkeypatch.setattr(fold, "WORK", 2_000)
    module = parse_hlo(text)
    driver.run(module, [pipelines.constant_folding])
    assert [i.opcode for i in module.entry.instructions].count("cosine") + [
        i.opcode for i in module.entry.instructions
    ].count("sine") >= 1


def test_huge_results_are_not_materialised():
    module = parse_hlo("""ENTRY e {
      c = f32[] constant(2)
      z = f32[0] constant({})
      p = f32[1000000000] pad(z, c), padding=500000000_500000000
      b = f32[1000000000] broadcast(c), dimensions={}
      m = f32[1000000000] multiply(b, p)
      ROOT r = f32[1000000000] power(m, b)
    }""")
    with flags.override(verify=True):
        driver.run(module, pipelines.SIMPLIFY)
    # What is left is one number, repeated.
    assert module.entry.root.opcode == "broadcast" and module.entry.root.operands[0].opcode == "constant"
    assert module.entry.root.operands[0].op.literal.array == 16.0


def test_elided_constants_are_not_looked_into():
    module = parse_hlo("""ENTRY e {
      c = f32[4] constant({...})
      d = f32[4] constant({...})
      r = f32[2,2] reshape(c)
      t = f32[2,2] transpose(r), dimensions={1,0}
      s = f32[4] add(c, d)
      ROOT q = (f32[2,2], f32[4]) tuple(t, s)
    }""")
    with flags.override(verify=True):
        driver.run(module, pipelines.SIMPLIFY)
    assert [i.opcode for i in module.entry.instructions].count("constant") == 2


def chain_of_calls(depth):
    parts = ["f0 { x = f32[] parameter(0) ROOT r = f32[] negate(x) }"]
    parts += [
        f"f{k} {{ x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f{k - 1} }}"
        for k in range(1, depth)
    ]
    parts.append(f"ENTRY e {{ x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f{depth - 1} }}")
    return parse_hlo("\n".join(parts))


def test_long_chains_of_calls_are_linear():
    def simplify(module):
        with flags.override(verify=False):
            driver.run(module, pipelines.SIMPLIFY)

    small, large = chain_of_calls(300), chain_of_calls(1_200)
    few, many = calls(lambda: simplify(small)), calls(lambda: simplify(large))
    assert many < 6 * few, f"{few} and {many} calls"
    assert driver.instruction_count(large) == 2


CHAIN = "\n".join(f"  v{k + 1} = f32[999] negate(v{k})" for k in range(8))
CHAIN = f"ENTRY e {{ v0 = f32[999] parameter(0)\n{CHAIN}\n  ROOT r = f32[999] abs(v8) }}"


@pytest.mark.parametrize(
    ("limits", "kernels"), [(Limits(), 1), (Limits(members=3), 3), (Limits(tiny=999, line_kernel=9999), 0)]
)
def test_each_machine_has_its_own_kernels(limits, kernels):
    module = parse_hlo(CHAIN)
    target = replace(cpu_target(), limits=limits)
    driver.run(module, (*pipelines.LOWER, *pipelines.KERNELS), target)
    found = [inst for inst in module.entry.instructions if inst.opcode == "fusion"]
    assert len(found) == kernels and module.schedule is not None


@pytest.mark.parametrize("most", [2, 3, 5])
def test_pieces_of_a_concatenation_are_grouped_for_any_limit(most):
    module = parse_hlo(
        "ENTRY e { a = f32[2] parameter(0)\n b = f32[3] parameter(1)\n"
        " ROOT c = f32[18] concatenate(a, b, a, a, b, a, a, a), dimensions={0} }"
    )
    base = cpu_target()
    concatenate_canonicalize(module, replace(base, limits=replace(base.limits, pieces=most)))
    counts = [len(i.operands) for i in module.entry.instructions if i.opcode == "concatenate"]
    assert len(counts) > 1 and max(counts) <= most
