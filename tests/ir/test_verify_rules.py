"""The verifier's rules, on small texts: one that breaks each rule, and the same text mended."""

from __future__ import annotations

import pytest

from axla.core.errors import AxlaError, VerifyError
from axla.ir.verify import verify
from axla.text import parse_hlo

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""
CALLED = """
called {
  c = f32[4] parameter(0)
  ROOT n = f32[4] negate(c)
}
"""
SEND = "(f32[4], u32[], token[]) send(x, t), channel_id=1"
RECV = "(f32[4], u32[], token[]) recv(t), channel_id=1"
PAIRS = 'frontend_attributes={_xla_send_recv_source_target_pairs="%s"}'
LOOP = "(s32[], f32[4]) while(init), condition=condition, body=body"
WHILE = """
condition {
  c = (s32[], f32[4]) parameter(0)
  ROOT less = pred[] constant(false)
}
body {
  b = (s32[], f32[4]) parameter(0)%s
  i = s32[] get-tuple-element(b), index=0
  v = f32[4] get-tuple-element(b), index=1
  ROOT next = (s32[], f32[4]) tuple(i, v)
}
"""


def entry(*lines: str, header: str = "HloModule m", before: str = "") -> str:
    """A text whose entry has the parameter x, a token t, and these lines."""
    body = "\n  ".join(("x = f32[4] parameter(0)", "t = token[] after-all()", *lines))
    return f"{header}\n{before}\nENTRY e {{\n  {body}\n}}\n"


def collective(
    attributes: str, opcode: str = "all-reduce", shape: str = "f32[4]", header: str = "HloModule m"
):
    to_apply = ", to_apply=add" if opcode in ("all-reduce", "reduce-scatter") else ""
    return entry(f"ROOT r = {shape} {opcode}(x), {attributes}{to_apply}", header=header, before=ADD)


def permute(pairs: str, header: str = "HloModule m", more: str = ""):
    return entry(f"ROOT r = f32[4] collective-permute(x), source_target_pairs={pairs}{more}", header=header)


def transfers(*lines: str, scheduled: str = ", is_scheduled=true"):
    return entry(*lines, "ROOT r = f32[4] copy(x)", header="HloModule m" + scheduled)


def sent(pairs: str) -> tuple[str, str]:
    return f"s = {SEND}, {PAIRS % pairs}", "sd = token[] send-done(s), channel_id=1"


def received(pairs: str) -> tuple[str, str]:
    return f"r1 = {RECV}, {PAIRS % pairs}", "rd = (f32[4], token[]) recv-done(r1), channel_id=1"


def sharded(text: str, shape: str = "f32[4]", opcode: str = "copy(x)"):
    return entry(f"ROOT r = {shape} {opcode}, sharding={text}")


def composite(attributes: str):
    return entry(f"ROOT r = f32[4] call(x), to_apply=called, is_composite=true{attributes}", before=CALLED)


def fused(body: str, calls: str = "ROOT r = f32[4] fusion(x), kind=kLoop, calls=fused"):
    return entry(calls, before=f"fused {{\n  p = f32[4] parameter(0)\n  {body}\n}}\n")


START = "((f32[4]), f32[4], u32[])"


def aliased(aliases: str, result: str = "f32[2,2]"):
    body = f"fused {{\n  p = f32[2,2] parameter(0)\n  n = {result} negate(p)\n  s = f32[2,2] sine(p)\n"
    body += f"  ROOT t = ({result}, f32[2,2]) tuple(n, s)\n}}\n"
    call = f"fusion(y), kind=kLoop, calls=fused, output_to_operand_aliasing={{{aliases}}}"
    return entry("y = f32[2,2] reshape(x)", f"ROOT r = ({result}, f32[2,2]) {call}", before=body)


def begun(aliases: str):
    start = f"s = {START} async-start(x), calls=called, output_to_operand_aliasing={{{aliases}}}"
    return entry(start, "ROOT d = f32[4] async-done(s)", before=CALLED)


