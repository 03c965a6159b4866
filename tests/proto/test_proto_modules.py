"""Modules as protos and back: every op, everything that instructions and headers say."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla import proto
from axla.core.errors import InvalidArgument, ParseError
from axla.core.literal import Literal
from axla.ir.graph import Module
from axla.ir.op import OPS
from axla.proto.fields import fields_of
from axla.text import parse_hlo
from sample_modules import sample_cases, sample_module

CASES = {name: (op, shapes) for name, op, shapes in sample_cases()}


def text_of(module: Module) -> str:
    return module.to_string(print_large_constants=True)


def same_as_proto(text: str) -> None:
    module = parse_hlo(text)
    assert text_of(proto.read(proto.to_proto(module))) == text_of(module)
    assert text_of(proto.read(proto.to_text_proto(module))) == text_of(module)


@pytest.mark.parametrize("name", CASES)
def test_every_op_is_the_same_again(name):
    same_as_proto(text_of(sample_module(*CASES[name])))


def test_a_dimension_that_there_is_not_stays():
    same_as_proto("HloModule m\n\nENTRY e { ROOT i = s32[2] iota(), iota_dimension=-1 }")


@pytest.mark.parametrize("opcode", OPS)
def test_every_attribute_has_a_place(opcode):
    assert fields_of(OPS[opcode]).names


def test_nans_keep_their_payloads_in_the_wire_format():
    module = parse_hlo(in_entry("ROOT c = f32[2]{0} constant({nan(0x1), -nan(0x400001)})"))
    assert text_of(proto.read(proto.to_proto(module))) == text_of(module)


def in_entry(line: str, *, header: str = "HloModule m", parameters: str = "f32[4,6]{1,0}") -> str:
    return f"{header}\n\nENTRY e {{\n  p = {parameters} parameter(0)\n  {line}\n}}\n"


@pytest.mark.parametrize(
    "line",
    [
        'ROOT r = f32[4,6] negate(p), metadata={op_type="N" op_name="a\\"b" source_file="f" source_line=3}',
        'ROOT r = f32[4,6] negate(p), metadata={op_name="n" source_end_line=9 scheduling_name="s"}',
        "ROOT r = f32[4,6] negate(p), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}",
        "ROOT r = f32[4,6] negate(p), sharding={devices=[2,2]<=[2,2]T(1,0)}",
        'ROOT r = f32[4,6] negate(p), sharding={devices=[2,1]3,1 metadata={op_name="a"}}',
        "ROOT r = f32[4,6] negate(p), sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}",
        "ROOT r = f32[4,6] negate(p), sharding={maximal device=3}",
        "ROOT r = f32[4,6] negate(p), sharding={unknown shard_like 2}",
        "ROOT r = f32[4,6] abs(p), sharding={mesh['x'=2,'y'=4], [{'x', 'y':(1)2}, {?}], manual={'y':(2)2}}",
        "ROOT r = (f32[4,6], f32[4,6]) tuple(p, p), sharding={{replicated}, {manual}}",
        'ROOT r = f32[4,6] negate(p), frontend_attributes={a="x",b={"k": 1}}, backend_config={"n": "2"}',
        'ROOT r = f32[4,6] negate(p), backend_config="not json \\"quoted\\""',
        'ROOT r = f32[4,6] negate(p), statistics={visualizing_index=1,a=0.5,b=2}, origin={{"x" {1}}}',
        "ROOT r = f32[4,6] exponential(p), result_accuracy={tolerance={atol=0, rtol=0.25, ulps=3}}",
        "ROOT r = f32[4,6] exponential(p), result_accuracy={mode=highest}",
        "a = f32[4,6] negate(p)\n  ROOT r = f32[4,6] abs(p), control-predecessors={a}",
        'ROOT r = (f32[4,6], (f32[4,6])) custom-call(p), custom_call_target="t", origin={({"x"}, ({}))}',
        'ROOT r = f32[] custom-call(p), custom_call_target="t", operand_layout_constraints={f32[4,6]{0,1}}',
        'ROOT r = f32[] custom-call(), custom_call_target="t", operand_layout_constraints={}',
        'ROOT r = f32[] custom-call(), custom_call_target="", literal=s32[1]{0} {1}, schedule=SCHEDULE_NONE',
        'ROOT r = b(f32[4]{0}) custom-call(), custom_call_target="t", api_version=API_VERSION_TYPED_FFI',
        'ROOT r = f32[4,6]{0,1:T(8,128)(2,1)L(4)S(2)} custom-call(p), custom_call_target="t"',
        "ROOT r = f32[4,6] copy(p)",
        "ROOT r = f32[4] dot(p, p), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1}, operand_precision={highest,high}, algorithm=dot_bf16_bf16_f32_x3",
        'ROOT r = f32[4,6] domain(p), domain={kind="sharding", entry={maximal device=0}, exit={replicated}}',
        "ROOT r = f32[4,6] all-to-all(p), channel_id=0, replica_groups={{0,1},{2,3}}, dimensions={0}",
        "ROOT r = f32[4,6] all-to-all(p), channel_id=2, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}",
        "ROOT r = f32[4,6] collective-broadcast(p), replica_groups=mesh['a'=2,'b'=2] {'b'}",
        "c = f32[2,3]{0,1} constant({ { 1, nan, -0 }, { 1e-40, inf, -inf } })\n  ROOT r = f32[4,6] negate(p)",
        "c = s4[3]{0} constant({ 1, -8, 7 })\n  ROOT r = f32[4,6] negate(p)",
        "c = c64[2]{0} constant({ (1, -2), (0, inf) })\n  ROOT r = f32[4,6] negate(p)",
        "c = u64[1]{0} constant({18446744073709551615})\n  ROOT r = f32[4,6] negate(p)",
        "c = f32[100]{0} constant({...})\n  ROOT r = f32[4,6] negate(p)",
    ],
)  # fmt: skip
def test_what_instructions_say_is_kept(line):
    same_as_proto(in_entry(line))


@pytest.mark.parametrize(
    "header",
    [
        "HloModule m, input_output_alias={ {}: (0, {}, must-alias) }, buffer_donor={ (0, {}) }",
        "HloModule m, entry_computation_layout={(f32[4,6]{0,1})->f32[4,6]{1,0}}",
        "HloModule m, replica_count=2, num_partitions=4",
        'HloModule m, is_scheduled=true, frontend_attributes={a="b"}',
        "HloModule m, alias_passthrough_params=true, allow_spmd_sharding_propagation_to_output={true,false}",
        'HloModule m\n\nFileNames\n1 "a.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n1 {file_name_id=1 '
        "function_name_id=1 line=2 end_line=2 column=1 end_column=3}\n\nStackFrames\n1 {file_location_id=1 "
        "parent_frame_id=1}\n",
    ],
)
def test_what_headers_say_is_kept(header):
    same_as_proto(in_entry("ROOT r = f32[4,6] negate(p), metadata={stack_frame_id=1}", header=header))


def test_the_order_of_a_schedule_is_kept():
    text = in_entry("a = f32[4,6] abs(p)\n  b = f32[4,6] negate(p)\n  ROOT r = f32[4,6] add(b, a)",
                    header="HloModule m, is_scheduled=true")  # fmt: skip
    found = proto.read(proto.to_proto(parse_hlo(text)))
    assert [i.name for i in found.schedule[found.entry]] == ["p", "a", "b", "r"]


def test_execution_threads_and_asynchronous_calls():
    same_as_proto(
        """HloModule m

