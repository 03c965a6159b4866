"""Modules, computations and instructions as text: what is accepted, how it is printed, what is kept."""

# ruff: noqa: E501  (lines of HLO)

from __future__ import annotations

import pickle

import pytest

from axla.core.dtypes import F32, S32
from axla.core.shape import Shape
from axla.ir.attributes import Window
from axla.ir.graph import Computation
from axla.ir.op import ATTRIBUTE_TYPES, OPS
from axla.text import looks_like_hlo, parse_hlo
from axla.text.attributes import CODECS, codec_of

HEADED = """HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

%f (a: f32[2]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  ROOT %b = f32[2]{0} negate(%a)
}

ENTRY %e (a.1: f32[2]) -> f32[2] {
  %a.1 = f32[2]{0} parameter(0)
  ROOT %b.1 = f32[2]{0} call(%a.1), to_apply=%f
}

"""


def entry_lines(text: str) -> list[str]:
    """The instructions of the entry as they are printed."""
    printed = parse_hlo(text).to_string()
    assert parse_hlo(printed).to_string() == printed
    lines = printed.split("ENTRY ")[1].splitlines()[1:]
    return [line.strip() for line in lines if line.startswith("  ")]


def entry(*lines: str) -> list[str]:
    return entry_lines("ENTRY e {\n" + "\n".join(lines) + "\n}")


@pytest.mark.parametrize(
    "text",
    [
        HEADED,
        "HloModule m:\nf { a = f32[2] parameter(0) ROOT b = f32[2] negate(a) }\n"
        "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[2] call(f32[2]{0} %a), to_apply=f }",
        "HloModule m // name\nf (a f32[2]) -> f32[2] { a = f32[2] parameter(0) /* x */ b = negate(a) }\n"
        "e { a = f32[2] parameter(0)\n b = call(a), to_apply=%f }",
    ],
    ids=["as printed", "no percent signs", "nothing that follows"],
)
def test_three_ways_to_write_a_module(text):
    assert parse_hlo(text).to_string() == HEADED


def test_text_without_a_header_is_named_after_its_entry():
    assert (
        parse_hlo("f { ROOT a = s32[] parameter(0) }\ng { ROOT a = s32[] parameter(0) }").name == "module_g"
    )
    module = parse_hlo('ROOT b = f32[3] add(f32[3] x, f32[3] parameter(1)), metadata={op_name="n"}')
    assert [p.name for p in module.entry.parameters] == ["x", "parameter.anon"]
    assert module.name == "_" and module.entry.root.extra.location.op_name == "n"


def test_lone_instructions():
    module = parse_hlo("a = s32[] parameter(0)\nROOT b = negate(a)\nc = abs(a)")
    assert module.entry.root.name == "b" and len(module.entry.instructions) == 3


def test_inline_instructions_and_computations():
    lines = entry(
        "ROOT r = f32[2] call(f32[2] negate(f32[2] parameter(0))), to_apply={ x = f32[2] parameter(0) ROOT "
        "y = abs(x) }"
    )
    assert lines[1:] == ["%negate.anon = f32[2]{0} negate(%parameter.anon)",
                         "ROOT %r = f32[2]{0} call(%negate.anon), to_apply=%_"]  # fmt: skip


def test_elements_of_tuples_by_number():
    lines = entry(
        "t = (f32[2], (s32[], s32[])) parameter(0)", "ROOT r = s32[] add(s32[] %t#1#0, s32[] %t#1#1)"
    )
    assert "get-tuple-element(%t), index=1" in lines[1] and lines[-1].startswith("ROOT %r = s32[] add(")


def test_names_are_made_unique_as_xla_does():
    text = "\n".join(f"c{n} {{ a.3 = s32[] parameter(0) ROOT add = s32[] add(a.3, a.3) }}" for n in range(3))
    module = parse_hlo(text)
    names = [[i.name for i in c.instructions] for c in module.computations]
    assert names == [["a.3", "add"], ["a.0", "add.1"], ["a.1", "add.2"]]