def from_host(first: str, name: str, second: str, other: str, channel: int = 1):
    lines = []
    for n, (shape, rendezvous, number) in enumerate(((first, name, 1), (second, other, channel))):
        same = f"channel_id={number}, is_host_transfer=true"
        names = f'frontend_attributes={{_xla_host_transfer_rendezvous="{rendezvous}"}}'
        lines.append(f"r{n} = ({shape}, u32[], token[]) recv(t), {same}, {names}")
        lines.append(f"d{n} = ({shape}, token[]) recv-done(r{n}), {same}")
    return entry(*lines, "ROOT r = f32[4] copy(x)")


def accurate(opcode: str, accuracy: str):
    return entry(f"ROOT r = f32[4] {opcode}(x), result_accuracy={{{accuracy}}}")


def ragged(source: str = "f32[4,2]", target: str = "f32[8,2]", offsets: str = "s32[4],s32[4]"):
    shapes = [
        source,
        target,
        *offsets.replace("],", "];").split(";"),
        *[offsets.replace("],", "];").split(";")[0]] * 2,
    ]
    lines = [f"p{n} = {shape} parameter({n + 1})" for n, shape in enumerate(shapes)]
    listed = ", ".join(f"p{n}" for n in range(6))
    return entry(*lines, f"ROOT r = {target} ragged-all-to-all({listed}), replica_groups={{}}")


def product(operands: str):
    return entry(f"ROOT r = f32[] dot({operands}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}")


def convolved(lhs: str, rhs: str, result: str):
    lines = (f"p = {lhs}[1,4,1] parameter(1)", f"k = {rhs}[2,1,1] parameter(2)")
    window = "window={size=2}, dim_labels=b0f_0io->b0f"
    return entry(*lines, f"ROOT r = {result}[1,3,1] convolution(p, k), {window}")


def generated(state: str, algorithm: str):
    call = f"({state}, u32[4]) rng-bit-generator(p), algorithm={algorithm}"
    return entry(f"p = {state} parameter(1)", f"ROOT r = {call}")


EIGHT = "HloModule m, replica_count=8"
TWO = ("c = (f32[4], f32[4], u32[]) copy-start(x)", "d = f32[4] copy-done(c)")
RUNS_ON_HOST = CALLED.rstrip() + ', execution_thread="host"\n'
NEGATED = "ROOT n = f32[4] negate(p)"

