"""Rules of operations that communicate."""

from __future__ import annotations

from typing import Any

import numpy as np

from axla.stablehlo import mlir
from axla.stablehlo.verify.attributes import sizes_of, table
from axla.stablehlo.verify.kinds import Facts, sizes_fit
from axla.stablehlo.verify.reducers import check_reducer
from axla.stablehlo.verify.subject import Subject

_MOST = 1 << 20  # devices in an attribute


def _groups(s: Subject, once: str, whole: str, *, even: bool = True, size: int = -1, sized: str = "") -> None:
    """Checks replica groups. `even`: groups have no gaps (-1); `size`: the required number of members, where
    known.
    """
    held: Any = s.attribute("replica_groups")
    if isinstance(held, mlir.StructAttr):
        mesh = held.fields["mesh"]
        if isinstance(mesh, mlir.SymbolRef):
            s.need(mesh.root in s.symbols, "replica_groups", "there is no mesh @{}", mesh.root)
        return
    members = _distinct(s, once, held)
    if s.flag("use_global_device_ids"):
        s.need(members.size, whole, "groups of global device ids are not empty")
    present = members[members != -1]
    s.need(not even or len(present) == members.size, whole, "no device is -1 in groups of one size")
    all_there = np.array_equal(np.sort(present), np.arange(len(present)))
    s.need(all_there, whole, "the devices are 0 to {}, found {}", len(present) - 1, str(members[:16]))
    groups, count = sizes_of(held)
    s.need(size < 0 or groups and count == size, sized, "groups of {}, found {}", size, held.type)


def _distinct(s: Subject, rule: str, held: mlir.DenseElements) -> np.ndarray:
    """Checks that each device occurs once in a table; -1 is padding."""
    shape = sizes_of(held)
    s.need(len(shape) == 2, "replica_groups", "a table of rank 2, found {}", held.type)
    message = "replica_groups with at most {} elements, found {}"
    s.need(shape[0] * shape[1] <= _MOST, rule, message, _MOST, shape[0] * shape[1])
    members = table(held).reshape(-1)
    present = members[members != -1]
    once = len(np.unique(present)) == len(present)
    s.need(once, rule, "replica_groups has each device once, found {}", str(members[:16]))
    return members


def _channel(s: Subject, rule: str, least: int) -> None:
    handle = s.attribute("channel_handle")
    channel = handle.fields["handle"] if handle is not None else 0
    fit = not s.flag("use_global_device_ids") or channel >= least
    s.need(fit, rule, "a channel of at least {} with global device ids, found {}", least, channel)


def _one_dimension(s: Subject, rule: str, at: int, operand: Facts, result: Facts) -> None:
    others = [facts.sizes[:at] + facts.sizes[at + 1 :] for facts in (operand, result)]
    fit = operand.rank == result.rank and sizes_fit(*others)
    s.need(fit, rule, "shapes differ in dimension {} only, found {} and {}", at, operand, result)


def all_gather(s: Subject) -> None:
    """The result grows along one dimension by the size of a group."""
    _groups(s, "c2", "c4")
    _channel(s, "c5", 0)
    at = s.known("all_gather_dim")
    for operand, result in zip(s.operands, s.results, strict=True):
        _one_dimension(s, "c6", at, operand, result)


def all_to_all(s: Subject) -> None:
    """The split dimension shrinks, and the concatenated one grows, by `split_count`."""
    count = s.known("split_count")
    _groups(s, "c5", "c7", size=count, sized="c8")
    split, concat = s.known("split_dimension"), s.known("concat_dimension")
    for i, operand in enumerate(s.operands):
        new = list(operand.dims)
        first = new[split]
        new[split] = None if first is None else first // count
        second = new[concat]
        new[concat] = None if second is None else second * count
        s.follows("c9", tuple(new), operand.element, i)


def _reduced(s: Subject, rule: str, operands: list[Facts]) -> None:
    """The computation takes scalars for each operand."""
    for operand in operands:
        check_reducer(s, rule, 0, [operand], [operand], scalars=True)


def _follow(s: Subject, rules: str, operands: list[Facts]) -> None:
    """Results have the sizes of the operands, and the element type returned by the computation."""
    for i, operand in enumerate(operands):
        s.follows(rules, operand.extents, s.returned(0)[0].element, i)


def all_reduce(s: Subject) -> None:
    """Results have the shapes of the operands; the reducer takes two scalars."""
    _groups(s, "c1", "c3", even=False)
    _channel(s, "c4", 1)
    _reduced(s, "c5", s.operands)
    _follow(s, "c6 c7", s.operands)


