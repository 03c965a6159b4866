"""Checks an operation against its record: operands, results, attributes, regions, and agreement of types."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from axla.importers.records import Record, ValueRecord
from axla.stablehlo import mlir
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.text.printer import attribute_text
from axla.stablehlo.verify.attributes import WITHIN, kind_of_attribute
from axla.stablehlo.verify.kinds import Facts, difference, elements_fit, kind, narrowest, sizes_fit, types_fit
from axla.stablehlo.verify.relations import CheckRule, relation
from axla.stablehlo.verify.subject import Subject


def check_declared(subject: Subject, declaration: Record) -> None:
    """Checks operands, results and attributes against the record of the operation."""
    subject.declared = _values(subject, "operand", subject.operands, declaration.operands)
    _values(subject, "result", subject.results, declaration.results)
    for wanted in declaration.attributes:
        value = subject.operation.attributes.get(wanted.name)
        if value is None:
            subject.need(wanted.optional, wanted.rule, "the attribute {} is missing", wanted.name)
            continue
        test, text = kind_of_attribute(wanted.kind)
        if not test(value):
            found = attribute_text(value)
            subject.fail(wanted.rule, "the attribute {} must be {}, found {}", wanted.name, text, found[:200])
        if type(value) is mlir.StructAttr and value.mnemonic in WITHIN:
            WITHIN[value.mnemonic](value)
    if subject.operation.regions or declaration.regions != ():
        _regions(subject, declaration)
    for rule, label in rules_of(declaration.name):
        rule(subject, label)


def _values(
    subject: Subject, what: str, found: list[Facts], wanted: Sequence[ValueRecord]
) -> Sequence[ValueRecord]:
    """Checks the types of operands or results against their declarations; returns the declaration of each
    value. `what` is "operand" or "result".
    """
    segments = f"{what}SegmentSizes" in subject.operation.attributes
    if len(wanted) != len(found) or segments and any([value.variadic for value in wanted]):
        wanted = _spread(subject, what, len(found), wanted)
    for facts, value in zip(found, wanted, strict=True):
        wanted_kind = kind(value.kind)
        if not wanted_kind.accepts(facts):
            why = f" ({facts.why})" if facts.why else ""
            at = f"{what} {value.name}" if what == "operand" else value.name
            subject.fail(value.rule, "{} must be {}, found {}{}", at, wanted_kind.text, facts, why)
    return wanted


def _spread(subject: Subject, what: str, count: int, wanted: Sequence[ValueRecord]) -> Sequence[ValueRecord]:
    """The declaration of each of `count` values, in order, from the declarations `wanted`. Variadic ones
    stand for equal numbers of values, or for the numbers in the operation's segment sizes. `what` is
    "operand" or "result".
    """
    variadic = [value for value in wanted if value.variadic]
    single = len(wanted) - len(variadic)
    if not variadic or count < single:
        least = "at least " if variadic else ""
        subject.fail(f"{what}s", "{}{} {}s are wanted, found {}", least, single, what, count)
    given = subject.attribute(f"{what}SegmentSizes")
    if isinstance(given, mlir.DenseArray) and len(given.values) == len(wanted):
        sizes = list(given.values)
        if sum(sizes) != count or min(sizes) < 0:
            subject.fail(f"{what}s", "{} {}s do not fill segments of the sizes {}", count, what, given.values)
    else:
        each, rest = divmod(count - single, len(variadic))
        if rest:
            names = " and ".join([value.name for value in variadic])
            subject.fail(f"{what}s", "equal numbers of {} are wanted, found {} {}s", names, count, what)
        sizes = [each if value.variadic else 1 for value in wanted]
    return [value for value, size in zip(wanted, sizes, strict=True) for _ in range(size)]


def _regions(subject: Subject, declaration: Record) -> None:
    """Checks the number of regions, and that each is one block that ends with a return."""
    regions = subject.operation.regions
    wanted = declaration.regions
    if wanted is not None and len(regions) != len(wanted):
        subject.fail("regions", "{} regions are wanted, found {}", len(wanted), len(regions))
    if not declaration.filled:
        return
    for number, region in enumerate(regions):
        if len(region.blocks) != 1:
            subject.fail("regions", "region {} must be one block, found {}", number, len(region.blocks))
        operations = region.blocks[0].operations
        if not operations or operations[-1].name != "stablehlo.return":
            subject.fail("regions", "region {} is expected to have a terminator, stablehlo.return", number)


# ---- Rules

Relation = Callable[[Subject, str, list[Facts] | None], None]
"""Checks values, by default all operands and results; the text is the label of the rule."""
Fit = Callable[[Facts, Facts], bool]


@cache
def rules_of(name: str) -> list[tuple[CheckRule, str]]:
    """The checks for the rules of an operation's record, with their labels."""
    record = OPERATIONS[name]
    return [(_rule(text, record), label) for text, label in record.rules]