# Rule, a text that breaks it, and the text mended.
RULES = [
    ("pair_user", entry(*TWO, "ROOT e2 = f32[4] copy-done(c)"), entry(*TWO, "ROOT e2 = f32[4] copy(d)")),
    ("pair_user", entry("ROOT c = (f32[4], f32[4], u32[]) copy-start(x)"), entry(*TWO)),
    (
        "pair_operand",
        entry(
            "u = u32[] constant(0)",
            "c = (f32[4], f32[4], u32[]) tuple(x, x, u)",
            "ROOT d = f32[4] copy-done(c)",
        ),
        entry(*TWO),
    ),
    (
        "pair_user",
        entry(f"ROOT s = {START} async-start(x), calls=called", before=CALLED),
        entry(f"s = {START} async-start(x), calls=called", "ROOT d = f32[4] async-done(s)", before=CALLED),
    ),
    (
        "pair_user",
        entry(
            f"s = {START} async-start(x), calls=called",
            f"u = {START} async-update(s)",
            "d = f32[4] async-done(s)",
            "ROOT e2 = f32[4] async-done(u)",
            before=CALLED,
        ),
        entry(
            f"s = {START} async-start(x), calls=called",
            f"u = {START} async-update(s)",
            "ROOT d = f32[4] async-done(u)",
            before=CALLED,
        ),
    ),
    (
        "pair_result",
        entry(
            "s = ((f32[4]), (), u32[]) async-start(x), calls=called",
            "ROOT d = f32[5] async-done(s)",
            before=CALLED,
        ),
        entry(
            "s = ((f32[4]), (), u32[]) async-start(x), calls=called",
            "ROOT d = f32[4] async-done(s)",
            before=CALLED,
        ),
    ),
    (
        "pair_user",
        entry("s = f32[4] all-reduce-start(x), to_apply=add", "ROOT r = f32[4] copy(s)", before=ADD),
        entry(
            "s = f32[4] all-reduce-start(x), to_apply=add", "ROOT r = f32[4] all-reduce-done(s)", before=ADD
        ),
    ),
    (
        "pair_user",
        entry(f"s = {SEND}", "ROOT g = f32[4] get-tuple-element(s), index=0"),
        entry(f"s = {SEND}", "ROOT d = token[] send-done(s), channel_id=1"),
    ),
    (
        "channel_id",
        entry(f"s = {SEND}", "ROOT d = token[] send-done(s), channel_id=2"),
        entry(f"s = {SEND}", "ROOT d = token[] send-done(s), channel_id=1"),
    ),
    (
        "channel_kind",
        entry(f"s = {SEND}, is_host_transfer=true", "ROOT d = token[] send-done(s), channel_id=1"),
        entry(
            f"s = {SEND}, is_host_transfer=true",
            "ROOT d = token[] send-done(s), channel_id=1, is_host_transfer=true",
        ),
    ),
    ("channel_id", collective("channel_id=0"), collective("channel_id=1")),
    (
        "channel_kind",
        entry(
            f"s = {SEND}",
            "d = token[] send-done(s), channel_id=1",
            "ROOT r = f32[4] all-to-all(x), channel_id=1, dimensions={0}",
        ),
        entry(
            f"s = {SEND}",
            "d = token[] send-done(s), channel_id=1",
            "ROOT r = f32[4] all-to-all(x), channel_id=2, dimensions={0}",
        ),
    ),
    (
        "channel_order",
        transfers(*sent("{{0,1}}"), "c = f32[4] all-to-all(x), dimensions={0}"),
        transfers(*sent("{{0,1}}"), *received("{{0,1}}"), "c = f32[4] all-to-all(x), dimensions={0}"),
    ),
    (
        "channel_order",
        transfers(*sent("{{0,1}}"), *received("{{1,2}}")),
        transfers(*sent("{{0,1}}"), *received("{{0,1}}")),
    ),
    (
        "channel_pairs",
        transfers(*sent("{{0,1},{0,2}}"), *received("{{0,1},{0,2}}")),
        transfers(*sent("{{0,1},{0,2}}"), *received("{{0,1},{0,2}}"), scheduled=""),
    ),
    (
        "channel_pairs",
        transfers(*sent("{{0,1},{1,0}}"), *received("{{0,1},{1,0}}")),
        transfers(*sent("{{0,1},{1,2}}"), *received("{{0,1},{1,2}}")),
    ),
    ("group_members", collective("replica_groups={{0,1},{3,4}}"), collective("replica_groups={{0,1},{3,2}}")),
    (
        "group_members",
        collective("replica_groups={{0,1}}", header=EIGHT),
        collective("replica_groups={{0,1,2,3,4,5,6,7}}", header=EIGHT),
    ),
    (
        "all_reduce_groups",
        collective("replica_groups={{0,1},{1,2}}"),
        collective("replica_groups={{0,1},{3,2}}"),
    ),
    ("all_reduce_groups", collective("replica_groups={{0,1},{}}"), collective("replica_groups={{0,1},{2}}")),
    ("all_reduce_groups", collective("replica_groups={{0,-1}}"), collective("replica_groups={{0,1}}")),
    (
        "all_reduce_ids",
        collective("use_global_device_ids=true"),
        collective("use_global_device_ids=true, channel_id=1, replica_groups={{0}}"),
    ),
    (
        "all_gather_groups",
        collective("replica_groups={{0,1},{2}}, dimensions={0}", "all-gather", "f32[8]"),
        collective("replica_groups={{0,1},{2,3}}, dimensions={0}", "all-gather", "f32[8]"),
    ),
    (
        "group_size",
        collective("dimensions={0}", "all-gather", "f32[8]", EIGHT),
        collective("dimensions={0}", "all-gather", "f32[32]", EIGHT),
    ),
    (
        "all_gather_c3",
        collective("replica_groups={{0,1}}, dimensions={0}", "all-gather", "f32[12]"),
        collective("replica_groups={{0,1,2}}, dimensions={0}", "all-gather", "f32[12]"),
    ),
    (
        "reduce_scatter_c2",
        collective("dimensions={1}", "reduce-scatter", "f32[4]"),
        collective("dimensions={0}", "reduce-scatter", "f32[4]"),
    ),
    (
        "group_size",
        collective("replica_groups={{0,1,2}}", "all-to-all", "(f32[4])"),
        collective("replica_groups={{0}}", "all-to-all", "(f32[4])"),
    ),
    ("collective_permute_c1", permute("{{0,1},{0,2}}"), permute("{{0,1},{1,2}}")),
    ("collective_permute_c1", permute("{{0,-1}}"), permute("{{0,1}}")),
    ("group_pairs", permute("{{0,8}}", EIGHT), permute("{{0,7}}", EIGHT)),
    (
        "group_pairs",
        permute("{{0,2}}", "HloModule m, num_partitions=2", ", channel_id=1"),
        permute("{{0,1}}", "HloModule m, num_partitions=2", ", channel_id=1"),
    ),
    (
        "collective_permute_start_c1",
        entry(
            "s = (f32[4], f32[4]) collective-permute-start(x), source_target_pairs={{0,1},{2,1}}",
            "ROOT d = f32[4] collective-permute-done(s)",
        ),
        entry(
            "s = (f32[4], f32[4]) collective-permute-start(x), source_target_pairs={{0,1},{2,3}}",
            "ROOT d = f32[4] collective-permute-done(s)",
        ),
    ),
    (
        "module_constrained_layouts",
        entry(
            "a = f32[4] all-reduce(x), to_apply=add",
            "ROOT b = f32[4] all-reduce(a), to_apply=add, constrain_layout=true",
            before=ADD,
        ),
        entry(
            "a = f32[4] all-reduce(x), to_apply=add",
            "ROOT b = f32[4] all-reduce(a), to_apply=add",
            before=ADD,
        ),
    ),
    (
        "fusion_called",
        fused(
            NEGATED,
            "y = f32[4] fusion(x), kind=kLoop, calls=fused\n"
            "  ROOT r = f32[4] fusion(y), kind=kLoop, calls=fused",
        ),
        fused(NEGATED),
    ),
    (
        "fusion_called",
        fused("d = f32[4] abs(p)\n  " + NEGATED),
        fused("d = f32[4] abs(p)\n  ROOT n = f32[4] negate(d)"),
    ),
    ("fusion_called", fused("ROOT c = f32[4] constant({1,2,3,4})"), fused(NEGATED)),
    (
        "operand_aliasing",
        fused(
            NEGATED,
            "ROOT r = f32[4] fusion(x), kind=kLoop, output_to_operand_aliasing={{}: (1, {})}, calls=fused",
        ),
        fused(
            NEGATED,
            "ROOT r = f32[4] fusion(x), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, calls=fused",
        ),
    ),
    (
        "operand_aliasing",
        fused(
            NEGATED,
            "ROOT r = f32[4] fusion(x), kind=kLoop, output_to_operand_aliasing={{0}: (0, {})}, calls=fused",
        ),
        fused(NEGATED),
    ),
    (
        "call_thread",
        entry("ROOT r = f32[4] call(x), to_apply=called", before=RUNS_ON_HOST),
        entry("ROOT r = f32[4] call(x), to_apply=called", before=CALLED),
    ),
    (
        "call_sharding",
        entry(
            "i = s32[] constant(0)",
            "init = (s32[], f32[4]) tuple(i, x)",
            f"ROOT w = {LOOP}, sharding={{{{replicated}}, {{manual}}}}",
            before=WHILE % ", sharding={{replicated}, {replicated}}",
        ),
        entry(
            "i = s32[] constant(0)",
            "init = (s32[], f32[4]) tuple(i, x)",
            f"ROOT w = {LOOP}, sharding={{{{replicated}}, {{replicated}}}}",
            before=WHILE % ", sharding={{replicated}, {replicated}}",
        ),
    ),
    ("call_composite", composite(""), composite(', frontend_attributes={composite.name="n"}')),
    (
        "call_composite",
        composite(', frontend_attributes={composite.name="n",composite.version="-1"}'),
        composite(', frontend_attributes={composite.name="n",composite.version="1"}'),
    ),
    (
        "call_composite",
        composite(', frontend_attributes={composite.name="n",composite.attributes=""}'),
        composite(', frontend_attributes={composite.name="n",composite.attributes="{}"}'),
    ),
    (
        "call_precision",
        entry(
            "z = bf16[] constant(0)",
            "ROOT r = f32[] reduce-window(y, z), window={}, to_apply=add",
            before=ADD,
        ).replace("ROOT", "y = f32[] constant(1)\n  ROOT"),
        entry(
            "z = f32[] constant(0)",
            "y = f32[] constant(1)",
            "ROOT r = f32[] reduce-window(y, z), window={}, to_apply=add",
            before=ADD,
        ),
    ),
    (
        "instruction_precision",
        entry(
            "z = bf16[] constant(0)", "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add", before=ADD
        ),
        entry(
            "z = f32[] constant(0)", "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add", before=ADD
        ),
    ),
    (
        "custom_call_seed",
        entry('ROOT r = f32[] custom-call(), custom_call_target="GetRngSeed"'),
        entry('ROOT r = u64[] custom-call(), custom_call_target="GetRngSeed"'),
    ),
    (
        "custom_call_mark",
        entry('ROOT r = f32[2] custom-call(x), custom_call_target="MoveToHost"'),
        entry('ROOT r = f32[4] custom-call(x), custom_call_target="MoveToHost"'),
    ),
    (
        "layout_copy",
        entry(
            "y = f32[2,2] constant({{1,2},{3,4}})",
            "c = (f32[2,2]{0,1}, f32[2,2]{1,0}, u32[]) copy-start(y)",
            "ROOT d = f32[2,2]{0,1} copy-done(c)",
        ),
        entry(
            "y = f32[2,2] constant({{1,2},{3,4}})",
            "c = (f32[2,2]{1,0:S(1)}, f32[2,2]{1,0}, u32[]) copy-start(y)",
            "ROOT d = f32[2,2]{1,0:S(1)} copy-done(c)",
        ),
    ),
    (
        "layout_called",
        entry(
            "y = f32[2,2] constant({{1,2},{3,4}})",
            "s = ((f32[2,2]), f32[2,2]{0,1}, u32[]) async-start(y), calls=called",
            "ROOT d = f32[2,2]{0,1} async-done(s)",
            before=CALLED.replace("[4]", "[2,2]"),
        ),
        entry(
            "y = f32[2,2] constant({{1,2},{3,4}})",
            "s = ((f32[2,2]), f32[2,2], u32[]) async-start(y), calls=called",
            "ROOT d = f32[2,2] async-done(s)",
            before=CALLED.replace("[4]", "[2,2]"),
        ),
    ),
    (
        "memory_space",
        entry(
            "i = s32[] constant(0)", "ROOT r = f32[2]{0:S(5)} dynamic-slice(x, i), dynamic_slice_sizes={2}"
        ),
        entry("i = s32[] constant(0)", "ROOT r = f32[2]{0} dynamic-slice(x, i), dynamic_slice_sizes={2}"),
    ),
    ("sharding_devices", sharded("{maximal device=-1}"), sharded("{maximal device=1}")),
    ("sharding_devices", sharded("{devices=[2]0,0}"), sharded("{devices=[2]0,1}")),
    ("sharding_devices", sharded("{devices=[2]<=[4]}"), sharded("{devices=[2]<=[2]}")),
    *[
        ("operand_aliasing", aliased(wrong), aliased("{0}: (0, {})"))
        for wrong in (
            "{0}: (1, {})",
            "{2}: (0, {})",
            "{}: (0, {})",
            "{0}: (0, {1})",
            "{0}: (0, {}), {1}: (0, {})",
            "{0}: (0, {}), {0}: (0, {})",
        )
    ],
    ("operand_aliasing", aliased("{0}: (0, {})", "f32[2,2]{0,1}"), aliased("{0}: (0, {})", "f32[2,2]{1,0}")),
    *[
        ("operand_aliasing", begun(wrong), begun("{1}: (0, {})"))
        for wrong in ("{1}: (1, {})", "{7}: (0, {})", "{2}: (0, {})", "{1}: (0, {}), {1}: (0, {})")
    ],
    ("channel_host", from_host("f32[4]", "a", "f32[2]", "a"), from_host("f32[4]", "a", "f32[4]", "a")),
    ("channel_host", from_host("f32[4]", "a", "f32[4]", "b"), from_host("f32[4]", "a", "f32[2]", "b", 2)),
    *[
        ("result_accuracy", accurate(*wrong), accurate("exponential", "mode=highest"))
        for wrong in (
            ("negate", "mode=highest"),
            ("exponential", "mode=low"),
            ("exponential", "mode=tolerance"),
            ("exponential", "tolerance={atol=-1}"),
            ("exponential", "tolerance={digits=1}"),
            ("exponential", "tolerance={ulps=1.5}"),
            ("tanh", "tolerance={atol=nan}"),
        )
    ],
    (
        "result_accuracy",
        accurate("copy", "mode=default"),
        accurate("tanh", "tolerance={atol=0.1, rtol=0, ulps=2}"),
    ),
    *[
        ("ragged_all_to_all_c1", ragged(offsets=wrong), ragged())
        for wrong in (
            "s32[4],s32[2]",
            "s32[4],s32[4,1]",
            "f32[4],f32[4]",
            "s32[4,1,1],s32[4,1,1]",
            "s32[],s32[]",
        )
    ],
    *[
        ("ragged_all_to_all_c2", ragged(source=wrong), ragged(source="f32[3,2]"))
        for wrong in ("f32[4]", "f32[4,3]", "s32[4,2]")
    ],
    ("ragged_all_to_all_c2", ragged("f32[]", "f32[]"), ragged()),
    ("dot_c10", product("x, x, x"), product("x, x")),
    ("convolution_c8", convolved("c64", "f32", "c64"), convolved("c64", "c64", "c64")),
    ("convolution_c8", convolved("c64", "c64", "f32"), convolved("f32", "f32", "f32")),
    *[
        ("rng_bit_generator_c4", generated(*wrong), generated("u64[3]", "rng_philox"))
        for wrong in (
            ("u64[3]", "rng_three_fry"),
            ("u64[1]", "rng_philox"),
            ("f32[2]", "rng_philox"),
            ("u64[]", "rng_default"),
            ("u64[0]", "rng_default"),
            ("u64[2,2]", "rng_default"),
        )
    ],
    (
        "sharding_shape",
        sharded("{devices=[2,1]<=[2]}"),
        sharded("{devices=[2,1]<=[2] last_tile_dim_replicate}"),
    ),
    ("sharding_shape", sharded("{{replicated}, {replicated}}"), sharded("{replicated}")),
    (
        "sharding_shape",
        sharded("{{replicated}, {replicated}}", "(f32[4])", "tuple(x)"),
        sharded("{{replicated}}", "(f32[4])", "tuple(x)"),
    ),
    (
        "module_aliases",
        entry("ROOT r = f32[4] copy(x)", header="HloModule m, input_output_alias={ {}: (1, {}) }"),
        entry("ROOT r = f32[4] copy(x)", header="HloModule m, input_output_alias={ {}: (0, {}) }"),
    ),
    (
        "module_aliases",
        entry(
            "ROOT r = f32[4] copy(x)",
            header="HloModule m, input_output_alias={ {}: (0, {}) }, buffer_donor={ (0, {}) }",
        ),
        entry("ROOT r = f32[4] copy(x)", header="HloModule m, buffer_donor={ (0, {}) }"),
    ),
    (
        "convolution_c6",
        entry(
            "k = s32[2,1,1] constant({{{1}},{{2}}})",
            "y = f32[1,4,1] reshape(x)",
            "ROOT r = f32[1,3,1] convolution(y, k), window={size=2}, dim_labels=b0f_0io->b0f",
        ),
        entry(
            "k = u8[2,1,1] constant({{{1}},{{2}}})",
            "y = f32[1,4,1] reshape(x)",
            "ROOT r = f32[1,3,1] convolution(y, k), window={size=2}, dim_labels=b0f_0io->b0f",
        ),
    ),
]