def test_operands_are_counted_every_five():
    names = [f"p{n}" for n in range(7)]
    lines = entry(
        *[f"{p} = s32[] parameter({n})" for n, p in enumerate(names)], f"ROOT t = tuple({', '.join(names)})"
    )
    assert lines[-1].endswith("tuple(%p0, %p1, %p2, %p3, %p4, /*index=5*/%p5, %p6)")
    assert "s32[], /*index=5*/s32[], s32[])" in lines[-1]


INSTRUCTIONS = [
    "%c = pred[2]{0} compare(%x, %y), direction=LT",
    "%c = pred[2]{0} compare(%x, %y), direction=NE, type=TOTALORDER",
    "%c = f32[1,2]{1,0} broadcast(%x), dimensions={1}",
    "%c = f32[2]{0} broadcast(%s), dimensions={}",
    "%c = f32[2]{0} iota(), iota_dimension=0",
    "%c = f32[1]{0} slice(%x), slice={[1:2]}",
    "%c = f32[1]{0} slice(%x), slice={[0:2:2]}",
    "%c = f32[5]{0} pad(%x, %s), padding=1_2",
    "%c = f32[6]{0} pad(%x, %s), padding=1_2_1",
    "%c = f32[4]{0} concatenate(%x, %y), dimensions={0}",
    "%c = f32[2]{0} add(%x, %y), metadata={op_type=\"add\" op_name=\"a\\\"b\" source_file=\"f.py\" "
    "source_line=3}",
    "%c = f32[2]{0} add(%x, %y), metadata={op_name=\"n\" source_end_line=4 profile_type={1} "
    "scheduling_name=\"s\"}",
    "%c = f32[2]{0} add(%x, %y), sharding={devices=[2]<=[2]}",
    "%c = f32[2]{0} add(%x, %y), frontend_attributes={a=\"1\",b={\"x\": [1, 2]}}",
    "%c = f32[2]{0} add(%x, %y), control-predecessors={%x, %s}",
    "%c = f32[2]{0} add(%x, %y), backend_config={\"k\":{\"v\":\"}\"}}",
    "%c = f32[2]{0} add(%x, %y), backend_config=\"plain \\303\\251\"",
    "%c = f32[2]{0} add(%x, %y), statistics={visualizing_index=1,stat-1=33}, origin={{\"a\"}}",
    "%c = f32[] dot(%x, %y), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
    "operand_precision={high,default}",
    "%c = f32[2]{0} custom-call(%x, %s), custom_call_target=\"t\", operand_layout_constraints={f32[2]{0}, "
    "f32[]}, "
    "output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_TYPED_FFI",
]  # fmt: skip


@pytest.mark.parametrize("line", INSTRUCTIONS)
def test_instruction_prints_as_written(line):
    lines = entry(
        "x = f32[2] parameter(0)", "y = f32[2] parameter(1)", "s = f32[] parameter(2)", f"ROOT {line}"
    )
    assert lines[-1] == f"ROOT {line}"


def test_one_form_of_what_can_be_written_in_two_ways():
    lines = entry("x = s32[2] parameter(0)", "ROOT c = pred[2] compare(x, x), direction=EQ, type=SIGNED")
    assert lines[-1] == "ROOT %c = pred[2]{0} compare(%x, %x), direction=EQ"
    branches = "t { ROOT a = s32[] parameter(0) }\nf { ROOT a = s32[] parameter(0) }\n"
    text = branches + "ENTRY e { p = pred[] parameter(0) x = s32[] parameter(1)\n"
    lines = entry_lines(text + "ROOT c = s32[] conditional(p, x, x), branch_computations={t, f} }")
    assert lines[-1].endswith("true_computation=%t, false_computation=%f")


HEADER = (
    "HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) "
    "}, "
    "buffer_donor={ (2, {}) }, entry_computation_layout={(f32[2]{0}, f32[2]{0}, s32[])->(f32[2]{0}, "
    "f32[2]{0})}, "
    "allow_spmd_sharding_propagation_to_output={true,false}, replica_count=2, num_partitions=4, "
    'frontend_attributes={a="b"}'
)  # fmt: skip


