"""`kit.OpByOp`: which instructions run on the device, where values are, and what a wrong function is told."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.backends import Capabilities
from axla.backends.kit import OpByOp, OpByOpBackend


class Far:
    """An array in a memory that NumPy cannot read."""

    def __init__(self, data):
        self.data = np.asarray(data)
        self.shape, self.dtype = self.data.shape, self.data.dtype


COUNTS = {"up": 0, "down": 0}


def launched(kernel):
    def run(inst, *operands):
        assert all(type(x) is Far for x in operands)
        return Far(kernel(*(x.data for x in operands)))

    return run


def fails(error):
    def run(inst, *operands):
        raise error

    return run


class Lost:
    """An array that cannot be fetched."""


class FarProgram(OpByOp):
    ops = {
        "add": launched(np.add),
        "multiply": launched(np.multiply),
        "compare": launched(np.less),
        "negate": lambda inst, x: Far(np.float64(-x.data)),
        "abs": fails(ZeroDivisionError("on the bus")),
        "sign": fails(MemoryError("9 lines are not there")),
        "floor": fails(axla.UnsupportedError("no floors")),
        "ceil": lambda inst, x: Lost(),
    }

    def why_not(self, inst):
        return "it counts too far" if inst.operands[0].shape.dtype.name == "s64" else ""

    def to_device(self, array):
        COUNTS["up"] += 1
        return Far(array.copy())

    def to_host(self, value):
        COUNTS["down"] += 1
        return value.data


class FarBackend(OpByOpBackend):
    name = "far"
    capabilities = Capabilities(1, {"participants": "there is one"})
    executable = FarProgram


@pytest.fixture(autouse=True)
def far():
    axla.backends.register("far", FarBackend)
    COUNTS.update(up=0, down=0)
    yield
    axla.backends.unregister("far")


LOOP = """
HloModule loop
condition { s = (s32[], f32[400], f32[2,400]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT more = pred[] compare(i, n), direction=LT }
doubled { x = f32[400] parameter(0)
  ROOT r = f32[400] add(x, x) }
same { x = f32[400] parameter(0)
  ROOT r = f32[400] sine(x) }
body { s = (s32[], f32[400], f32[2,400]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[400] get-tuple-element(s), index=1
  kept = f32[2,400] get-tuple-element(s), index=2
  one = s32[] constant(1)
  two = s32[] constant(2)
  next = s32[] add(i, one)
  early = pred[] compare(i, two), direction=LT
  y = f32[400] conditional(early, x, x), true_computation=doubled, false_computation=same
  ROOT r = (s32[], f32[400], f32[2,400]) tuple(next, y, kept) }
ENTRY e { x = f32[400] parameter(0)
  kept = f32[2,400] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[400], f32[2,400]) tuple(zero, x, kept)
  l = (s32[], f32[400], f32[2,400]) while(s), condition=condition, body=body
  y = f32[400] get-tuple-element(l), index=1
  k = f32[2,400] get-tuple-element(l), index=2
  ROOT r = (f32[400], f32[2,400]) tuple(y, k) }"""


def test_loops_and_branches_are_walked_and_what_is_in_them_runs_on_the_device():
    program = axla.compile(axla.parse(LOOP), backend="far")
    x, kept = np.tile(np.float32([1, 2, 3, 4]), 100), np.ones((2, 400), np.float32)
    found = [np.asarray(a) for a in program.execute([x, kept])]
    wanted = axla.compile(axla.parse(LOOP), backend="interpreter").execute([x, kept])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, np.asarray(b))
    assert {step.split()[0]: why for step, why in program.host_steps.items()} == {
        "sine": "the device has no sine"
    }


def test_values_stay_where_they_are_until_the_other_side_needs_them():
    text = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] add(x, x)
  b = f32[4] multiply(a, a)
  ROOT c = f32[4] add(b, a) }"""
    program = axla.compile(axla.parse(text), backend="far")
    assert np.asarray(program(np.float32([1, 2, 3, 4]))).tolist() == [6, 20, 42, 72]
    assert COUNTS == {"up": 2, "down": 1}  # x is copied for each operand of the first add


def test_a_reduction_on_the_host_applies_its_computation_on_the_host():
    text = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[2,4] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[2] reduce(x, zero), dimensions={1}, to_apply=sum }"""
    program = axla.compile(axla.parse(text), backend="far")
    assert np.asarray(program(np.ones((2, 4), np.float32))).tolist() == [4, 4]
    assert [step.split()[0] for step in program.host_steps] == ["reduce"] and COUNTS == {"up": 0, "down": 0}


def test_layouts_of_parameters_and_results_change_no_sizes():
    text = """HloModule m, entry_computation_layout={(f32[2,4]{0,1})->f32[2,4]{0,1}}
ENTRY e { x = f32[2,4]{0,1} parameter(0)
  ROOT r = f32[2,4]{0,1} add(x, x) }"""
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(np.asarray(axla.compile(axla.parse(text), backend="far")(x)), x + x)


def one(line: str):
    return axla.compile(axla.parse(f"HloModule m\nENTRY e {{ {line} }}"), backend="far")


def test_reasons_why_the_host_runs_an_instruction():
    assert [*one("x = s64[2] parameter(0)\n ROOT r = s64[2] add(x, x)").host_steps.values()] == [
        "it counts too far"
    ]
    open_size = "x = f32[<=4] parameter(0)\n ROOT r = f32[<=4] add(x, x)"
    program = one(open_size)
    assert [*program.host_steps.values()] == ["the program has dynamic sizes"]
    assert np.asarray(program(np.float32([1, 2]))).tolist() == [2, 4]
    assert not axla.compile(axla.parse(LOOP), backend="cpu").host_steps


def test_a_function_that_gives_another_type_is_told_so():
    program = one("x = f32[2] parameter(0)\n ROOT r = f32[2] negate(x)")
    with pytest.raises(axla.RuntimeFailure, match=r"negate.*: its function returned float64\[2\]"):
        program(np.float32([1, 2]))


@pytest.mark.parametrize(
    ("opcode", "kind", "said"),
    [
        (
            "abs",
            axla.RuntimeFailure,
            r"%r = .* abs\(.*: the device's function failed: ZeroDivisionError: on the bus",
        ),
        ("sign", axla.OutOfMemory, r"%r = .* sign\(.*MemoryError: 9 lines are not there"),
        ("floor", axla.UnsupportedError, "^no floors"),
        ("ceil", axla.RuntimeFailure, r"to_host.*AttributeError: 'Lost' object has no attribute 'data'"),
    ],
)
def test_what_a_function_of_the_device_raises_says_what_failed(opcode, kind, said):
    program = one(f"x = f32[2] parameter(0)\n ROOT r = f32[2] {opcode}(x)")
    with pytest.raises(kind, match=said):
        program(np.float32([1, 2]))


def test_a_profile_has_the_name_of_the_backend_and_its_instructions():
    with axla.profile() as profile:
        program = one("x = f32[2] parameter(0)\n y = f32[2] add(x, x)\n ROOT r = f32[2] sine(y)")
        program(np.float32([1, 2]))
    text = str(profile)
    assert "(far)" in text and "y, add" in text and "r, sine" in text


def test_a_machine_cannot_be_named():
    with pytest.raises(axla.InvalidArgument, match="the backend far supports neither target_cpu"):
        axla.compile(axla.parse(LOOP), backend="far", target_cpu="x86-64")