@pytest.mark.parametrize(
    ("rule", "broken", "mended"), RULES, ids=[f"{r[0]}-{n}" for n, r in enumerate(RULES)]
)
def test_rule(rule, broken, mended):
    with pytest.raises(VerifyError, match=rf"\[{rule}\]$"):
        verify(parse_hlo(broken))
    verify(parse_hlo(mended))


def test_every_label_has_a_test():
    """The rules of the verifier's modules, as their first lines list them."""
    from axla.ir.verify import accuracy, calls, channels, groups, pairs, placement

    listed = {
        line.split()[0]
        for module in (accuracy, calls, channels, groups, pairs, placement)
        for line in (module.__doc__ or "").splitlines()[2:]
        if "_" in line.split("  ")[0] and not line.startswith("   ")
    }
    assert len(listed) >= 19 and listed <= {rule for rule, _, _ in RULES}


@pytest.mark.parametrize(
    ("line", "attribute"),
    [
        ("negate(x), dimensions={0}", "dimensions"),
        ("add(x, x), output_to_operand_aliasing={{}: (0, {})}", "output_to_operand_aliasing"),
        ("copy(x), api_version=API_VERSION_ORIGINAL", "api_version"),
    ],
)
def test_attributes_of_other_ops(line, attribute):
    with pytest.raises(AxlaError, match=f"has no attribute '{attribute}' at line"):
        parse_hlo(entry(f"ROOT r = f32[4] {line}"))


