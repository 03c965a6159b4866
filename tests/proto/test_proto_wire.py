"""The wire format: messages by the tables, fields that nobody knows, and bytes that are not believed."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import InvalidArgument, ParseError
from axla.proto import decode, encode
from axla.proto.wire import number_bytes


def field(number: int, content: bytes) -> bytes:
    return number_bytes(number << 3 | 2) + number_bytes(len(content)) + content


def test_messages_go_there_and_back():
    layout = {"minor_to_major": [1, 0], "element_size_in_bits": 4}
    shape = {
        "element_type": "S4",
        "dimensions": [2, 300],
        "layout": layout,
        "is_dynamic_dimension": [False, True],
    }
    message = {
        "name": "é\n", "opcode": "add", "shape": shape, "id": 1 << 40, "operand_ids": [1, 1 << 33, 5],
        "epsilon": 0.5, "backend_config": b"\x00\xff", "channel_id": 0, "delta": -3,
        "replica_groups": [{"replica_ids": [0, 1]}, {}],
    }  # fmt: skip
    assert decode(encode(message, "HloInstructionProto"), "HloInstructionProto") == message


def test_a_known_message_byte_by_byte():
    message = {"dimensions": [{"size": 3, "padding_low": -1, "window_reversal": True}]}
    minus_one = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    assert encode(message, "Window") == b"\n\x0f\x08\x03\x18" + minus_one + b"\x38\x01"


def test_zeros_are_not_written_unless_they_say_something():
    assert encode({"id": 0, "name": "", "channel_id": 0}, "HloInstructionProto") == b"\xd0\x01\x00"


@pytest.mark.parametrize("packed", [True, False])
def test_repeated_numbers_may_be_packed_or_not(packed):
    one_by_one = b"".join(number_bytes(3 << 3) + number_bytes(n) for n in (1, 300, 2))
    together = field(3, number_bytes(1) + number_bytes(300) + number_bytes(2))
    assert decode(together if packed else one_by_one, "ShapeProto") == {"dimensions": [1, 300, 2]}


def test_arrays_are_numpy_arrays_of_all_the_parts():
    values = np.array([0, 1, -1, 1 << 62, -(1 << 63)], np.int64)
    data = encode({"s64s": values}, "LiteralProto") + number_bytes(5 << 3) + number_bytes(7)
    assert decode(data, "LiteralProto")["s64s"].tolist() == [*values.tolist(), 7]


def test_floats_keep_their_bits():
    bits = np.array([0x7FC00001, 0xFF800001, 0x80000000, 1], np.uint32)
    found = decode(encode({"f32s": bits.view(np.float32)}, "LiteralProto"), "LiteralProto")["f32s"]
    assert found.view(np.uint32).tolist() == bits.tolist()


def test_unknown_fields_are_written_back():
    known = encode({"name": "f"}, "HloModuleProto")
    unknown = field(900, b"abc") + number_bytes(901 << 3) + b"\x05" + number_bytes(902 << 3 | 5) + b"1234"
    message = decode(unknown + known, "HloModuleProto")
    assert message == {"name": "f", "": unknown}
    assert decode(encode(message, "HloModuleProto"), "HloModuleProto") == message


def test_unknown_values_of_enumerations_stay_numbers():
    assert decode(b"\x10\x63", "ShapeProto") == {"element_type": 99}
    assert encode({"element_type": 99}, "ShapeProto") == b"\x10\x63"


def test_equal_shapes_are_one_dict():
    shape = {"element_type": "F32", "dimensions": [3]}
    message = decode(
        encode({"parameters": [shape, shape], "result": shape}, "ProgramShapeProto"), "ProgramShapeProto"
    )
    assert message["parameters"][0] is message["parameters"][1] is message["result"]


INSTRUCTION = field(2, b"\x0a\x01x" + field(3, b"\x12\x7f"))


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"\x0a\x05ab", "HloModuleProto.name: the length is 5 bytes, but 2 bytes are left, at byte 0"),
        (field(3, INSTRUCTION), r"HloModuleProto.computations[0].instructions[0].shape: "),
        (b"\x28\xff", "HloModuleProto.id: a number does not end, at byte 2"),
        (b"\x28" + b"\xff" * 11, "HloModuleProto.id: a number has more than ten bytes"),
        (b"\x03", "the field number 0 is not valid"),
        (b"\x0b", "wire type 3, which protobuf does not define"),
        (field(8, b"") * 2, "HloModuleProto.input_output_alias: the field is given twice"),
    ],
)
def test_errors_name_the_field_and_the_byte(data, where):
    with pytest.raises(ParseError) as error:
        decode(data, "HloModuleProto")
    assert where in str(error.value)


def test_messages_nest_only_so_deep():
    data = b""
    for _ in range(2000):
        data = field(4, data)
    with pytest.raises(ParseError, match="nested more than 100 levels"):
        decode(data, "ShapeProto")


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(InvalidArgument, match="64 bits"):
        encode({"id": 1 << 64}, "HloModuleProto")
