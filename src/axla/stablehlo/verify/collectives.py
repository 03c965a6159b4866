"""Rules of operations that communicate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from axla.stablehlo import mlir
from axla.stablehlo.tables import by_name
from axla.stablehlo.verify.attributes import sizes_of, table
from axla.stablehlo.verify.kinds import Facts, fits, sizes_fit
from axla.stablehlo.verify.reducers import check_reducer
from axla.stablehlo.verify.subject import Subject

_MOST = 1 << 20  # devices in an attribute
_UI32 = mlir.IntegerType(32, "u")


def _groups(
    s: Subject,
    unique_rule: str,
    range_rule: str,
    *,
    even: bool = True,
    size: int | None = None,
    size_rule: str = "",
) -> None:
    """`even` groups have no gaps (-1); `size` is the number of members wanted."""
    held: Any = s.attribute("replica_groups")
    if isinstance(held, mlir.StructAttr):
        mesh = held.fields["mesh"]
        if isinstance(mesh, mlir.SymbolRef):
            s.need(mesh.root in s.symbols, "replica_groups", "there is no mesh @{}", mesh.root)
        return
    shape = sizes_of(held)
    s.need(len(shape) == 2, "replica_groups", "a table of rank 2, found {}", held.type)
    members = _distinct(s, unique_rule, held, "replica_groups")
    if s.flag("use_global_device_ids"):
        s.need(members.size, range_rule, "groups of global device ids are not empty")
    present = members[members != -1]
    s.need(not even or len(present) == members.size, range_rule, "no device is -1 in groups of one size")
    whole = np.array_equal(np.sort(present), np.arange(len(present)))
    s.need(whole, range_rule, "the devices are 0 to {}, found {}", len(present) - 1, str(members[:16]))
    if size is not None:
        s.need(shape[0] and shape[1] == size, size_rule, "groups of {}, found {}", size, held.type)


def _distinct(s: Subject, rule: str, held: mlir.DenseElements, name: str) -> np.ndarray:
    """The devices of a table, each once; -1 is none."""
    count = int(np.prod(sizes_of(held), dtype=object))
    s.need(count <= _MOST, rule, "{} with at most {} elements, found {}", name, _MOST, count)
    members = table(held).reshape(-1)
    present = members[members != -1]
    once = len(np.unique(present)) == len(present)
    s.need(once, rule, "{} has each device once, found {}", name, str(members[:16]))
    return members


def _channel(s: Subject, rule: str, least: int) -> None:
    handle = s.attribute("channel_handle")
    channel = handle.fields["handle"] if handle is not None else 0
    fit = not s.flag("use_global_device_ids") or channel >= least
    s.need(fit, rule, "a channel of at least {} with global device ids, found {}", least, channel)


def all_gather(s: Subject) -> None:
    _groups(s, "c2", "c4")
    _channel(s, "c5", 0)
    at = s.integer("all_gather_dim")
    for operand, result in zip(s.operands, s.results, strict=True):
        s.in_range("c1", "all_gather_dim", (at,), operand.rank)
        before, after = operand.sizes, result.sizes
        s.need(before[at] != 0, "c1", "the gathered dimension is not empty, found {}", operand)
        fit = len(before) == len(after) and sizes_fit(
            before[:at] + before[at + 1 :], after[:at] + after[at + 1 :]
        )
        s.need(fit, "c6", "shapes differ in dimension {} only, found {} and {}", at, operand, result)
        old, new = before[at], after[at]
        fit = old is None or new is None or new % old == 0
        s.need(fit, "c6", "a multiple of the size {} in dimension {}, found {}", old, at, result)


def all_to_all(s: Subject) -> None:
    count = s.integer("split_count")
    _groups(s, "c5", "c7", size=count, size_rule="c8")
    split, concat = s.integer("split_dimension"), s.integer("concat_dimension")
    for i, operand in enumerate(s.operands):
        s.in_range("c1", "split_dimension", (split,), operand.rank)
        s.in_range("c3", "concat_dimension", (concat,), operand.rank)
        size = operand.sizes[split]
        fit = size is None or size % count == 0
        s.need(fit, "c2", "a multiple of split_count {} in dimension {}, found {}", count, split, operand)
        new = list(operand.dims)
        first = new[split]
        new[split] = None if first is None else first // count
        second = new[concat]
        new[concat] = None if second is None else second * count
        s.follows("c9", tuple(new), operand.element, i)


def _reduced(s: Subject, rule: str, operands: list[Facts]) -> None:
    """The computation takes scalars of each operand."""
    for operand in operands:
        check_reducer(s, rule, 0, [operand], [((), operand.element)], ())


def all_reduce(s: Subject) -> None:
    _groups(s, "c1", "c3", even=False)
    _channel(s, "c4", 1)
    _reduced(s, "c5", s.operands)
    _same_shapes(s, s.operands, "c6", "c7")


def _same_shapes(s: Subject, operands: list[Facts], shape_rule: str, element_rule: str) -> None:
    count = len(operands)
    s.need(len(s.results) == count, shape_rule, "{} results, found {}", count, len(s.results))
    for i, operand in enumerate(operands):
        s.follows(shape_rule, operand.extents, None, i)
        s.follows(element_rule, operand.extents, s.returned(0)[0].element, i)


def reduce_scatter(s: Subject) -> None:
    operand, result = s.operands[0], s.results[0]
    _groups(s, "c3", "c5")
    _reduced(s, "c7", s.operands)
    at = s.integer("scatter_dimension")
    s.need(operand.rank == result.rank, "c8", "one rank, found {} and {}", operand, result)
    s.in_range("c2", "scatter_dimension", (at,), operand.rank)
    _channel(s, "c6", 1)
    before, after = operand.sizes, result.sizes
    s.need(before[at] != 0 and after[at] != 0, "c1", "the scattered dimension is not empty")
    whole, part = before[at], after[at]
    fit = whole is None or part is None or whole % part == 0
    s.need(fit, "c8", "a part of the size {} in dimension {}, found {}", whole, at, result)
    fit = all(fits(x, y) for i, (x, y) in enumerate(zip(before, after, strict=True)) if i != at)
    s.need(fit, "c8", "shapes differ in dimension {} only, found {} and {}", at, operand, result)
    returned = s.returned(0)[0].element
    s.need(result.element == returned, "c9", "elements {}, found {}", returned, result)


def _root(s: Subject, few_rule: str, root_rule: str) -> list[Facts]:
    """The operands with data. With a dynamic root the last one says who sends each."""
    operands = s.operands
    dynamic = s.flag("has_dynamic_root")
    least = 2 if dynamic else 1
    rule = root_rule if dynamic else few_rule
    s.need(len(operands) >= least, rule, "at least {} operands, found {}", least, len(operands))
    if not dynamic:
        return operands
    data, root = operands[:-1], operands[-1]
    fit = root.element == mlir.IntegerType(32) and root.shape == (len(data),)
    s.need(fit, root_rule, "the last operand is tensor<{}xi32>, found {}", len(data), root)
    return data


def collective_broadcast(s: Subject) -> None:
    held = s.attribute("replica_groups")
    if isinstance(held, mlir.DenseElements):
        s.need(len(sizes_of(held)) == 2, "replica_groups", "a table of rank 2, found {}", held.type)
        members = _distinct(s, "c1", held, "replica_groups")
        s.need(members.min(initial=0) >= 0, "c2", "devices are not negative, found {}", str(members[:16]))
    else:
        _groups(s, "c1", "c2")
    data = _root(s, "c3", "c4")
    s.need(len(s.results) == len(data), "c5", "{} results, found {}", len(data), len(s.results))
    rule = "c4" if s.flag("has_dynamic_root") else "c3"
    for i, operand in enumerate(data):
        s.follows(rule, operand.extents, operand.element, i)


def collective_reduce(s: Subject) -> None:
    _groups(s, "c1", "c2", even=False)
    _channel(s, "i4", 1)
    data = _root(s, "c3", "c3")
    _reduced(s, "c4", data)
    _same_shapes(s, data, "c3", "c4")


def collective_permute(s: Subject) -> None:
    _pairs(s)
    s.follows("c5", s.operands[0].extents, s.operands[0].element)


def _pairs(s: Subject) -> None:
    """Of sources and targets, each once."""
    held = s.attribute("source_target_pairs")
    if held is None:
        return
    shape = sizes_of(held)
    s.need(len(shape) == 2, "i2", "a table of rank 2, found {}", held.type)
    s.need(shape[1] == 2, "c1", "a table of the shape [N, 2], found {}", held.type)
    count = shape[0]
    s.need(count <= _MOST, "c1", "at most {} pairs, found {}", _MOST, count)
    pairs = table(held)
    s.need(pairs.min(initial=0) >= 0, "c4", "devices are not negative, found {}", pairs[:8].tolist())
    for rule, column, what in (("c2", 0, "sources"), ("c3", 1, "targets")):
        unique = len(np.unique(pairs[:, column])) == count
        s.need(unique, rule, "{} are unique, found {}", what, pairs[:8].tolist())


def send(s: Subject) -> None:
    _channel_type(s, 2)


def recv(s: Subject) -> None:
    _channel_type(s, 3)
    infeed(s)


def _channel_type(s: Subject, host: int) -> None:
    """Transfers between devices have type 1, to the host 2, from it 3."""
    found = s.attribute("channel_handle").fields["type"]
    wanted = host if s.flag("is_host_transfer") else 1
    s.need(found == wanted, "c5", "a channel of type {}, found {}", wanted, found)
    _pairs(s)


def infeed(s: Subject) -> None:
    """Tensors and a token after them."""
    rules = ("c1", "c2", "c3") if s.name == "infeed" else ("results",) * 3
    s.need(s.results, rules[0], "at least one result")
    for result in s.results[:-1]:
        s.need(result.is_tensor, rules[1], "all results but the last are tensors, found {}", result)
    is_token = isinstance(s.results[-1].type, mlir.TokenType)
    s.need(is_token, rules[2], "the last result is a token, found {}", s.results[-1])
    layouts = s.attribute("layout")
    if layouts is None:
        return
    fit = len(layouts) == len(s.results) - 1
    s.need(fit, "layout", "{} layouts, found {}", len(s.results) - 1, len(layouts))
    for layout in layouts:
        fit = isinstance(layout, tuple) and all(isinstance(i, mlir.IntegerAttr) for i in layout)
        s.need(fit, "layout", "a layout is a list of integers")


def device_id(s: Subject) -> None:
    s.follows("result_type", (), _UI32)


RULES: dict[str, Callable[[Subject], None]] = {
    **by_name(
        "", all_gather, all_to_all, all_reduce, send, recv, reduce_scatter, collective_broadcast, infeed,
        collective_reduce, collective_permute,
    ),
    "replica_id": device_id, "partition_id": device_id,
}  # fmt: skip