def test_header_prints_as_written():
    text = HEADER + "\nENTRY e { a = f32[2] parameter(0) c = s32[] parameter(2) b = f32[2] parameter(1)\n"
    module = parse_hlo(text + "ROOT t = (f32[2], f32[2]) tuple(a, b) }")
    assert module.to_string().splitlines()[0] == HEADER
    config = module.config
    assert [(a.output, a.parameter, a.must) for a in config.aliases] == [((0,), 0, False), ((1,), 1, True)]
    assert config.buffer_donors == ((2, ()),) and (config.replica_count, config.num_partitions) == (2, 4)
    # A schedule is the order of the text, not the order in which instructions are needed.
    assert [i.name for i in module.schedule[module.entry]] == ["a", "c", "b", "t"]


def test_execution_thread_and_stack_frames_are_kept():
    text = """HloModule m, entry_computation_layout={()->pred[]}

FileNames
1 "a.py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=2 end_column=3}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


ENTRY %e () -> pred[] {
  ROOT %c = pred[] constant(true), metadata={op_name="n" stack_frame_id=1}
}, execution_thread="host"

"""
    assert parse_hlo(text).to_string() == text


def test_unwritten_shapes():
    module = parse_hlo("""ENTRY e {
      x = f32[2,3]{0,1} parameter(0)
      n = negate(x)
      t = transpose(n), dimensions={1,0}
      d = dot(n, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = tuple(n, d)
    }""")
    shapes = {i.name: str(i.shape) for i in module.entry.instructions}
    assert (
        shapes["n"] == "f32[2,3]{0,1}" and shapes["t"] == "f32[3,2]{1,0}" and shapes["d"] == "f32[2,2]{1,0}"
    )


def test_pickle():
    module = parse_hlo(HEADED)
    again = pickle.loads(pickle.dumps(module))
    assert again.to_string() == HEADED and again.entry.root.shape is module.entry.root.shape
    nan = parse_hlo("ROOT c = c64[] constant((1, nan))").entry.root.op.literal
    assert (
        pickle.loads(pickle.dumps(parse_hlo("ROOT c = c64[] constant((1, nan))"))).entry.root.op.literal
        == nan
    )


def test_looks_like_hlo():
    for text in (
        HEADED,
        "ENTRY e {",
        "%f (a: s32[]) -> s32[] {",
        "ROOT a = f32[] add(b)",
        "// c\nHloModule x",
    ):
        assert looks_like_hlo(text)
    for text in ("module @m {", "func.func @f()", "", "hello world", "#loc = loc(unknown)"):
        assert not looks_like_hlo(text)


def test_print_options():
    module = parse_hlo(
        'HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = negate(x), metadata={op_name="n"} }'
    )
    text = module.to_string(print_percent=False, include_layout_in_shapes=False, print_metadata=False)
    assert "ROOT y = f32[2] negate(x)\n" in text
    assert "negate(f32[2]{0} %x)" in module.to_string(print_operand_shape=True)


HLO_OPCODES = frozenset(
    """
    abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce
    all-reduce-done all-reduce-start all-to-all and asin asinh async-done async-start async-update atan2
    atanh batch-norm-grad batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast
    call cbrt ceil cholesky clamp collective-broadcast collective-permute collective-permute-done
    collective-permute-start collective-reduce compare complex concatenate conditional constant convert
    convolution copy copy-done copy-start cosh cosine count-leading-zeros custom-call divide domain dot
    dynamic-reshape dynamic-slice dynamic-update-slice erf exponential exponential-minus-one fft floor
    fusion gather get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one
    logistic map maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter
    partition-id popcnt power ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision
    reduce-scatter reduce-window remainder replica-id reshape reverse rng rng-bit-generator
    rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt scaled-dot scan scatter select
    select-and-scatter send send-done set-dimension-size shift-left shift-right-arithmetic
    shift-right-logical sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh topk
    transpose triangular-solve tuple while xor
    """.split()  # noqa: SIM905  a list of words reads better than quotes around each
)


def test_every_op_of_hlo_is_implemented():
    assert set(OPS) >= HLO_OPCODES