def _rule(text: str, record: Record) -> CheckRule:
    """Makes the check for a rule: a word of WORDS, with the values that it concerns in parentheses, or a
    relation.
    """
    parts = re.fullmatch(r"(\w+)(?:\(([\w,]+)\))?", text)
    if parts is None or parts[1] not in WORDS:
        return relation(text, record)
    word, names = WORDS[parts[1]], parts[2] and parts[2].split(",")

    def said(s: Subject, label: str) -> None:
        word(s, label, [facts for name in names for facts in s.values(name)] if names else None)

    return said


def _following(fit: Fit, what: str) -> Relation:
    """Makes a check that operands and results fit each other. If there is a single result, its sizes are
    inferred: for each dimension the most precise size that an operand or the result has. `what` names in
    messages what must be equal.
    """

    def word(s: Subject, label: str, operands: list[Facts] | None) -> None:
        operands = s.operands if operands is None else operands
        first, *others = [*operands, *s.results]
        if all([other is first for other in others]):
            return
        found = first.extents
        for other in others:
            if not fit(first, other) or not sizes_fit(found, other.extents):
                where = difference(found, other.extents)
                s.fail(label, "all must have the same {}, found {} and {}{}", what, first, other, where)
            found = narrowest(found, other.extents)
        if len(s.results) == 1:
            s.follows(label, found)

    return word


def _agreeing(fit: Fit, what: str) -> Relation:
    """Makes a check that the test `fit` accepts each value together with the first one. `what` names in
    messages what all values must have.
    """

    def word(s: Subject, label: str, values: list[Facts] | None) -> None:
        values = [*s.operands, *s.results] if values is None else values
        for other in values[1:]:
            if not fit(values[0], other):
                s.fail(label, "all must have {}, found {} and {}", what, values[0], other)

    return word


def _paired(fit: Fit, what: str) -> Relation:
    """Makes a check that the test `fit` accepts each operand together with the result of the same number.
    `what` names in messages what both must have.
    """

    def word(s: Subject, label: str, values: list[Facts] | None) -> None:
        for operand, result in zip(s.operands, s.results, strict=True):
            message = "a result must have {} of its operand, found {} and {}"
            s.need(fit(operand, result), label, message, what, operand, result)

    return word


def _follow(s: Subject, label: str, values: list[Facts] | None) -> None:
    """Checks that each result has the type of its operand."""
    for i, facts in enumerate(s.operands if values is None else values):
        s.follows(label, facts.extents, facts.element, i)


def _by(part: str, fit: Callable[[Any, Any], bool]) -> Fit:
    """A test on the facts of two values: whether `fit` accepts the attribute `part` of both."""
    of = operator.attrgetter(part)
    return lambda a, b: fit(of(a), of(b))


def _shape_or_scalar(a: Facts, b: Facts) -> bool:
    return not b.rank or sizes_fit(a.shape, b.shape)


def _one_real(a: Facts, b: Facts) -> bool:
    return elements_fit(*[getattr(facts.element, "element", facts.element) for facts in (a, b)])


def _one_expressed(a: Facts, b: Facts) -> bool:
    return getattr(a.element, "expressed", a.element) == getattr(b.element, "expressed", b.element)


def _one_scale(a: Facts, b: Facts) -> bool:
    """Whether type `b` agrees with `a` in scale and zero point. It must be equal to `a` if `a` is quantized
    per tensor; otherwise there is no condition.
    """
    return not a.quantized or bool(a.axes) or a.element == b.element


def _one_scales(a: Facts, b: Facts) -> bool:
    """Whether two types have the same scales and zero points: of types quantized per axis, the axis may
    differ.
    """
    if a.axes and b.axes:
        return (a.element.scales, a.element.zero_points) == (b.element.scales, b.element.zero_points)
    return _one_scale(a, b)


WORDS: dict[str, Relation] = {
    "shape": _following(_by("shape", sizes_fit), "shape"),
    "same": _following(types_fit, "type"),
    "follow": _follow,
    "pairs": _paired(_by("type", operator.eq), "the type"),
    "pair_elements": _paired(_by("element", operator.eq), "the element type"),
    "types": _agreeing(_by("type", operator.eq), "the same type"),
    "shapes": _agreeing(_by("shape", sizes_fit), "the same shape"),
    "scalar_or": _agreeing(_shape_or_scalar, "the same shape or none"),
    "elements": _agreeing(_by("element", elements_fit), "the same element type"),
    "alike": _agreeing(_by("element", operator.eq), "the same element type"),
    "real": _agreeing(_one_real, "one type of real numbers"),
    "expressed": _agreeing(_one_expressed, "one expressed type"),
    "scale": _agreeing(_one_scale, "one scale and zero point"),
    "scales": _agreeing(_one_scales, "the same scales and zero points"),
}
