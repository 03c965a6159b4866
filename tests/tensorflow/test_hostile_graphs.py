"""Graphs that ask for too much are refused in time, with little memory: sizes, recursion, calls of calls."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from axla import AxlaError
from axla.tensorflow import load
from axla.tensorflow.messages import encode

FLOAT, INT = {"type": "DT_FLOAT"}, {"type": "DT_INT32"}


def node(name: str, op: str, *inputs: str, **attributes: Any) -> dict[str, Any]:
    listed = [{"key": key, "value": value} for key, value in attributes.items()]
    return {"name": name, "op": op, "input": list(inputs), "attr": listed}


def function(name: str, *nodes: dict[str, Any], result: str) -> dict[str, Any]:
    """A function from x to y, floats."""
    signature = {
        "name": name,
        "input_arg": [{"name": "x", "type": "DT_FLOAT"}],
        "output_arg": [{"name": "y", "type": "DT_FLOAT"}],
    }
    return {"signature": signature, "node_def": list(nodes), "ret": [{"key": "y", "value": result}]}


def tensor(dims: list[int], **values: Any) -> dict[str, Any]:
    return {"tensor": {"dtype": "DT_INT32", "tensor_shape": {"dim": [{"size": n} for n in dims]}, **values}}


def refused(nodes: list[dict[str, Any]], functions: list[dict[str, Any]] = [], fetch: str = "y") -> str:  # noqa: B006
    """The message of the error, which takes few seconds of the CPU."""
    content = encode({"node": nodes, "library": {"function": functions}}, "GraphDef")
    begin = time.process_time()
    with pytest.raises(AxlaError) as error:
        load(content, fetches=[fetch])()
    assert time.process_time() - begin < 20
    return str(error.value)


CONST = node("c", "Const", dtype=FLOAT, value={"tensor": {"dtype": "DT_FLOAT", "tensor_shape": {}}})


def test_functions_that_call_themselves():
    again = function("f", node("a", "f", "x"), result="a:y:0")
    assert "nested more than 60" in refused([CONST, node("y", "f", "c")], [again])


def test_calls_that_multiply(monkeypatch):
    monkeypatch.setattr("axla.tensorflow.scope.MOST_NODES", 3000)
    chain = [
        function(f"f{n}", node("a", f"f{n + 1}", "x"), node("b", f"f{n + 1}", "a:y:0"), result="b:y:0")
        for n in range(40)
    ]
    last = function("f40", node("a", "Neg", "x", T=FLOAT), result="a:y:0")
    assert "too many" in refused([CONST, node("y", "f0", "c")], [*chain, last])


def test_constants_of_huge_shapes():
    big = node(
        "y", "Const", dtype=INT, value=tensor([1 << 20, 1 << 20], int_val=np.asarray([1, 2], np.int32))
    )
    assert "1099511627776 elements" in refused([big])


def test_no_elements_in_huge_shapes():
    assert "1099511627776" in refused([node("y", "Const", dtype=INT, value=tensor([0, 1 << 40, 1 << 40]))])


@pytest.mark.parametrize("op", ["Abs", "Round", "Cholesky"])
def test_strings_where_numbers_are_wanted(op):
    text = {"tensor": {"dtype": "DT_STRING", "tensor_shape": {}, "string_val": [b"a"]}}
    constant = node("c", "Const", dtype={"type": "DT_STRING"}, value=text)
    assert "the operation is not supported for strings" in refused(
        [constant, node("y", op, "c", T={"type": "DT_STRING"})]
    )


def test_constants_of_many_dimensions():
    assert "1000 dimensions" in refused([node("y", "Const", dtype=INT, value=tensor([1] * 1000))])


def test_fills_of_huge_shapes():
    dims = node("d", "Const", dtype=INT, value=tensor([2], int_val=np.asarray([1 << 20, 1 << 20], np.int32)))
    value = node("v", "Const", dtype=INT, value=tensor([], int_val=np.asarray([1], np.int32)))
    assert refused([dims, value, node("y", "Fill", "d", "v", T=INT, index_type=INT)])
    shape = node("s", "Fill", "d", "v", T=INT, index_type=INT)
    assert refused([dims, value, shape, node("y", "Fill", "s", "v", T=INT, index_type=INT)])


def test_axes_of_which_there_are_many():
    axes = node("a", "Const", dtype=INT, value=tensor([2**31 - 1]))
    assert "2147483647 elements" in refused([CONST, axes, node("y", "Max", "c", "a", T=FLOAT, Tidx=INT)])


def test_lists_of_huge_lengths():
    many = [node(f"u{n}", "Unpack", "c", T=FLOAT, num={"i": 1 << 20}, axis={"i": 0}) for n in range(4)]
    assert "outputs" in refused([CONST, *many, node("y", "Neg", "u0", T=FLOAT)])


def test_loops_that_do_not_end_while_a_constant_is_computed():
    true = {"tensor": {"dtype": "DT_BOOL", "tensor_shape": {}, "bool_val": np.asarray([True])}}
    body = {**function("body", result="x"), "node_def": []}
    condition = function(
        "condition", node("t", "Const", dtype={"type": "DT_BOOL"}, value=true), result="t:output:0"
    )
    for each in (body, condition):
        each["signature"]["input_arg"][0]["type"] = "DT_INT32"
    body["signature"]["output_arg"][0]["type"] = "DT_INT32"
    condition["signature"]["output_arg"][0]["type"] = "DT_BOOL"
    one = node("one", "Const", dtype=INT, value=tensor([], int_val=np.asarray([3], np.int32)))
    turn = {"func": {"name": "condition"}}, {"func": {"name": "body"}}
    loop = node("size", "While", "one", T={"list": {"type": ["DT_INT32"]}}, cond=turn[0], body=turn[1])
    y = node("y", "Fill", "dims", "one", T=INT, index_type=INT)
    dims = node("dims", "Pack", "size", T=INT, N={"i": 1}, axis={"i": 0})
    assert refused([one, loop, dims, y])


def test_two_functions_of_a_name():
    f = function("f", result="x")
    assert "two functions 'f'" in refused([CONST, node("y", "f", "c")], [f, f])


@pytest.mark.parametrize(
    "value", [{"i": 1}, {"s": b"DT_FLOAT"}, {"type": 9999}, {}, {"list": {}}, {"func": {"name": "f"}}]
)
def test_attributes_of_other_kinds(value):
    assert "'y' (Neg)" in refused([CONST, node("y", "Neg", "c", T=value)]) or isinstance(
        value.get("type"), int
    )


def test_functions_with_long_attributes_are_told_apart():
    values = np.zeros(3000, np.int32), np.eye(1, 3000, 1500, dtype=np.int32)[0]
    value = node("k", "Const", dtype=INT, value={"placeholder": "value"})
    f = function("f", value, result="k:output:0")
    f["signature"] |= {"input_arg": []}
    f["signature"]["output_arg"][0]["type"] = "DT_INT32"
    calls = [node(f"y{n}", "f", value=tensor([3000], int_val=v)) for n, v in enumerate(values)]
    both = load(encode({"node": calls, "library": {"function": [f]}}, "GraphDef"), fetches=["y0", "y1"])
    for found, wanted in zip(both(), values, strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("source, message", [
    ("a:z:0", "no output 'z'; there are output"), ("a:output:1", "has 1 outputs 'output'"),
    ("b:z:0", "no output 'b:z:0'"),
])  # fmt: skip
def test_outputs_in_functions(source, message):
    f = function("f", node("a", "Identity", "x", T=FLOAT), result=source)
    assert message in refused([CONST, node("y", "f", "c")], [f])


def test_attributes_of_functions_without_keys():
    given = {"func": {"name": "f", "attr": [{"value": INT}]}}
    assert refused([CONST, node("y", "PartitionedCall", "c", f=given)])


def test_outputs_with_long_numbers():
    with pytest.raises(AxlaError, match="not the name of an output"):
        load(encode({"node": [CONST]}, "GraphDef"), fetches=["c:" + "9" * 5000])