def test_parameters_keep_their_order():
    module = parse_hlo("ENTRY e { b = s32[] parameter(1) a = f32[] parameter(0) ROOT t = tuple(a, b) }")
    assert [p.shape for p in module.entry.parameters] == [Shape(F32), Shape(S32)]


NAMES = """HloModule m
ENTRY e {
  a = s32[] parameter(0)
  b = s32[] call(a), to_apply={
    a = s32[] parameter(0)
    ROOT c = s32[] call(a), to_apply={
      a = s32[] parameter(0)
      ROOT n = s32[] negate(a)
    }
  }
  s = ((s32[]), s32[], s32[]) custom-call-start(b), custom_call_target="f"
  d = s32[] custom-call-done(s)
  ROOT custom-call = s32[] custom-call(d), custom_call_target="g"
}
"""


def test_the_computation_that_ends_first_keeps_its_names():
    """Also what is called asynchronously, which has the name of its opcode."""
    module = parse_hlo(NAMES)
    text = module.to_string()
    assert "%_ (a: s32[]) -> s32[] {" in text and "%_.1 (a.1: s32[]) -> s32[] {" in text
    assert "ENTRY %e (a.2: s32[]) -> s32[] {" in text
    assert "%b = s32[] call(%a.2), to_apply=%_.1" in text and "%c = s32[] call(%a.1), to_apply=%_\n" in text
    assert "ROOT %custom-call.1 = s32[] custom-call(%d)" in text
    assert parse_hlo(text, exact=True).to_string() == text


def test_shapes_of_transfers_are_made_of_the_data():
    text = """ENTRY e { x = f32[2] parameter(0)  k = token[] after-all()
      s = f32[2] send(x, k), channel_id=1  t = (f32[2], token[]) send-done(s), channel_id=1
      r = (f32[3], s32[], token[]) recv(k), channel_id=2
      ROOT o = token[] recv-done(r), channel_id=2 }"""
    printed = parse_hlo(text).to_string()
    for line in (
        "%s = (f32[2]{0}, u32[], token[]) send(%x, %k)", "%t = token[] send-done(%s)",
        "%r = (f32[3]{0}, u32[], token[]) recv(%k)", "%o = (f32[3]{0}, token[]) recv-done(%r)",
    ):  # fmt: skip
        assert line in printed


def test_attributes_that_xla_prints_its_own_way():
    text = """ENTRY e { x = f32[2] parameter(0)
      d = f32[2] domain(x), domain={kind="sharding", entry={maximal device=0},
          exit={maximal device=1}}
      s = ((f32[2]), f32[2], s32[]) async-start(d), calls={ p = f32[2] parameter(0)
          ROOT c = f32[2] custom-call(p), custom_call_target="f" },
        async_execution_thread="t", output_to_operand_aliasing={{1}: (0, {})}
      a = f32[2] async-done(s)
      ROOT r = f32[2] custom-call(a), custom_call_target="g", window={}, dim_labels=bf_io->bf }"""
    module = parse_hlo(text)
    printed = module.to_string()
    assert 'domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}' in printed
    wanted = 'async_execution_thread="t", custom_call_target="f", output_to_operand_aliasing={{1}: (0, {})}'
    assert wanted in printed
    assert "custom-call(%a), window={}, dim_labels=bf_io->bf" in printed
    assert parse_hlo(printed, exact=True).to_string() == printed


@pytest.mark.parametrize("end", ["\n}", ', metadata={op_name="p"}\n}', " }"])
def test_a_scalar_that_is_padded(end):
    """XLA writes no padding of a scalar, and does not read that; what is written here is read."""
    module = parse_hlo(
        "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT y = f32[] pad(x, x), padding=" + end
    )
    text = module.to_string()
    assert parse_hlo(text).to_string() == text


def test_every_type_of_attributes_has_a_text_form():
    assert all(codec_of(type_) is CODECS[type_] for type_ in ATTRIBUTE_TYPES)
    assert all(codec_of(type_ | None) is CODECS[type_] for type_ in (int, Computation, Window))
