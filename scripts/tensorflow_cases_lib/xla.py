"""Draws operands for the `Xla...` operations, and for a few that the runtime adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from axla.proto.wire import number_bytes
from axla.tensorflow.types import DTYPES
from tensorflow_cases_lib.draw import Draw, NoRule, rule

# operations of XLA


def _field(number_: int, values: list[int]) -> bytes:
    """The bytes of a field of a protocol buffer that has packed integers."""
    body = b"".join(number_bytes(v) for v in values)
    return number_bytes(number_ << 3 | 2) + number_bytes(len(body)) + body if values else b""


def _text(message: bytes) -> str:
    return message.decode("utf-8", "surrogateescape")


@rule("XlaDot XlaDotV2")
def dot(c: Draw) -> None:
    m, k, n = c.dims(3, 3)
    if c.op == "XlaDotV2":
        c.attr("RhsT", c.type("LhsT")), c.attr("preferred_element_type", c.type("LhsT"))
    c.data("lhs", (m, k)), c.data("rhs", (k, n)), c.attr("precision_config", "")
    c.attr("dimension_numbers", _text(_field(1, [1]) + _field(2, [0])))


@rule("XlaPad")
def xla_pad(c: Draw) -> None:
    shape = c.dims(1, 3, 2)
    c.data("input", shape), c.data("padding_value", ())
    for name, low in (("padding_low", -1), ("padding_high", -1), ("padding_interior", 0)):
        c.const(name, [c.int(low, 2) for _ in shape])


@rule("XlaDynamicSlice XlaDynamicUpdateSlice")
def dynamic_slice(c: Draw) -> None:
    shape = c.dims(1, 3)
    part = [c.int(1, n) for n in shape]
    c.data("input", shape)
    c.data("start_indices" if c.op == "XlaDynamicSlice" else "indices", (len(shape),), -2, 6)
    if c.op == "XlaDynamicSlice":
        c.const("size_indices", part)
    else:
        c.data("update", part)


@rule("XlaReduce XlaVariadicReduce XlaVariadicReduceV2")
def xla_reduce(c: Draw) -> None:
    shape = c.dims(1, 3)
    c.attr("dimensions_to_reduce", tuple(n for n in range(len(shape)) if c.chance(0.5)))
    type_ = c.one(*c.main[1])
    bodies = {"DT_BOOL": ("and", "or"), "DT_COMPLEX64": ("add",), "DT_COMPLEX128": ("add",)}
    c.attr("reducer", c.function(c.one(*bodies.get(type_, ("add", "max"))), (type_, ()), (type_, ())))
    data, init = c.array(shape, type_), c.array((), type_)
    c.attr("T", (type_,) if c.op.endswith("V2") else type_)
    if c.op == "XlaReduce":
        c.put("input", data), c.put("init_value", init)
    else:
        many = "s" if c.op.endswith("V2") else ""
        c.put(f"input{many}", [data]), c.put(f"init_value{many}", [init])


@rule("XlaReduceWindow")
def reduce_window(c: Draw) -> None:
    shape = c.dims(1, 3, 3, 6)
    type_ = c.type("T")
    body = "or" if type_ == "DT_BOOL" else "add"
    c.attr("computation", c.function(body, (type_, ()), (type_, ())))
    c.data("input", shape), c.const("init_value", 0)
    (
        c.const("window_dimensions", [c.int(1, 3) for _ in shape]),
        c.const("window_strides", [c.int(1, 2) for _ in shape]),
    )
    c.const("base_dilations", [c.int(1, 2) for _ in shape]), c.const("window_dilations", [1 for _ in shape])
    c.const("padding", [[c.int(0, 1), c.int(0, 1)] for _ in shape])


@rule("XlaSelectAndScatter")
def select_and_scatter(c: Draw) -> None:
    n, size, stride = c.int(4, 7), c.int(1, 3), c.int(1, 2)
    type_ = c.type("T")
    if "COMPLEX" in type_:
        raise NoRule("complex numbers have no order")
    (
        c.attr("select", c.function("greater", (type_, ()), (type_, ()))),
        c.attr("scatter", c.function("add", (type_, ()), (type_, ()))),
    )
    c.data("operand", (n,)), c.data("source", ((n - size) // stride + 1,)), c.const("init_value", 0)
    c.const("window_dimensions", [size]), c.const("window_strides", [stride]), c.const("padding", [[0, 0]])


@rule("XlaVariadicSort")
def variadic_sort(c: Draw) -> None:
    shape, type_ = c.dims(1, 3), c.one(*c.main[1])
    if "COMPLEX" in type_:
        raise NoRule("complex numbers have no order")
    body = "before" if type_ == "DT_BOOL" else "less"
    (
        c.attr("T", (type_,)),
        c.attr("comparator", c.function(body, (type_, ()), (type_, ()))),
        c.attr("is_stable", True),
    )
    c.put("inputs", [c.array(shape, type_)]), c.const("dimension", c.int(0, len(shape) - 1))


@rule("XlaSort")
def xla_sort(c: Draw) -> None:
    c.data("input", c.dims(1, 3))


@rule("XlaKeyValueSort")
def key_value_sort(c: Draw) -> None:
    n = c.int(1, 7)
    keys = c.array((n,), "K")
    c.put("keys", (c.random.permutation(n) + 1).astype(keys.dtype)), c.data("values", (n,))


@rule("XlaBroadcastHelper")
def broadcast_helper(c: Draw) -> None:
    shape = c.dims(2, 3)
    axis = c.int(0, len(shape) - 1)
    c.data("lhs", shape), c.data("rhs", (shape[axis],)), c.const("broadcast_dims", [axis])


@rule("XlaReducePrecision")
def reduce_precision(c: Draw) -> None:
    c.attr("exponent_bits", c.int(3, 8)), c.attr("mantissa_bits", c.int(2, 10))


@rule("XlaConcatND XlaSplitND")
def nd(c: Draw) -> None:
    grid = c.dims(2, 2, 1, 2)
    tile = c.dims(2, 2, 1, 3)
    count = grid[0] * grid[1]
    c.attr("paddings", ()), c.attr("N", count)
    if c.op == "XlaConcatND":
        c.attr("num_concats", grid), c.put("inputs", [c.array(tile, "T") for _ in range(count)])
    else:
        c.attr("num_splits", grid), c.data("input", (grid[0] * tile[0], grid[1] * tile[1]))


@rule("XlaSharding XlaSpmdFullToShardShape XlaSpmdShardToFullShape XlaOptimizationBarrier")
def identities(c: Draw) -> None:
    c.common = c.dims(0, 3)
    for name in ("sharding", "manual_sharding"):
        if any(a.name == name for a in c.record.attributes):
            c.attr(name, "")
    if c.op == "XlaSpmdShardToFullShape":
        c.attr("full_shape", c.common)


@rule("XlaRngBitGenerator")
def bit_generator(c: Draw) -> None:
    c.const("algorithm", c.one(1, 2)), c.const("shape", c.dims(1, 2))
    c.data("initial_state", (3,) if c.operands["algorithm"][0] == 2 and c.chance(0.5) else (2,), 0, 1 << 40)


@rule("XlaConv XlaConvV2")
def xla_conv(c: Draw) -> None:
    if c.op == "XlaConvV2":
        (
            c.attr("RhsT", c.type("LhsT")),
            c.attr("preferred_element_type", c.type("LhsT")),
            c.attr("batch_group_count", 1),
        )
    n, depth, features, size = c.int(3, 6), c.int(1, 3), c.int(1, 3), c.int(1, 3)
    (
        c.data("lhs", (c.int(1, 2), n, depth)),
        c.data("rhs", (size, depth, features)),
        c.attr("precision_config", ""),
    )
    for name, values in (("window_strides", [c.int(1, 2)]), ("lhs_dilation", [1]), ("rhs_dilation", [1])):
        c.const(name, values)
    c.const("padding", [[c.int(0, 1), c.int(0, 1)]]), c.const("feature_group_count", 1)
    one = {7: 0, 8: 2, 11: [1], 3: 1, 4: 2, 6: [0], 9: 0, 10: 2, 12: [1]}
    c.attr("dimension_numbers", _text(b"".join(_numbered(k, v) for k, v in sorted(one.items()))))


def _numbered(number_: int, value_: Any) -> bytes:
    return (
        _field(number_, value_)
        if isinstance(value_, list)
        else number_bytes(number_ << 3) + number_bytes(value_)
    )


@rule("XlaGather")
def xla_gather(c: Draw) -> None:
    rows, columns, count = c.dims(3, 3)
    c.data("operand", (rows, columns)), c.data("start_indices", (count, 1), 0, rows - 1)
    c.const("slice_sizes", [1, columns]), c.attr("indices_are_sorted", False)
    c.attr("dimension_numbers", _text(_field(1, [1]) + _field(2, [0]) + _field(3, [0]) + _numbered(4, 1)))


@rule("XlaScatter")
def xla_scatter(c: Draw) -> None:
    rows, columns, count = c.dims(3, 3)
    type_ = c.type("T")
    body = "or" if type_ == "DT_BOOL" else "add"
    (
        c.data("operand", (rows, columns)),
        c.data("scatter_indices", (count, 1), 0, rows - 1),
        c.data("updates", (count, columns)),
    )
    (
        c.attr("update_computation", c.function(body, (type_, ()), (type_, ()))),
        c.attr("indices_are_sorted", False),
    )
    c.attr("dimension_numbers", _text(_field(1, [1]) + _field(2, [0]) + _field(3, [0]) + _numbered(4, 1)))


@rule("XlaSetDynamicDimensionSize XlaRemoveDynamicDimensionSize XlaSetBound")
def dynamic(c: Draw) -> None:
    if c.op == "XlaSetBound":
        c.put("input", np.asarray(c.int(0, 5), np.int32)), c.const("bound", 9)
        return
    shape = c.dims(1, 2)
    c.data("input", shape), c.const("dim_index", 0)
    if c.op == "XlaSetDynamicDimensionSize":
        c.const("size", shape[0])


@rule("CollectiveAssignGroupV2")
def groups(c: Draw) -> None:
    c.const("group_assignment", [[0, 1], [2, 3]][: c.int(1, 2)]), c.const("device_index", c.int(0, 1))
    c.const("base_key", c.int(0, 9))


@rule("DeviceIndex")
def device(c: Draw) -> None:
    c.attr("device_names", ("CPU", "GPU"))


@rule("Const")
def constant(c: Draw) -> None:
    type_ = c.type("dtype")
    c.attr("value", (c.array(c.dims(), "dtype"), type_))


@rule("AccumulateNV2")
def accumulate(c: Draw) -> None:
    c.common = c.dims()
    c.attr("shape", c.common)


@rule("_ListToArray _ArrayToList")
def conversion(c: Draw) -> None:
    type_, count = c.type("T"), c.int(1, 3)
    c.common = c.dims()
    c.attr("N", count), c.attr("Tin" if c.op == "_ListToArray" else "out_types", (type_,) * count)


@rule("XlaAllReduce XlaReduceScatter")
def reduced_by_groups(c: Draw) -> None:
    c.common = c.dims(1, 3)
    c.const("group_assignment", [[0]])
    if c.op == "XlaReduceScatter":
        c.const("scatter_dimension", c.int(0, len(c.common) - 1))


@rule("XlaDequantize")
def xla_dequantize(c: Draw) -> None:
    c.attr("min_range", c.one(0.0, -2.0)), c.attr("max_range", c.one(6.0, 1.5))
    c.attr("mode", "MIN_COMBINED"), c.put("input", c.random.integers(0, 1 << 32, c.dims(1, 2), np.uint32))


@rule("XlaCallModule")
def module(c: Draw) -> None:
    type_, shape = c.one(*c.main[1]), c.dims(0, 3)
    named = DTYPES[type_].name.replace("s", "i").replace("u", "ui")
    named = {"pred": "i1", "c64": "complex<f32>", "c128": "complex<f64>"}.get(named, named)
    text = f"tensor<{''.join(f'{n}x' for n in shape)}{named}>"
    c.attr("version", 6), c.attr("platforms", ("CPU",)), c.attr("Tin", (type_, type_))
    c.attr("has_token_input_output", False), c.attr("Tout", (type_,)), c.attr("Sout", (shape,))
    c.put("args", [c.array(shape, type_) for _ in range(2)])
    found = f"stablehlo.{c.one('add', 'multiply')} %a, %b : {text}"
    main_ = f"func.func public @main(%a: {text}, %b: {text}) -> {text}"
    c.attr("module", f"module @m {{\n {main_} {{\n %r = {found}\n return %r : {text}\n }}\n}}\n")


@rule(
    "XlaCustomCall XlaCustomCallV2 XlaSend XlaRecv XlaReplicaId CollectiveReduceV2 _Retval "
    "_XlaAotOnlyVarHandleOp"
)
def outside(c: Draw) -> None:
    reasons = {
        "XlaCustomCall": "it calls a function of the process",
        "XlaCustomCallV2": "it calls a function of the process",
        "XlaSend": "it has no kernel for the CPU", "XlaRecv": "it has no kernel for the CPU",
        "XlaReplicaId": "TensorFlow crashes", "CollectiveReduceV2": "it takes several devices",
        "_Retval": "it is made by the runtime", "_XlaAotOnlyVarHandleOp": "it is made by saved_model_cli",
    }  # fmt: skip
    raise NoRule(reasons[c.op])


@rule("Restore RestoreSlice RestoreV2")
def files(c: Draw) -> None:
    raise NoRule("it reads files")


@rule("FakeParam")
def parameter(c: Draw) -> None:
    c.check = "shape"
    c.attr("shape", c.dims())
