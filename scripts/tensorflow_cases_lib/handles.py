"""Draws cases of several nodes: variables, lists, arrays, stacks, functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from axla.tensorflow.records import records
from tensorflow_cases_lib.draw import Draw, rule

# variables

STEPS = " ".join(name for name in records() if name.startswith("ResourceApply"))
SCATTERS = " ".join(name for name in records() if name.startswith("ResourceScatter"))


def variable(c: Draw, value: np.ndarray, type_: str) -> tuple[str, str]:
    """Adds a variable; returns its handle, and the node that sets it."""
    handle = c.node(
        "VarHandleOp",
        [],
        f"v{len(c.nodes)}",
        dtype=type_,
        shape=value.shape,
        shared_name=f"v{len(c.nodes)}",
        container="",
    )
    value_node = c.input(value, type_)
    return handle, c.node("AssignVariableOp", [handle, value_node], dtype=type_, validate_shape=False)


def with_variables(
    c: Draw, type_: str, values: list[np.ndarray], others: list[str], **attributes: Any
) -> None:
    """Adds the operation on variables and others, and nodes that read the variables after it."""
    made = [variable(c, value, type_) for value in values]
    waits = [f"^{assigned}" for _, assigned in made]
    c.node(c.op, [*[handle for handle, _ in made], *others, *waits], "op", **c.attributes, **attributes)
    results = [f"op:{k}" for k in range(c.results())]
    reads = [c.node("ReadVariableOp", [handle, "^op"], dtype=type_) for handle, _ in made]
    c.fetches = [*results, *(f"{read}:0" for read in reads)]


@rule(STEPS)
def step(c: Draw) -> None:
    type_, shape = c.type("T"), c.dims(0, 3)
    handles = [o for o in c.record.operands if o.kind == "DT_RESOURCE"]
    values = [c.array(shape, "T", *((-2, 2) if n == 0 else (0.2, 2))) for n in range(len(handles))]
    others = []
    for operand in c.record.operands[len(handles) :]:
        if operand.name in ("grad", "delta"):
            others.append(c.input(c.array(shape, "T", -1, 1), type_))
        elif operand.kind == "DT_INT64":
            others.append(c.input(np.asarray(c.int(1, 9), np.int64), "DT_INT64"))
        else:
            low, high = (-0.9, -0.3) if operand.name == "lr_power" else (0.1, 0.9)
            others.append(c.input(c.array((), "T", low, high), type_))
    for attribute in c.record.attributes:
        if attribute.kind == "bool":
            c.flag(attribute.name)
    with_variables(c, type_, values, others)


@rule(SCATTERS)
def resource_scatter(c: Draw) -> None:
    kind = "T" if "Nd" in c.op else "dtype"
    type_, shape, count = c.type(kind), c.dims(1, 3), c.int(1, 3)
    depth = c.int(1, len(shape)) if "Nd" in c.op else 1
    indices = np.stack([c.random.permutation(max(n, count))[:count] % n for n in shape[:depth]], -1)
    if "Update" in c.op:
        indices = np.unique(indices, axis=0)
    updates = c.array((len(indices), *shape[depth:]), kind, 1, 5)
    c.type("Tindices")
    if "Nd" in c.op:
        c.attr("bad_indices_policy", "")
    else:
        indices = indices[:, 0]
    indices = indices.astype(np.int32 if c.attributes["Tindices"] == "DT_INT32" else np.int64)
    with_variables(
        c,
        type_,
        [c.array(shape, kind, -9, 9)],
        [c.input(indices, c.attributes["Tindices"]), c.input(updates, type_)],
    )


@rule(
    "AssignVariableOp AssignAddVariableOp AssignSubVariableOp ReadVariableOp VarIsInitializedOp VariableShape"
)
def plain_variable(c: Draw) -> None:
    kind = next((a.name for a in c.record.attributes if a.name == "dtype"), None)
    type_, shape = c.type(kind) if kind else "DT_FLOAT", c.dims(0, 3)
    others = [c.input(c.array(shape, type_), type_)] if len(c.record.operands) > 1 else []
    if c.op == "VariableShape":
        c.type("out_type")
    if c.op == "AssignVariableOp":
        c.attr("validate_shape", False)
    with_variables(c, type_, [c.array(shape, type_)], others)


@rule("VarHandleOp DestroyResourceOp")
def handle_only(c: Draw) -> None:
    """Draws a variable that is read and, for DestroyResourceOp, then destroyed."""
    type_ = c.type("dtype") if c.op == "VarHandleOp" else "DT_FLOAT"
    handle, assigned = variable(c, c.array(c.dims(), type_), type_)
    read = c.node("ReadVariableOp", [handle, f"^{assigned}"], dtype=type_)
    if c.op == "DestroyResourceOp":
        c.node(c.op, [handle, f"^{read}"], "op", ignore_lookup_error=True)
        read = c.node("Identity", [read, "^op"], T=type_)
    c.fetches = [f"{read}:0"]


@rule("ReadVariableXlaSplitND AssignVariableXlaConcatND")
def grids(c: Draw) -> None:
    type_, grid, tile = c.type("T"), c.dims(2, 2, 1, 2), c.dims(2, 2, 1, 3)
    is_read = c.op.startswith("Read")
    (
        c.attr("N", grid[0] * grid[1]),
        c.attr("num_splits" if is_read else "num_concats", grid),
        c.attr("paddings", ()),
    )
    tiles = [] if is_read else [c.input(c.array(tile, type_), type_) for _ in range(c.attributes["N"])]
    with_variables(c, type_, [c.array([n * m for n, m in zip(grid, tile, strict=True)], type_)], tiles)


@rule("Variable VariableV2 Assign AssignAdd AssignSub IsVariableInitialized RefIdentity")
def references(c: Draw) -> None:
    """Draws a variable of TensorFlow 1 that is assigned and read."""
    is_variable = c.op.startswith("Variable")
    type_, shape = c.type("dtype" if is_variable or c.op.startswith("Is") else "T"), c.dims()
    maker = c.op if is_variable else "VariableV2"
    made = c.node(maker, [], "v", dtype=type_, shape=shape, container="", shared_name="")
    typed = {"T": type_, "use_locking": False}
    assigned = c.node("Assign", [made, c.input(c.array(shape, type_), type_)], validate_shape=True, **typed)
    waits = f"^{assigned}"
    if c.op.startswith("Assign"):
        more = typed | ({"validate_shape": True} if c.op == "Assign" else {})
        waits = "^" + c.node(c.op, [made, c.input(c.array(shape, type_), type_), waits], "op", **more)
    elif c.op == "IsVariableInitialized":
        c.fetches = [c.node(c.op, [made, waits], "op", dtype=type_) + ":0"]
        return
    elif c.op == "RefIdentity":
        made = c.node(c.op, [made, waits], "op", T=type_)
    c.fetches = [c.node("Identity", [made, waits], T=type_) + ":0"]


@rule("ResourceGather ResourceGatherNd")
def resource_gather(c: Draw) -> None:
    type_, shape = c.type("dtype"), c.dims(1, 3)
    rows = c.dims(1, 2)
    indices = c.array(rows if c.op == "ResourceGather" else (*rows, 1), "Tindices", 0, shape[0] - 1)
    if c.op == "ResourceGather":
        c.attr("batch_dims", 0), c.attr("validate_indices", True)
    with_variables(c, type_, [c.array(shape, type_)], [c.input(indices, c.type("Tindices"))])


@rule("ResourceStridedSliceAssign")
def strided_assign(c: Draw) -> None:
    n, index = c.int(3, 6), c.type("Index")
    begin, end = c.int(0, 1), c.int(2, 3)
    dtype = np.int32 if index == "DT_INT32" else np.int64
    spots = [c.input(np.array([k], dtype), index, True) for k in (begin, end, 1)]
    tail = c.dims(0, 2)
    for a in c.record.attributes:
        if a.kind == "int":
            c.attr(a.name, 0)
    value = c.input(c.array((end - begin, *tail), "T"), c.type("T"))
    with_variables(c, c.type("T"), [c.array((n, *tail), "T")], [*spots, value])


@rule(
    "RngReadAndSkip RngSkip StatefulUniform StatefulUniformInt StatefulUniformFullInt "
    "StatefulStandardNormalV2 StatefulTruncatedNormal"
)
def generator(c: Draw) -> None:
    others = []
    kinds = {"alg": "DT_INT32", "algorithm": "DT_INT64"}
    if "shape_dtype" in c.types:
        c.attr("shape_dtype", c.one("DT_INT32", "DT_INT64"))
    for operand in c.record.operands[1:]:
        if operand.name in kinds:
            value, type_ = np.asarray(1), kinds[operand.name]
        elif operand.name == "delta":
            value, type_ = np.asarray(c.int(1, 99)), operand.kind
        elif operand.name == "shape":
            value, type_ = np.array(c.dims(1, 2)), c.type("shape_dtype")
        else:
            value, type_ = np.asarray(0 if operand.name == "minval" else c.int(5, 50)), c.type("dtype")
        dtype = c.array((), type_).dtype
        others.append(c.input(value.astype(dtype), type_, operand.name in (*kinds, "shape")))
    if any(a.name == "dtype" for a in c.record.attributes):
        c.type("dtype")
    with_variables(c, "DT_INT64", [c.random.integers(0, 1 << 40, 3)], others)


# lists and arrays


def number(c: Draw, *values: int) -> str:
    """Adds an int32 constant: one number, or an array of several."""
    return c.input(np.asarray(values[0] if len(values) == 1 else values, np.int32), "DT_INT32", True)


def sizes(c: Draw, values: tuple[int, ...]) -> str:
    return c.input(np.array(values, np.int32), "DT_INT32", True)


LISTS = (
    "TensorListReserve TensorListSetItem TensorListGetItem TensorListStack TensorListFromTensor "
    "TensorListGather TensorListLength TensorListElementShape TensorListPushBack TensorListPopBack "
    "EmptyTensorList TensorListResize TensorListScatter TensorListScatterV2 "
    "TensorListScatterIntoExistingList TensorListConcatLists TensorListConcat TensorListConcatV2 "
    "TensorListSplit"
)


@rule(LISTS)
def lists(c: Draw) -> None:
    """Draws a tensor list that is made, changed and read; the operation is one of these steps."""
    kind = "element_dtype" if any(a.name == "element_dtype" for a in c.record.attributes) else "DT_FLOAT"
    type_, shape, count = c.type(kind), c.dims(1, 2), c.int(2, 4)
    element, whole = sizes(c, shape), c.array((count, *shape), kind)
    typed = {"element_dtype": type_}
    shaped = typed | {"shape_type": "DT_INT32"}
    rows = c.input(np.arange(count, dtype=np.int32), "DT_INT32", True)
    if c.op in ("EmptyTensorList", "TensorListPushBack", "TensorListPopBack"):
        handle = c.node("EmptyTensorList", [element, number(c, count)], **shaped)
        for k in range(count):
            handle = c.node("TensorListPushBack", [handle, c.input(whole[k], type_)], **typed)
        popped = c.node("TensorListPopBack", [handle, element], **typed)
        c.fetches = [f"{popped}:1"]
        if c.op == "TensorListPushBack":
            popped = c.node("TensorListPopBack", [popped, element], **typed)
            c.fetches.append(f"{popped}:1")
        return
    data = c.input(whole, type_)
    if c.op in ("TensorListScatter", "TensorListScatterV2"):
        more = [number(c, count)] if c.op.endswith("V2") else []
        handle = c.node(c.op, [data, rows, element, *more], **shaped)
    elif c.op == "TensorListSplit":
        lengths = c.input(np.ones(count, np.int64), "DT_INT64", True)
        handle = c.node(c.op, [data, sizes(c, (1, *shape)), lengths], **shaped)
        got = c.node("TensorListGetItem", [handle, number(c, 0), sizes(c, (1, *shape))], **typed)
        c.fetches = [f"{got}:0"]
        return
    elif c.op in ("TensorListReserve", "TensorListSetItem", "TensorListScatterIntoExistingList"):
        handle = c.node("TensorListReserve", [element, number(c, count)], **shaped)
        if c.op == "TensorListScatterIntoExistingList":
            handle = c.node(c.op, [handle, data, rows], **typed)
        else:
            for k in range(count):
                handle = c.node(
                    "TensorListSetItem", [handle, number(c, k), c.input(whole[k], type_)], **typed
                )
    else:
        handle = c.node("TensorListFromTensor", [data, element], **shaped)
    if c.op == "TensorListResize":
        handle = c.node(c.op, [handle, number(c, c.int(1, count))])
        got = c.node("TensorListGetItem", [handle, number(c, 0), element], **typed)
        c.fetches = [f"{got}:0"]
        return
    if c.op == "TensorListConcatLists":
        handle = c.node(c.op, [handle, handle], **typed)
    _read_list(c, handle, element, typed, shape, count)


def _read_list(
    c: Draw, handle: str, element: str, typed: dict[str, str], shape: tuple[int, ...], count: int
) -> None:
    if c.op == "TensorListLength":
        c.fetches = [c.node(c.op, [handle]) + ":0"]
    elif c.op == "TensorListElementShape":
        c.fetches = [c.node(c.op, [handle], shape_type=c.one("DT_INT32", "DT_INT64")) + ":0"]
    elif c.op == "TensorListGetItem":
        c.fetches = [c.node(c.op, [handle, number(c, c.int(0, count - 1)), element], **typed) + ":0"]
    elif c.op == "TensorListGather":
        some = c.random.integers(0, count, c.int(1, 3)).astype(np.int32)
        c.fetches = [c.node(c.op, [handle, c.input(some, "DT_INT32", True), element], **typed) + ":0"]
    elif c.op == "TensorListConcat":
        made = c.node(c.op, [handle], element_shape=shape, **typed)
        c.fetches = [f"{made}:0", f"{made}:1"]
    elif c.op == "TensorListConcatV2":
        lengths = c.input(np.zeros(0, np.int64), "DT_INT64", True)
        made = c.node(c.op, [handle, element, lengths], shape_type="DT_INT32", **typed)
        c.fetches = [f"{made}:0", f"{made}:1"]
    else:
        c.fetches = [c.node("TensorListStack", [handle, element], num_elements=-1, **typed) + ":0"]


@rule(
    "TensorArrayV3 TensorArrayWriteV3 TensorArrayReadV3 TensorArrayGatherV3 TensorArrayScatterV3 "
    "TensorArraySizeV3 TensorArrayConcatV3 TensorArraySplitV3 TensorArrayCloseV3 "
    "TensorArrayGradV3"
)
def tensor_arrays(c: Draw) -> None:
    kind = next((a.name for a in c.record.attributes if a.kind == "type"), "DT_FLOAT")
    type_, shape, count = c.type(kind), c.dims(1, 2), c.int(2, 4)
    whole = c.array((count, *shape), kind)
    handle = c.node(
        "TensorArrayV3", [number(c, count)], dtype=type_, element_shape=shape, dynamic_size=False,
        clear_after_read=False, identical_element_shapes=True, tensor_array_name=f"a{c.int(0, 99)}",
    )  # fmt: skip
    if c.op == "TensorArrayGradV3":
        handle = c.node(c.op, [handle, f"{handle}:1"], source="gradients")
    flow, rows = f"{handle}:1", c.input(np.arange(count, dtype=np.int32), "DT_INT32", True)
    if c.op == "TensorArraySplitV3":
        merged = c.input(whole.reshape(count * shape[0], *shape[1:]), type_)
        lengths = c.input(np.full(count, shape[0], np.int64), "DT_INT64", True)
        flow = c.node(c.op, [handle, merged, lengths, flow], T=type_)
    elif c.op == "TensorArrayWriteV3":
        for k in range(count):
            flow = c.node(c.op, [handle, number(c, k), c.input(whole[k], type_), flow], T=type_)
    else:
        flow = c.node("TensorArrayScatterV3", [handle, rows, c.input(whole, type_), flow], T=type_)
    if c.op == "TensorArrayReadV3":
        c.fetches = [c.node(c.op, [handle, number(c, c.int(0, count - 1)), flow], dtype=type_) + ":0"]
    elif c.op == "TensorArraySizeV3":
        c.fetches = [c.node(c.op, [handle, flow]) + ":0"]
    elif c.op == "TensorArrayConcatV3":
        made = c.node(c.op, [handle, flow], dtype=type_, element_shape_except0=shape[1:])
        c.fetches = [f"{made}:0", f"{made}:1"]
    else:
        read = c.node("TensorArrayGatherV3", [handle, rows, flow], dtype=type_, element_shape=shape)
        c.fetches = [f"{read}:0"]
        if c.op == "TensorArrayCloseV3":
            c.node(c.op, [handle, f"^{read}"], "close")


@rule("StackV2 StackPushV2 StackPopV2 StackCloseV2")
def stacks(c: Draw) -> None:
    kind = next((a.name for a in c.record.attributes if a.kind == "type"), "DT_FLOAT")
    type_, value = c.type(kind), c.array(c.dims(0, 2), kind)
    handle = c.node("StackV2", [number(c, 3)], elem_type=type_, stack_name="s")
    pushed = c.node("StackPushV2", [handle, c.input(value, type_)], T=type_, swap_memory=False)
    popped = c.node("StackPopV2", [handle, f"^{pushed}"], elem_type=type_)
    c.fetches = [f"{pushed}:0", f"{popped}:0"]


# functions


@rule("PartitionedCall StatefulPartitionedCall If StatelessIf Case StatelessCase XlaIf")
def calls(c: Draw) -> None:
    type_, shape = c.one("DT_FLOAT", "DT_DOUBLE", "DT_INT32", "DT_INT64"), c.dims(0, 2)
    c.attr("Tin", (type_,)), c.attr("Tout", (type_,))
    same, double = (c.function(body, (type_, shape)) for body in ("same", "double"))
    data = [c.array(shape, type_)]
    if c.op.endswith("Call"):
        c.attr("f", double), c.put("args", data)
        for name in ("config", "config_proto", "executor_type"):
            c.attr(name, "")
    elif c.op.endswith("Case"):
        (
            c.attr("branches", (same, double)),
            c.put("branch_index", np.asarray(c.int(-1, 2), np.int32)),
            c.put("input", data),
        )
    else:
        c.attr("Tcond", "DT_BOOL"), c.attr("then_branch", same), c.attr("else_branch", double)
        c.put("cond", np.asarray(c.chance(0.5))), c.put("inputs" if c.op == "XlaIf" else "input", data)


@rule("SymbolicGradient")
def symbolic_gradient(c: Draw) -> None:
    type_, shape = c.one(*c.main[1]), c.dims(0, 3)
    double = c.attr("f", c.function("double", (type_, shape)))
    c.gradients[double[1]] = c.function("double_gradient", (type_, shape), (type_, shape))[1]
    c.attr("Tin", (type_, type_)), c.attr("Tout", (type_,))
    c.put("input", [c.array(shape, type_) for _ in range(2)])


@rule("While StatelessWhile XlaWhile")
def loops(c: Draw) -> None:
    type_, shape = c.one("DT_FLOAT", "DT_DOUBLE", "DT_INT32", "DT_INT64"), c.dims(0, 2)
    c.attr("T", ("DT_INT32", type_))
    c.attr("cond", c.function("few", ("DT_INT32", ()), (type_, shape)))
    c.attr("body", c.function("step", ("DT_INT32", ()), (type_, shape)))
    c.put("input", [np.asarray(c.int(0, 5), np.int32), c.array(shape, type_)])
