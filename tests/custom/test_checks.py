"""`axla.check`: programs that end with a message of their own where something is false."""

from __future__ import annotations

import numpy as np
import pytest
from entries import run

import axla
from axla.codegen.host import host_target
from axla.core.errors import RuntimeFailure, UnsupportedError, VerifyError
from axla.lowering.loading import load_program
from axla.lowering.pipeline import compile_program, constants_segment
from axla.program.text import parse_program, print_program

CALL = 'token[] custom-call({}), custom_call_target="axla.check", custom_call_has_side_effect=true'
CHECKS = f"""a = s32[] parameter(0)
b = s32[] parameter(1)
less = pred[] compare(a, b), direction=LT
zero = s32[] constant(0)
whole = pred[] compare(a, zero), direction=GE
t = {CALL.format("less")}, backend_config="a must be less than \\"b\\""
u = {CALL.format("whole")}, backend_config="a is negative"
ROOT sum = s32[] add(a, b)"""


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
def test_what_is_false_ends_the_program(backend):
    assert run(CHECKS, backend, np.int32(1), np.int32(2)) == [3]
    for a, b, message in ((3, 2, 'a must be less than "b"'), (-1, 2, "a is negative")):
        with pytest.raises(RuntimeFailure, match=message):
            run(CHECKS, backend, np.int32(a), np.int32(b))


def test_only_a_truth_is_checked():
    text = f"x = f32[] parameter(0)\nt = {CALL.format('x')}\nROOT y = f32[] negate(x)"
    with pytest.raises(UnsupportedError, match="takes a pred"):
        run(text, "cpu", np.float32(1))


def test_the_text_of_a_program_has_its_messages():
    constants: dict = {}
    program = compile_program(axla.parse(f"ENTRY e {{\n{CHECKS}\n}}"), host_target(), constants)
    text, segment = print_program(program), constants_segment(constants)
    assert sorted(program.interface.messages) == ["a is negative", 'a must be less than "b"']
    assert print_program(parse_program(text, segment)) == text
    line = next(line for line in text.splitlines() if "message" in line and "a is negative" in line)
    with pytest.raises(VerifyError, match="message of a check must be in the interface"):
        load_program(text.replace(line, line.replace("negative", "odd"), 1), segment, host_target())
