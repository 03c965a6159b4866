"""Programs as text: what is read is what was printed, and a program that is not in order is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from axla.core.errors import ParseError, VerifyError
from axla.program.text import parse_program, print_program, program_digest

TEXTS = Path(__file__).parent / "texts"
TEXT = (TEXTS / "sample.axla").read_text()
SEGMENT = np.arange(64, dtype=np.float32).tobytes()


def changed(*changes: str) -> str:
    """The sample with texts replaced: old, new, old, new."""
    text = TEXT
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_a_text_is_a_fixed_point():
    program = parse_program(TEXT, SEGMENT)
    assert print_program(program) == TEXT
    assert [step.name for step in program.steps][:3] == ["neg", "z", "w"]


def test_numbers_of_stack_frames_stay_without_their_table():
    text = changed('op_name="hello"', 'op_name="hello" stack_frame_id=8')
    assert print_program(parse_program(text, SEGMENT)) == text


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("axla-program 2", "the program has version 2, but only 1 can be read"),
        ("axla-module 1", "not a program: the first line must be 'axla-program 1'"),
        ("", "not a program"),
    ],
)
def test_other_formats_and_versions_are_refused(first, message):
    with pytest.raises(ParseError, match=message) as caught:
        parse_program(changed("axla-program 1", first), SEGMENT)
    assert caught.value.line == 1


def test_an_error_in_hlo_is_said_where_it_is():
    with pytest.raises(ParseError, match="negat") as caught:
        parse_program(changed("negate(%p0)", "negate(%p1)"), SEGMENT)
    assert caught.value.line == TEXT[: TEXT.index("negate")].count("\n") + 1


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        (SEGMENT[:-1], "the segment of constants must have 256 bytes, found 255"),
        (SEGMENT[:-1] + b"\x7f", "the constant at 0 has the digest"),
    ],
)
def test_constants_are_those_of_the_program(segment, message):
    with pytest.raises(VerifyError, match=message):
        parse_program(TEXT, segment)


def test_a_digest_is_that_of_what_is_done():
    digest = program_digest(parse_program(TEXT, SEGMENT))
    other = np.zeros(64, np.float32).tobytes()
    same = [
        (
            changed("%yr", "%other", "name=last", "name=end", "name=sample", "name=p", "name=x", "name=y"),
            SEGMENT,
        ),
        (changed('op_name="hello"', 'op_name="bye"', "%r =", "%q =", "tuple(%r)", "tuple(%q)"), SEGMENT),
        (changed("56bb6e60520e1e7ff42a21566f679854", "f0d5e5b2dfcd5e0c3f8ff4cb63a5ae9c"), other),
    ]
    for text, segment in same:
        try:
            program = parse_program(text, segment)
        except VerifyError as error:
            text = text.replace(
                "f0d5e5b2dfcd5e0c3f8ff4cb63a5ae9c", str(error).split("digest ")[1].split(",")[0]
            )
            program = parse_program(text, segment)
        assert program_digest(program) == digest
    for text in (
        changed("constant(5)", "constant(6)"),
        changed("trip_count=5", "trip_count=6"),
        changed('target="t/1"', 'target="t/2"'),
        changed("workspace[512:576]", "workspace[576:640]"),
        changed("direction=GT", "direction=LT"),
    ):
        assert program_digest(parse_program(text, SEGMENT)) != digest


def _refused() -> dict[str, tuple[list[str], str]]:
    found = {}
    for block in (TEXTS / "refused.txt").read_text().split("\n# ")[1:]:
        name, *lines = block.rstrip().split("\n")
        *changes, message = [line[2:].replace("\\n", "\n") for line in lines]
        found[name] = changes, message
    return found


REFUSED = _refused()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_in_order_is_refused(name):
    changes, message = REFUSED[name]
    with pytest.raises((VerifyError, ParseError), match=re.escape(message)):
        parse_program(changed(*changes), SEGMENT)