f {
  x = f32[3] parameter(0)
  ROOT n = f32[3] negate(x)
}, execution_thread="other"

ENTRY e {
  p = f32[3] parameter(0)
  s = ((f32[3]), f32[3], u32[]) async-start(p), async_execution_thread="other", calls=f
  u = ((f32[3]), f32[3], u32[]) async-update(s)
  d = f32[3] async-done(u)
  s1 = ((f32[3]), f32[3]) cosine-start(p)
  d1 = f32[3] cosine-done(s1)
  ROOT r = f32[3] add(d, d1)
}
"""
    )


SIMPLE = in_entry("ROOT r = f32[4,6] negate(p)", header="HloModule m, num_partitions=2")


@pytest.mark.parametrize("form", proto.FORMS)
def test_the_form_is_found_out(form):
    module = parse_hlo(SIMPLE)
    wanted = text_of(module)
    for content in (proto.to_proto(module, form), proto.to_text_proto(module, form)):
        assert proto.looks_like_proto(content)
        assert text_of(axla.parse(content)) == wanted
        assert text_of(proto.read_snapshot(content).module) == wanted
    with pytest.raises(InvalidArgument, match="there are module, hlo, config, snapshot"):
        proto.to_proto(module, "other")


def test_paths_are_opened(tmp_path):
    file = tmp_path / "m.pb"
    file.write_bytes(proto.to_proto(parse_hlo(SIMPLE)))
    assert text_of(axla.parse(file)) == text_of(parse_hlo(SIMPLE))


@pytest.mark.parametrize(
    "content", ["\nHloModule m\n", "\n  ROOT r = f32[] constant(1)", "\n// nothing\n", "name {"]
)
def test_texts_are_no_protos(content):
    assert not proto.looks_like_proto(content)
    assert not proto.looks_like_proto(content.encode())


def test_snapshots_have_arguments_and_results():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    pair = Literal.of((x, np.int8(3)))
    snapshot = proto.Snapshot(
        parse_hlo(SIMPLE), (Literal.of(x), pair), Literal.of(-x), "cpu",
        {"buffer_allocations": [{"index": 1, "size": 96, "assigned": [{"logical_buffer_id": 3}]}]},
    )  # fmt: skip
    for content in (snapshot.to_proto(), snapshot.to_text()):
        found = proto.read_snapshot(content)
        assert found.arguments == snapshot.arguments
        assert found.result == snapshot.result
        assert (found.platform, found.buffer_assignment) == ("cpu", snapshot.buffer_assignment)


def test_literals_are_read_in_the_order_of_their_layout():
    shape = {"element_type": "S16", "dimensions": [2, 3], "layout": {"minor_to_major": [0, 1]}}
    message = {
        "hlo": {"hlo_module": proto.decode(proto.to_proto(parse_hlo(SIMPLE)), "HloModuleProto")},
        "result": {"shape": shape, "s16s": np.arange(6, dtype=np.int16).tobytes()},
    }
    found = proto.read_snapshot(proto.encode(message, "HloSnapshot")).result
    assert found is not None and found.array.tolist() == [[0, 2, 4], [1, 3, 5]]


def changed(**changes):
    """The message of SIMPLE with changes of the last instruction, of the `computation`, of the `module`."""
    message = proto.decode(proto.to_proto(parse_hlo(SIMPLE)), "HloModuleProto")
    message |= changes.pop("module", {})
    message["computations"][0] |= changes.pop("computation", {})
    message["computations"][0]["instructions"][-1] |= changes
    return message


def test_what_axla_does_not_know_is_written_back():
    carried = {
        "module": {
            "device_type": "TPU",
            "pjrt_id": 0,
            "device_assignment": {"replica_count": 2},
            "": b"\x80\x38\x01",
        },
        "computation": {"": b"\x80\x38\x02"},
        "all_reduce_id": 7,
        "": b"\x80\x38\x03",
    }
    message = changed(**carried)
    module = proto.read(proto.encode(message, "HloModuleProto"))
    found = proto.decode(proto.to_proto(module), "HloModuleProto")
    assert found["device_assignment"] == {"replica_count": 2}
    assert (found["device_type"], found["pjrt_id"], found[""]) == ("TPU", 0, b"\x80\x38\x01")
    assert found["computations"][0][""] == b"\x80\x38\x02"
    assert found["computations"][0]["instructions"][-1]["all_reduce_id"] == 7
    # With another op it would be said of something else.
    module.entry.set_op(module.entry.root, OPS["abs"]())
    assert b"\x80\x38\x03" not in proto.to_proto(module)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"operand_ids": [77]}, r"computations\[0\].instructions\[1\] \(r\): its operand 77 is not an instr"),
        ({"operand_ids": []}, "negate does not accept 0 operands"),
        ({"opcode": "nope"}, "'nope' is not an opcode"),
        ({"id": 0}, r"instructions\[1\]: there are two instructions with the id 0"),
        ({"shape": {"element_type": "F32", "dimensions": [-1]}}, "sizes are at least 0"),
        ({"shape": {"element_type": 99}}, "99 is not an element type"),
        ({"opcode": "transpose", "dimensions": [0]}, "^$"),
        ({"opcode": "call"}, "call calls 1 computations, found 0"),
        ({"opcode": "call", "called_computation_ids": [0]}, "there is no computation 0 before"),
        ({"opcode": "rng", "operand_ids": [0, 0]}, "distribution|RNG_INVALID"),
        ({"sharding": {"type": 88}}, "sharding"),
        ({"computation": {"root_id": 5}}, "root_id: there is no instruction 5"),
        ({"module": {"entry_computation_id": 4}}, "entry_computation_id: there is no computation 4"),
        ({"module": {"schedule": {"sequences": [{"value": {}}]}}}, "does not list every instruction once"),
        (
            {"module": {"schedule": {"sequences": [{"value": {"instruction_ids": [1, 0]}}]}}},
            "comes before one of its operands",
        ),
    ],
)  # fmt: skip
def test_wrong_modules_are_refused_with_the_place(changes, where):
    data = proto.encode(changed(**changes), "HloModuleProto")
    if where == "^$":  # right as a message: the verifier says what is wrong
        with pytest.raises(axla.AxlaError, match="transpose"):
            axla.compile(proto.read(data))
        return
    with pytest.raises(ParseError, match=where):
        proto.read(data)


def test_a_literal_has_as_many_elements_as_its_shape():
    shape = {"element_type": "F32", "dimensions": [1 << 40]}
    literal = {"shape": shape, "f32s": np.zeros(3, np.float32)}
    data = proto.encode(
        changed(opcode="constant", operand_ids=[], shape=shape, literal=literal), "HloModuleProto"
    )
    with pytest.raises(ParseError, match="has 3 elements in f32s"):
        proto.read(data)


def test_names_are_such_as_texts_can_have():
    module = proto.read(proto.encode(changed(name='jit(f)"\n', module={"name": "a b"}), "HloModuleProto"))
    assert module.name == "a_b"
    assert module.entry.root.name == "jit_f___"
    assert text_of(parse_hlo(text_of(module))) == text_of(module)


def test_what_the_format_cannot_say_is_refused():
    with pytest.raises(InvalidArgument, match="has no entry"):
        proto.to_proto(Module("m"))


def test_other_bytes_are_refused():
    for data in (b"", b"\xff\xfe", b"ML\xefR", b"\x0a\x03abc"):
        with pytest.raises(ParseError, match="not an HloModuleProto"):
            proto.read(data)
    with pytest.raises(ParseError, match="not an HloModuleProto"):
        proto.read("HloModule m")


def test_numbers_keep_their_digits():
    """HLO text has six where they are enough."""
    text = """HloModule m
ENTRY e {
  p = f32[2] parameter(0)
  ROOT t = f32[2] tanh(p), result_accuracy={tolerance={atol=0.00012345678, rtol=0.5, ulps=1234567}}, statistics={visualizing_index=0,a=0.1234567890123,b=2}
}"""  # noqa: E501
    data = proto.to_proto(axla.parse(text))
    (computation,) = proto.decode(data, "HloModuleProto")["computations"]
    found = computation["instructions"][1]
    assert found["result_accuracy"]["tolerance"] == {"atol": 0.00012345678, "rtol": 0.5, "ulps": 1234567}
    assert [s["stat_val"] for s in found["statistics_viz"]["statistics"]] == [0.1234567890123, 2.0]
    assert proto.to_proto(proto.read(data)) == data
    assert "rtol=0.5" in proto.read(data).to_string()
