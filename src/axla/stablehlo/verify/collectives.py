"""Rules for collectives and transfers."""

from __future__ import annotations

from typing import Any

import numpy as np

from axla.stablehlo import mlir
from axla.stablehlo.verify.attributes import sizes_of, table
from axla.stablehlo.verify.kinds import Facts, sizes_fit
from axla.stablehlo.verify.reducers import check_reducer
from axla.stablehlo.verify.subject import Subject

_MOST = 1 << 20  # the most devices in an attribute


def _groups(s: Subject, once: str, whole: str, *, even: bool = True, size: int = -1, sized: str = "") -> None:
    """Checks replica groups. If `even`, groups have no gaps (-1). `size` is the required number of members,
    -1 for any. Labels of rules: `once`, no device occurs twice; `whole`, the groups have all devices, and no
    gaps if `even`; `sized`, they have `size` members.
    """
    held: Any = s.attribute("replica_groups")
    if isinstance(held, mlir.StructAttr):
        mesh = held.fields["mesh"]
        if isinstance(mesh, mlir.SymbolRef):
            s.need(mesh.root in s.symbols, "replica_groups", "there is no mesh @{}", mesh.root)
        return
    members = _distinct(s, once, held)
    if s.flag("use_global_device_ids"):
        s.need(members.size, whole, "groups of global device ids must not be empty")
    present = members[members != -1]
    s.need(not even or len(present) == members.size, whole, "groups must have one size, without devices -1")
    all_there = np.array_equal(np.sort(present), np.arange(len(present)))
    s.need(all_there, whole, "the devices must be 0 to {}, found {}", len(present) - 1, str(members[:16]))
    groups, count = sizes_of(held)
    s.need(size < 0 or groups and count == size, sized, "groups must be of {}, found {}", size, held.type)


def _distinct(s: Subject, rule: str, held: mlir.DenseElements) -> np.ndarray:
    """Checks that each device occurs once in a table, except -1, which is padding; returns the devices."""
    shape = sizes_of(held)
    s.need(len(shape) == 2, "replica_groups", "the table must have rank 2, found {}", held.type)
    message = "replica_groups must have at most {} elements, found {}"
    s.need(shape[0] * shape[1] <= _MOST, rule, message, _MOST, shape[0] * shape[1])
    members = table(held).reshape(-1)
    present = members[members != -1]
    once = len(np.unique(present)) == len(present)
    s.need(once, rule, "replica_groups must have each device once, found {}", str(members[:16]))
    return members


def _channel(s: Subject, rule: str, least: int) -> None:
    handle = s.attribute("channel_handle")
    channel = handle.fields["handle"] if handle is not None else 0
    fit = not s.flag("use_global_device_ids") or channel >= least
    s.need(fit, rule, "global device ids need a channel of at least {}, found {}", least, channel)


def _one_dimension(s: Subject, rule: str, at: int, operand: Facts, result: Facts) -> None:
    others = [facts.sizes[:at] + facts.sizes[at + 1 :] for facts in (operand, result)]
    fit = operand.rank == result.rank and sizes_fit(*others)
    s.need(fit, rule, "shapes may differ in dimension {} only, found {} and {}", at, operand, result)


def all_gather(s: Subject) -> None:
    """Checks groups and channel, and that each result differs from its operand only along the gathered
    dimension.
    """
    _groups(s, "c2", "c4")
    _channel(s, "c5", 0)
    at = s.known("all_gather_dim")
    for operand, result in zip(s.operands, s.results, strict=True):
        _one_dimension(s, "c6", at, operand, result)


def all_to_all(s: Subject) -> None:
    """Checks the groups, and that the split dimension of a result is `split_count` times smaller and its
    concatenated dimension as many times larger.
    """
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
    """Checks that the computation takes scalars of each operand's elements."""
    for operand in operands:
        check_reducer(s, rule, 0, [operand], [operand], scalars=True)


def _follow(s: Subject, rules: str, operands: list[Facts]) -> None:
    """Checks that results have the sizes of the operands, and the element type that the computation
    returns.
    """
    for i, operand in enumerate(operands):
        s.follows(rules, operand.extents, s.returned(0)[0].element, i)


def all_reduce(s: Subject) -> None:
    """Checks groups and channel, that results have the shapes of the operands, and that the reducer takes two
    scalars.
    """
    _groups(s, "c1", "c3", even=False)
    _channel(s, "c4", 1)
    _reduced(s, "c5", s.operands)
    _follow(s, "c6 c7", s.operands)


def reduce_scatter(s: Subject) -> None:
    """Checks groups, channel and reducer, and that the result differs from the operand only along the
    scattered dimension.
    """
    _groups(s, "c3", "c5")
    _reduced(s, "c7", s.operands)
    _channel(s, "c6", 1)
    _one_dimension(s, "c8", s.known("scatter_dimension"), s.operand, s.result)
    returned = s.returned(0)[0].element
    s.need(s.result.element == returned, "c9", "elements must be {}, found {}", returned, s.result)


