"""Einsum: sums of products by an equation of labels, "abc,acd->abd"; "..." means any number of dimensions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.ops.common import summed
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall

RECORDS = """
Einsum: inputs:N*T equation=string N=int>=1 -> output:T
XlaEinsum: a:T b:T equation=string -> product:T
"""
_DOTS = "..."
Labels = list[str]
"""A label for each dimension: a letter, or "...0" for the last dimension of "...", "...1" for the one before
it.
"""
LabeledOperand = tuple[XlaOp, Labels]


@lowering("Einsum", "XlaEinsum")
def _einsum(call: OpCall, *given: Any) -> XlaOp:
    values = given[0] if call.node.op == "Einsum" else given
    *inputs, result = _texts(call, len(values))
    wide, operands = 0, []
    for text, value in zip(inputs, values, strict=True):
        count = len(value.dims) - len(text.replace(_DOTS, ""))
        if count < 0 or (count and _DOTS not in text):
            call.fail(f"'{text}' does not fit an operand of shape {list(value.dims)}")
        wide = max(wide, count)
        operands.append(_unrepeated(call, value, _labels(text, count)))
    labels = _labels(result, wide)
    _check(call, operands, labels)
    if wide and _DOTS not in result:
        call.fail(f"the result '{result}' has no '...', but operands have {wide} dimensions for it")
    unique = list(dict.fromkeys(labels))
    if len(operands) == 2:
        left, right = operands
        value, found = _product(left, right, unique)
    else:
        value, found = _summed(operands[0][0], operands[0][1], unique)
    return _repeated(ops.Transpose(value, [found.index(label) for label in unique]), unique, labels)


def _texts(call: OpCall, count: int) -> list[str]:
    """The subscripts of the operands, then those of the result."""
    equation = call["equation"]
    left, arrow, result = equation.partition("->")
    inputs = left.split(",")
    if not arrow or "->" in result or "," in result:
        call.fail(f"the equation '{equation}' is not of the form 'inputs->result'")
    if len(inputs) != count or count > 2:
        call.fail(f"'{equation}' has {len(inputs)} operands, found {count}; 1 or 2 are allowed")
    for text in (*inputs, result):
        letters = text.replace(_DOTS, "", 1)
        if letters and not (letters.isalpha() and letters.isascii()):
            call.fail(f"the equation '{equation}' has labels that are not letters: '{text}'")
    return [*inputs, result]


def _labels(text: str, count: int) -> Labels:
    """The labels of the subscripts of an operand, in which "..." has `count` dimensions."""
    before, dots, after = text.partition(_DOTS)
    return [*before, *(f"{_DOTS}{n}" for n in reversed(range(count if dots else 0))), *after]


def _unrepeated(call: OpCall, value: XlaOp, labels: Labels) -> LabeledOperand:
    """An operand in which each label occurs once: the diagonal over dimensions with the same label."""
    for label in [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        places = [d for d, found in enumerate(labels) if found == label]
        rest = [d for d, found in enumerate(labels) if found != label]
        sizes = {value.dims[d] for d in places}
        if len(sizes) > 1:
            call.fail(f"'{label}' labels dimensions of sizes {sorted(sizes)} of one operand")
        flat = ops.Collapse(ops.Transpose(value, rest + places), range(len(rest), len(labels)))
        step = _step(max(sizes), len(places))
        value = ops.SliceInDim(flat, 0, flat.dims[-1], step, len(rest))
        labels = [*(labels[d] for d in rest), label]
    return value, labels


def _step(size: int, count: int) -> int:
    """The distance between neighbouring elements of the diagonal of an array with `count` dimensions of size
    `size`, when the array is flattened.
    """
    return sum(size**n for n in range(count))


def _check(call: OpCall, operands: Sequence[LabeledOperand], result: Labels) -> None:
    sizes: dict[str, int] = {}
    for value, labels in operands:
        for label, size in zip(labels, value.dims, strict=True):
            other = sizes.setdefault(label, size)
            if other != size and not (label.startswith(_DOTS) and 1 in (other, size)):
                call.fail(f"'{label}' labels dimensions of sizes {other} and {size}")
    for label in result:
        if label not in sizes:
            call.fail(f"the result has the label '{label}', which no operand has")


def _summed(value: XlaOp, labels: Labels, kept: Collection[str]) -> LabeledOperand:
    """An operand summed over the labels that are not kept."""
    places = [d for d, label in enumerate(labels) if label not in kept]
    return summed(value, places) if places else value, [label for label in labels if label in kept]


def _product(left: LabeledOperand, right: LabeledOperand, result: Sequence[str]) -> LabeledOperand:
    """The product of two operands, summed over the labels that are not in the result."""
    left, right = _squeezed(*left, right), _squeezed(*right, left)
    a, first = _summed(*left, {*right[1], *result})
    b, second = _summed(*right, {*first, *result})
    common = [label for label in first if label in second]
    batch = [label for label in common if label in result]
    inner = [label for label in common if label not in result]
    numbers = [[[labels.index(x) for x in kind] for labels in (first, second)] for kind in (inner, batch)]
    value = ops.DotGeneral(a, b, numbers, None, a.dtype)
    return value, [*batch, *(x for x in first if x not in common), *(x for x in second if x not in common)]


def _squeezed(value: XlaOp, labels: Labels, other: LabeledOperand) -> LabeledOperand:
    """Removes dimensions of size 1 from an operand, if the other operand has a larger size for the same
    label: they are then broadcast.
    """
    sizes = dict(zip(other[1], other[0].dims, strict=True))
    kept = [d for d, label in enumerate(labels) if value.dims[d] != 1 or sizes.get(label, 1) == 1]
    return ops.Reshape(value, [value.dims[d] for d in kept]), [labels[d] for d in kept]


def _repeated(value: XlaOp, unique: Sequence[str], labels: Labels) -> XlaOp:
    """The result with repeated labels: `value` on the diagonal of dimensions with the same label, zero
    elsewhere.
    """
    gaps = [_step(size, labels.count(x)) - 1 for x, size in zip(unique, value.dims, strict=True)]
    found = ops.Pad(value, 0, [(0, 0, gap) for gap in gaps])
    places = [label for label in unique for _ in range(labels.count(label))]
    wide = ops.Reshape(found, [value.dims[unique.index(label)] for label in places])
    order = []
    for label in labels:
        order.append(places.index(label))
        places[order[-1]] = ""
    return ops.Transpose(wide, order)