def reduce_scatter(s: Subject) -> None:
    """The result shrinks along one dimension by the size of a group."""
    _groups(s, "c3", "c5")
    _reduced(s, "c7", s.operands)
    _channel(s, "c6", 1)
    _one_dimension(s, "c8", s.known("scatter_dimension"), s.operand, s.result)
    returned = s.returned(0)[0].element
    s.need(s.result.element == returned, "c9", "elements {}, found {}", returned, s.result)


def _data(s: Subject, few_rule: str, root_rule: str, count_rule: str) -> list[Facts]:
    """The operands with data, one for each result. With a dynamic root, the last operand gives the
    senders.
    """
    operands = s.operands
    dynamic = s.flag("has_dynamic_root")
    rule, least = (root_rule, 2) if dynamic else (few_rule, 1)
    s.need(len(operands) >= least, rule, "at least {} operands, found {}", least, len(operands))
    if dynamic:
        *operands, root = operands
        fit = root.element == mlir.IntegerType(32) and root.shape == (len(operands),)
        s.need(fit, root_rule, "the last operand is tensor<{}xi32>, found {}", len(operands), root)
    count = len(operands)
    s.need(len(s.results) == count, count_rule, "{} results, found {}", count, len(s.results))
    return operands


def collective_broadcast(s: Subject) -> None:
    """Results have the types of the operands; group members are distinct and not negative."""
    held = s.attribute("replica_groups")
    if isinstance(held, mlir.DenseElements):
        members = _distinct(s, "c1", held)
        s.need(members.min(initial=0) >= 0, "c2", "devices are not negative, found {}", str(members[:16]))
    else:
        _groups(s, "c1", "c2")
    rule = "c4" if s.flag("has_dynamic_root") else "c3"
    for i, operand in enumerate(_data(s, "c3", "c4", "c5")):
        s.follows(rule, operand.extents, operand.element, i)


def collective_reduce(s: Subject) -> None:
    """Results have the types of the operands; the reducer takes two scalars."""
    _groups(s, "c1", "c2", even=False)
    _channel(s, "i4", 1)
    data = _data(s, "c3", "c3", "c3")
    _reduced(s, "c4", data)
    _follow(s, "c3 c4", data)


def collective_permute(s: Subject) -> None:
    """Each source and each target occurs once in the pairs, also in those of send and recv."""
    held = s.attribute("source_target_pairs")
    if held is None:
        return
    shape = sizes_of(held)
    s.need(len(shape) == 2, "i2", "a table of rank 2, found {}", held.type)
    s.need(shape[1] == 2, "c1", "a table of the shape [N, 2], found {}", held.type)
    s.need(shape[0] <= _MOST, "c1", "at most {} pairs, found {}", _MOST, shape[0])
    pairs = table(held)
    s.need(pairs.min(initial=0) >= 0, "c4", "devices are not negative, found {}", pairs[:8].tolist())
    for rule, column, what in (("c2", 0, "sources"), ("c3", 1, "targets")):
        unique = len(np.unique(pairs[:, column])) == shape[0]
        s.need(unique, rule, "{} are unique, found {}", what, pairs[:8].tolist())


def send(s: Subject) -> None:
    """Transfers between devices have type 1, those to the host 2, those from it 3."""
    host = 2 if s.name == "send" else 3
    found = s.attribute("channel_handle").fields["type"]
    wanted = host if s.flag("is_host_transfer") else 1
    s.need(found == wanted, "c5", "a channel of type {}, found {}", wanted, found)
    collective_permute(s)
    if s.name == "recv":
        _received(s, "results", "results")


def infeed(s: Subject) -> None:
    """Results end in a token; each of the others may have a layout."""
    _received(s, "c2", "c3")
    layouts = s.attribute("layout")
    if layouts is None:
        return
    fit = len(layouts) == len(s.results) - 1
    s.need(fit, "layout", "{} layouts, found {}", len(s.results) - 1, len(layouts))
    for layout in layouts:
        fit = isinstance(layout, tuple) and all(isinstance(i, mlir.IntegerAttr) for i in layout)
        s.need(fit, "layout", "a layout is a list of integers")


def _received(s: Subject, tensors: str, token: str) -> None:
    """Checks that results are tensors followed by a token; `tensors` and `token` are the labels of the
    rules.
    """
    *received, last = s.results
    for result in received:
        s.need(result.is_tensor, tensors, "all results but the last are tensors, found {}", result)
    is_token = isinstance(last.type, mlir.TokenType)
    s.need(is_token, token, "the last result is a token, found {}", last)


recv = send
