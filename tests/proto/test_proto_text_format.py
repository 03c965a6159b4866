"""The text format, by the same tables."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import ParseError
from axla.proto import decode, encode, from_text, to_text

MESSAGE = {
    "name": 'a "quoted" name\n\t\\ é', "opcode": "constant", "channel_id": 0,
    "shape": {"element_type": "F32", "dimensions": [2, 3], "layout": {"minor_to_major": [1, 0]}},
    "backend_config": bytes(range(256)), "window": {"dimensions": [{"size": 3, "padding_low": -1}, {}]},
    "epsilon": 0.1, "fft_type": "IRFFT", "frontend_attributes": {"map": [{"key": "k", "value": "{}"}]},
    "is_stable": True,
}  # fmt: skip


def test_text_goes_there_and_back():
    data = encode(MESSAGE, "HloInstructionProto")
    found = from_text(to_text(MESSAGE, "HloInstructionProto"), "HloInstructionProto")
    assert encode(found, "HloInstructionProto") == data


def test_what_it_looks_like():
    text = to_text(
        {"element_type": "F32", "dimensions": [2, 3], "layout": {"tail_padding_alignment_in_elements": 1}},
        "ShapeProto",
    )
    assert text == (
        "element_type: F32\ndimensions: 2\ndimensions: 3\nlayout {\n"
        "  tail_padding_alignment_in_elements: 1\n}\n"
    )


def test_other_ways_to_write_it():
    text = """# a shape
      element_type: 11; dimensions: [2, 0x10,], dimensions: 4  # and a comment
      layout: < minor_to_major: [ ] tiles { dimensions: -9223372036854775808 } >"""
    with pytest.raises(ParseError):
        from_text(text, "ShapeProto")  # a comma at the end of a list
    found = from_text(text.replace("0x10,", "0x10"), "ShapeProto")
    tiles = [{"dimensions": [-(1 << 63)]}]
    assert found == {
        "element_type": "F32", "dimensions": [2, 16, 4], "layout": {"minor_to_major": [], "tiles": tiles},
    }  # fmt: skip


def test_strings_stand_beside_each_other_with_any_escapes():
    assert from_text(r"""name: "a\x41" 'b\101\'' """ + '"\\303\\251"', "HloModuleProto") == {"name": "aAbA'é"}


def test_floats():
    text = "f32s: [1, -2.5e3, inf, -inf, nan, 3f, .5]"
    found = from_text(text, "LiteralProto")["f32s"]
    np.testing.assert_array_equal(found, np.float32([1, -2500, np.inf, -np.inf, np.nan, 3, 0.5]))
    again = from_text(to_text({"f32s": found}, "LiteralProto"), "LiteralProto")["f32s"]
    np.testing.assert_array_equal(found, again)


def test_fields_that_nobody_knows_stand_under_their_numbers():
    data = b"\x82\x38\x03a\xffb" + b"\x88\x38\x85\x01" + b"\x95\x38\x01\x02\x03\x04" + b"\x99\x38" + bytes(8)
    text = to_text(decode(data, "Window"), "Window")
    assert text == '896: "a\\377b"\n897: 133\n898: 0x04030201\n899: 0x0000000000000000\n'
    assert encode(from_text(text, "Window"), "Window") == data


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("name: 3", "expected a string in quotes as name", 1, 7),
        ('name: "f"\nnome: "g"', "HloModuleProto has no field 'nome'", 2, 1),
        ('name: "f"\nname: "g"', "the field name is given twice", 2, 1),
        ("computations {\n  id: 1", "expected a field of HloComputationProto or '}'", 2, 8),
        ("id: 99999999999999999999", "is not a value of id", 1, 5),
        ("id: x", "'x' is not a value of id", 1, 5),
        ("id 3", "expected ':' after id", 1, 4),
        ("computations: 3", "expected '{' to begin computations", 1, 15),
    ],
)
def test_errors_have_line_and_column(text, message, line, column):
    with pytest.raises(ParseError) as error:
        from_text(text, "HloModuleProto")
    assert message in error.value.message
    assert (error.value.line, error.value.column) == (line, column)


def test_messages_nest_only_so_deep():
    with pytest.raises(ParseError, match="nested more than 100"):
        from_text("tuple_shapes { " * 3000, "ShapeProto")
