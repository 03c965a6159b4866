"""Loops and branches of TensorFlow 1, lists of tensors and stacks. Graphs are texts: a node in a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axla import AxlaError
from axla.tensorflow import load
from axla.tensorflow.messages import encode

f32, s32 = np.float32, np.int32
TYPES = {"float": "DT_FLOAT", "int": "DT_INT32", "bool": "DT_BOOL", "resource": "DT_RESOURCE"}
LISTED = {"element_dtype": {"type": "DT_FLOAT"}, "shape_type": {"type": "DT_INT32"}}
MORE: dict[str, dict[str, Any]] = {
    "EmptyTensorList": LISTED, "TensorListReserve": LISTED, "TensorListPushBack": LISTED,
    "TensorListStack": LISTED, "TensorListPopBack": LISTED, "TensorListSetItem": LISTED,
    "StackV2": {"elem_type": {"type": "DT_FLOAT"}}, "StackPopV2": {"elem_type": {"type": "DT_FLOAT"}},
    "Merge": {"N": {"i": 2}}, "Placeholder": {"dtype": {"type": "DT_FLOAT"}},
    "Flag": {"dtype": {"type": "DT_BOOL"}},
}  # fmt: skip


def node(line: str) -> dict[str, Any]:
    """`name = Op type inputs`; a number instead of an operation is a constant, `Enter@frame` one of a frame;
    `!` behind it says that it stays as it is.
    """
    name, _, rest = line.strip().partition(" = ")
    op, *inputs = rest.split()
    if op.lstrip("-").replace(".", "").isdigit():
        type_ = "DT_FLOAT" if "." in op else "DT_INT32"
        field = "float_val" if "." in op else "int_val"
        value = {"tensor": {"dtype": type_, "tensor_shape": {}, field: np.array([float(op)])}}
        attributes = {"dtype": {"type": type_}, "value": value}
        return _made(name, "Const", inputs, attributes)
    type_ = TYPES.get(inputs[0] if inputs else "", "")
    attributes = {"T": {"type": type_}} if type_ else {}
    op, _, frame = op.partition("@")
    if frame:
        attributes["frame_name"] = {"s": frame.rstrip("!").encode()}
        attributes["is_constant"] = {"b": frame.endswith("!")}
    op, attributes = "Placeholder" if op == "Flag" else op, attributes | MORE.get(op, {})
    return _made(name, op, inputs[bool(type_) :], attributes)


def _made(name: str, op: str, inputs: list[str], attributes: dict[str, Any]) -> dict[str, Any]:
    listed = [{"key": key, "value": value} for key, value in attributes.items()]
    return {"name": name, "op": op, "input": inputs, "attr": listed}


def run(text: str, fetches: list[str], **given: Any) -> list[np.ndarray]:
    """The fetches of a graph."""
    nodes = [node(line) for line in text.splitlines() if line]
    values = [np.asarray(value) for value in given.values()]
    function = load(encode({"node": nodes}, "GraphDef"), feeds=[f"{n}:0" for n in given], fetches=fetches)
    return [np.asarray(value) for value in function(*values)]


COUNT = """
x = Placeholder
zero = 0
three = 3
i0 = Enter@f int zero
x0 = Enter@f float x
most = Enter@f! int three
i = Merge int i0 i3
xm = Merge float x0 x3
less = Less int i most
go = LoopCond less
i1 = Switch int i go
x1 = Switch float xm go
one = 1 ^i1
two = 2. ^x1
i2 = AddV2 int i1:1 one
x2 = Mul float x1:1 two
i3 = NextIteration int i2
x3 = NextIteration float x2
end = Exit float x1
turns = Exit int i1
"""


def test_a_loop_with_two_exits():
    found, turns = run(COUNT, ["end:0", "turns:0"], x=f32([1, 2]))
    np.testing.assert_array_equal(found, [8, 16])
    assert turns == 3


def test_a_loop_fills_a_stack_that_another_empties():
    text = (
        COUNT
        + """