@pytest.mark.parametrize("tiles", ["[0]<=[0]", "[0,2]<=[0] last_tile_dim_replicate", "[1,0]0", "[2]<=[2,0]"])
def test_shardings_have_tiles(tiles):
    with pytest.raises(AxlaError, match="sizes must be at least 1|wanted at least 1"):
        parse_hlo(sharded(f"{{devices={tiles}}}"))


def test_calling_conventions():
    for version in ("API_VERSION_UNSPECIFIED", "API_VERSION_FOUR"):
        with pytest.raises(AxlaError, match="API_VERSION"):
            parse_hlo(entry(f'ROOT r = f32[4] custom-call(x), custom_call_target="f", api_version={version}'))


GATHER = "r = f32[2,1] gather(x, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}"

# What the parser asks for in a text, though a value has a default elsewhere.
NEEDED = {
    "dimensions": "r = f32[4] all-gather(x)",
    "source_target_pairs": "r = f32[4] collective-permute(x)",
    "dim_labels": "r = f32[1,3,1] convolution(y, k), window={size=2}",
    "algorithm": "r = (u64[2], u32[4]) rng-bit-generator(key)",
    "distribution": "r = f32[4] rng(z, z)",
    "delta": "r = u64[2] rng-get-and-update-state()",
    "index_vector_dim": GATHER + ", slice_sizes={1}",
    "slice_sizes": GATHER + ", index_vector_dim=1",
    "domain": "r = f32[4] domain(x)",
}


@pytest.mark.parametrize(("name", "line"), NEEDED.items(), ids=NEEDED)
def test_attribute_is_needed(name, line):
    values = ("y = f32[1,4,1] reshape(x)", "k = f32[2,1,1] constant({{{1}},{{2}}})", "z = f32[] constant(0)")
    more = ("key = u64[2] constant({1,2})", "i = s32[2,1] constant({{1},{2}})")
    with pytest.raises(AxlaError, match=f"needs the attribute {name} at line \\d+, column \\d+"):
        parse_hlo(entry(*values, *more, "ROOT " + line))


@pytest.mark.parametrize("tiles", ["T(0)", "T(8,-1)", "T(8,128)(0,1)"])
def test_tiles_are_positive(tiles):
    with pytest.raises(AxlaError, match="tile"):
        parse_hlo(f"ENTRY e {{\n  ROOT x = f32[4,4]{{1,0:{tiles}}} parameter(0)\n}}")