def _data(s: Subject, few_rule: str, root_rule: str, count_rule: str) -> list[Facts]:
    """Returns the operands with data, one for each result. With a dynamic root, the last operand has the
    senders and is not returned. Labels of rules: `few_rule`, there is an operand; `root_rule`, with a dynamic
    root, there are two and the last one has the right type; `count_rule`, there are as many results as
    operands.
    """
    operands = s.operands
    dynamic = s.flag("has_dynamic_root")
    rule, least = (root_rule, 2) if dynamic else (few_rule, 1)
    s.need(len(operands) >= least, rule, "at least {} operands are wanted, found {}", least, len(operands))
    if dynamic:
        *operands, root = operands
        fit = root.element == mlir.IntegerType(32) and root.shape == (len(operands),)
        s.need(fit, root_rule, "the last operand must be tensor<{}xi32>, found {}", len(operands), root)
    count = len(operands)
    s.need(len(s.results) == count, count_rule, "{} results are wanted, found {}", count, len(s.results))
    return operands


def collective_broadcast(s: Subject) -> None:
    """Checks that results have the types of the operands, and that group members are distinct and not
    negative.
    """
    held = s.attribute("replica_groups")
    if isinstance(held, mlir.DenseElements):
        members = _distinct(s, "c1", held)
        s.need(members.min(initial=0) >= 0, "c2", "devices must not be negative, found {}", str(members[:16]))
    else:
        _groups(s, "c1", "c2")
    rule = "c4" if s.flag("has_dynamic_root") else "c3"
    for i, operand in enumerate(_data(s, "c3", "c4", "c5")):
        s.follows(rule, operand.extents, operand.element, i)


def collective_reduce(s: Subject) -> None:
    """Checks groups and channel, that results have the types of the operands, and that the reducer takes two
    scalars.
    """
    _groups(s, "c1", "c2", even=False)
    _channel(s, "i4", 1)
    data = _data(s, "c3", "c3", "c3")
    _reduced(s, "c4", data)
    _follow(s, "c3 c4", data)


def collective_permute(s: Subject) -> None:
    """Checks that each source and each target occurs once in the pairs; also for send and recv."""
    held = s.attribute("source_target_pairs")
    if held is None:
        return
    shape = sizes_of(held)
    s.need(len(shape) == 2, "i2", "the table must have rank 2, found {}", held.type)
    s.need(shape[1] == 2, "c1", "the table must have the shape [N, 2], found {}", held.type)
    s.need(shape[0] <= _MOST, "c1", "at most {} pairs are allowed, found {}", _MOST, shape[0])
    pairs = table(held)
    s.need(pairs.min(initial=0) >= 0, "c4", "devices must not be negative, found {}", pairs[:8].tolist())
    for rule, column, what in (("c2", 0, "sources"), ("c3", 1, "targets")):
        unique = len(np.unique(pairs[:, column])) == shape[0]
        s.need(unique, rule, "{} must be unique, found {}", what, pairs[:8].tolist())


def send(s: Subject) -> None:
    """Checks the type of a channel: 1 for transfers between devices, 2 for those to the host, 3 for those
    from it.
    """
    host = 2 if s.name == "send" else 3
    found = s.attribute("channel_handle").fields["type"]
    wanted = host if s.flag("is_host_transfer") else 1
    s.need(found == wanted, "c5", "the channel must have the type {}, found {}", wanted, found)
    collective_permute(s)
    if s.name == "recv":
        _received(s, "results", "results")


def infeed(s: Subject) -> None:
    """Checks that the last result is a token, and that each other result has a layout if the operation has
    layouts.
    """
    _received(s, "c2", "c3")
    layouts = s.attribute("layout")
    if layouts is None:
        return
    fit = len(layouts) == len(s.results) - 1
    s.need(fit, "layout", "{} layouts are wanted, found {}", len(s.results) - 1, len(layouts))
    for layout in layouts:
        fit = isinstance(layout, tuple) and all(isinstance(i, mlir.IntegerAttr) for i in layout)
        s.need(fit, "layout", "a layout must be a list of integers")


def _received(s: Subject, tensors: str, token: str) -> None:
    """Checks that results are tensors followed by a token; `tensors` and `token` are the labels of the
    rules.
    """
    *received, last = s.results
    for result in received:
        s.need(result.is_tensor, tensors, "all results but the last must be tensors, found {}", result)
    is_token = isinstance(last.type, mlir.TokenType)
    s.need(is_token, token, "the last result must be a token, found {}", last)


recv = send