none = -1
stack = StackV2 none
s = Enter@f! resource stack
push = StackPushV2 float s x1:1
x4 = Identity float x2 ^push
c0 = Enter@b int turns
y0 = Enter@b float end
t = Enter@b! resource stack
zeros = Enter@b! int zero
c = Merge int c0 c3
y = Merge float y0 y3
more = Greater int c zeros
again = LoopCond more
c1 = Switch int c again
y1 = Switch float y again
unit = 1 ^c1
c2 = Sub int c1:1 unit
pop = StackPopV2 t ^c2
y2 = Sub float pop y1:1
c3 = NextIteration int c2
y3 = NextIteration float y2
sum = Exit float y1
"""
    )
    text = text.replace("x3 = NextIteration float x2", "x3 = NextIteration float x4")
    (found,) = run(text, ["sum:0"], x=f32([1, 2]))
    np.testing.assert_array_equal(found, [1 - (2 - (4 - 8)), 2 - (4 - (8 - 16))])


BRANCH = """
x = Placeholder
p = Flag
s = Switch float x p
two = 2. ^s
a = Mul float s two
b = Neg float s:1
m = Merge float a b
"""


@pytest.mark.parametrize("flag, wanted", [(False, [2, 4]), (True, [-1, -2])])
def test_a_branch_and_which_it_was(flag, wanted):
    found, index = run(BRANCH, ["m:0", "m:1"], x=f32([1, 2]), p=flag)
    np.testing.assert_array_equal(found, wanted)
    assert index == int(flag)


def test_branches_that_need_each_other():
    text = (
        BRANCH
        + """
t = Switch float m p
c = Neg float t
d = AddV2 float t:1 b
n = Merge float c d
"""
    )
    for flag, wanted in ((False, [-2, -4]), (True, [-2, -4])):
        (found,) = run(text, ["n:0"], x=f32([1, 2]), p=flag)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "text, fetch, message",
    [
        ("x = Placeholder\ny = Exit float x", "y", "not inside a frame"),
        ("x = Placeholder\na = Enter@f float x\nb = Enter@g float x\ny = AddV2 float a b", "y", "'f', 'g'"),
        (COUNT, "x2", "inside a loop"),
        (BRANCH, "b", "only where p:0 is true"),
        (COUNT.replace("less = Less int i most", "less = Less int i three"), "end", "different frames"),
        (COUNT.replace("i3 = NextIteration int i2", "i3 = Identity int i2"), "end", "in cycles"),
    ],
)
def test_what_is_no_loop_and_no_branch(text, fetch, message):
    with pytest.raises(AxlaError, match=message):
        run(text, [f"{fetch}:0"], **{"x": f32([1, 2])} | ({"p": True} if "p = Flag" in text else {}))


PUSHED = """
x = Placeholder
any = -1
most = {most}
l0 = EmptyTensorList any most
l1 = TensorListPushBack l0 x
l2 = TensorListPushBack l1 x
"""


@pytest.mark.parametrize("most", [-1, 2, 5])
def test_pushed_elements(most):
    text = PUSHED.format(most=most) + "y = TensorListStack l2 any\nn = TensorListLength l2"
    found, count = run(text, ["y:0", "n:0"], x=f32([1, 2]))
    np.testing.assert_array_equal(found, [[1, 2], [1, 2]])
    assert count == 2


def test_lists_have_ends():
    with pytest.raises(AxlaError, match="the list is full"):
        run(PUSHED.format(most=1) + "y = TensorListStack l2 any", ["y:0"], x=f32([1]))
    with pytest.raises(AxlaError, match="the list is empty"):
        run(PUSHED.format(most=1) + "y = TensorListPopBack l0 any", ["y:1"], x=f32([1]))
    with pytest.raises(AxlaError, match="index 3, the list has size 2"):
        run(PUSHED.format(most=4) + "k = 3\ny = TensorListSetItem l2 k x\nz = TensorListStack y any", ["z:0"],
            x=f32([1]))  # fmt: skip
