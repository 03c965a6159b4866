"""Einsum: sums of products by an equation of labels, "abc,acd->abd"; "..." stands for leading dimensions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.shape import Shape
from axla.tensorflow.ops.common import summed
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import Call

RECORDS = """
Einsum: inputs:N*T equation=string N=int>=1 T=type -> output:T
XlaEinsum: a:T b:T equation=string T=type -> product:T
"""
_DOTS = "..."
Labels = list[str]
"""A label for each dimension: a letter, or "...0" for the last dimension that "..." stands for."""


@lowering("Einsum")
def _einsum(call: Call, values: list[XlaOp]) -> XlaOp:
    inputs, result = _parsed(call, len(values))
    wide = max(_dotted(call, text, value) for text, value in zip(inputs, values, strict=True))
    operands = []
    for text, value in zip(inputs, values, strict=True):
        operands.append(_unrepeated(call, value, _expanded(text, _dotted(call, text, value))))
    labels = _expanded(result, wide)
    _check_sizes(call, operands, labels)
    _check_output(call, operands, result, wide, labels)
    unique = list(dict.fromkeys(labels))
    if len(operands) == 2:
        value, found = _product(operands[0], operands[1], unique)
    else:
        value, found = _summed(operands[0][0], operands[0][1], unique)
    value = ops.Transpose(value, [found.index(label) for label in unique])
    return _repeated(value, unique, labels)


@lowering("XlaEinsum")
def _xla_einsum(call: Call, a: XlaOp, b: XlaOp) -> XlaOp:
    return _einsum(call, [a, b])


def _parsed(call: Call, count: int) -> tuple[list[str], str]:
    """The texts of the operands and of the result."""
    equation = call["equation"]
    left, arrow, result = equation.partition("->")
    inputs = left.split(",")
    if not arrow or "->" in result or "," in result:
        call.fail(f"the equation '{equation}' is not of the form 'inputs->result'")
    if len(inputs) != count or count > 2:
        call.fail(
            f"the equation '{equation}' has {len(inputs)} operands, there are {count}; 1 or 2 are allowed"
        )
    for text in (*inputs, result):
        letters = text.replace(_DOTS, "", 1)
        if letters and not (letters.isalpha() and letters.isascii()):
            call.fail(f"the equation '{equation}' has labels that are no letters: '{text}'")
    return inputs, result


def _dotted(call: Call, text: str, value: XlaOp) -> int:
    """How many dimensions of an operand "..." stands for."""
    letters = len(text.replace(_DOTS, ""))
    rank = len(value.dims)
    if rank < letters or (rank > letters and _DOTS not in text):
        call.fail(f"'{text}' stands for an operand of shape {list(value.dims)}")
    return rank - letters


def _expanded(text: str, count: int) -> Labels:
    """The labels of a text whose "..." stands for so many dimensions."""
    before, dots, after = text.partition(_DOTS)
    return [*before, *(f"{_DOTS}{n}" for n in reversed(range(count if dots else 0))), *after]


def _unrepeated(call: Call, value: XlaOp, labels: Labels) -> tuple[XlaOp, Labels]:
    """An operand with each label once: of dimensions with the same label, the diagonal."""
    for label in dict.fromkeys(labels):
        places = [d for d, found in enumerate(labels) if found == label]
        if len(places) == 1:
            continue
        sizes = {value.dims[d] for d in places}
        if len(sizes) > 1:
            call.fail(f"'{label}' stands for dimensions of sizes {sorted(sizes)} of one operand")
        rest = [d for d in range(len(labels)) if d not in places]
        size = sizes.pop()
        kept = [value.dims[d] for d in rest]
        flat = ops.Collapse(ops.Transpose(value, rest + places), range(len(rest), len(labels)))
        step = sum(size**n for n in range(len(places)))
        if size:
            flat = ops.Slice(flat, [0] * len(flat.dims), flat.dims, [1] * len(rest) + [step])
        value, labels = ops.Reshape(flat, [*kept, size]), [*(labels[d] for d in rest), label]
    return value, labels


def _check_sizes(call: Call, operands: Sequence[tuple[XlaOp, Labels]], result: Labels) -> None:
    sizes: dict[str, int] = {}
    for value, labels in operands:
        for label, size in zip(labels, value.dims, strict=True):
            other = sizes.setdefault(label, size)
            if other != size and not (label.startswith(_DOTS) and 1 in (other, size)):
                call.fail(f"'{label}' stands for dimensions of sizes {other} and {size}")


def _check_output(
    call: Call, operands: Sequence[tuple[XlaOp, Labels]], result: str, wide: int, labels: Labels
) -> None:
    if wide and _DOTS not in result:
        call.fail(f"the result '{result}' has no '...', which stands for {wide} dimensions of the operands")
    known = {label for _, found in operands for label in found}
    for label in labels:
        if label not in known:
            call.fail(f"the result has the label '{label}', which no operand has")


def _summed(value: XlaOp, labels: Labels, kept: Collection[str]) -> tuple[XlaOp, Labels]:
    """An operand without the labels that are not kept: it is summed over them."""
    places = [d for d, label in enumerate(labels) if label not in kept]
    if not places:
        return value, labels
    return summed(value, places), [label for label in labels if label in kept]


def _product(
    left: tuple[XlaOp, Labels], right: tuple[XlaOp, Labels], result: Sequence[str]
) -> tuple[XlaOp, Labels]:
    """The product of two operands, summed over the labels that are not in the result."""
    left, right = _squeezed(*left, right), _squeezed(*right, left)
    a, first = _summed(*left, {*right[1], *result})
    b, second = _summed(*right, {*first, *result})
    common = [label for label in first if label in second]
    batch = [label for label in common if label in result]
    summed = [label for label in common if label not in result]
    numbers = [[labels.index(x) for x in kind] for kind in (summed, batch) for labels in (first, second)]
    value = ops.DotGeneral(a, b, ((numbers[0], numbers[1]), (numbers[2], numbers[3])), None, a.dtype)
    return value, [*batch, *(x for x in first if x not in common), *(x for x in second if x not in common)]


def _squeezed(value: XlaOp, labels: Labels, other: tuple[XlaOp, Labels]) -> tuple[XlaOp, Labels]:
    """An operand without the dimensions of size 1 that are broadcast to those of the other one."""
    sizes = dict(zip(other[1], other[0].dims, strict=True))
    kept = [
        d
        for d, label in enumerate(labels)
        if sizes.get(label, value.dims[d]) == value.dims[d] or value.dims[d] != 1
    ]
    return ops.Reshape(value, [value.dims[d] for d in kept]), [labels[d] for d in kept]


def _repeated(value: XlaOp, unique: Sequence[str], labels: Labels) -> XlaOp:
    """The result for labels that may stand several times: zero where their indices differ."""
    if len(unique) == len(labels):
        return value
    dims = [value.dims[unique.index(label)] for label in labels]
    first = [labels.index(label) for label in unique]
    wide = ops.BroadcastInDim(value, dims, first)
    shape = Shape(value.builder.constant(np.int32(0)).dtype, tuple(dims))
    equal = value.builder.constant(np.ones(dims, bool))
    for d, label in enumerate(labels):
        if labels.index(label) != d:
            same = ops.Eq(
                ops.Iota(value.builder, shape, d), ops.Iota(value.builder, shape, labels.index(label))
            )
            equal = ops.And(equal, same)
    return ops.Select(equal, wide, ops.ZerosLike(wide))
