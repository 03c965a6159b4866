"""What a declaration says: operands, results, attributes, regions and types that agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from axla.foreign.records import Record, Value
from axla.stablehlo import mlir
from axla.stablehlo.text.printer import attribute_text
from axla.stablehlo.verify.attributes import WITHIN, kind_of_attribute
from axla.stablehlo.verify.elementwise import follow_operands
from axla.stablehlo.verify.kinds import Facts, difference, elements_fit, kind, sizes_fit, types_fit
from axla.stablehlo.verify.subject import Subject


def check_declared(subject: Subject, declaration: Record) -> None:
    operation = subject.operation
    _values(subject, "operand", subject.operands, declaration.operands)
    _values(subject, "result", subject.results, declaration.results)
    given = operation.attributes
    for wanted in declaration.attributes:
        value = given.get(wanted.name)
        if value is None:
            subject.need(wanted.optional, wanted.rule, "the attribute {} is missing", wanted.name)
            continue
        test, text = kind_of_attribute(wanted.kind)
        if not test(value):
            found = attribute_text(value)
            subject.fail(wanted.rule, "the attribute {} is {}, found {}", wanted.name, text, found[:200])
        if type(value) is mlir.StructAttr and value.mnemonic in WITHIN:
            WITHIN[value.mnemonic](value)
    if operation.regions or declaration.regions != ():
        _regions(subject, declaration)
    for rule, label in declaration.agreement:
        AGREEMENTS[rule](subject, label)


def _values(subject: Subject, what: str, found: list[Facts], wanted: Sequence[Value]) -> None:
    if len(wanted) != len(found) or any([value.variadic for value in wanted]):
        wanted = _spread(subject, what, len(found), wanted)
    for facts, value in zip(found, wanted, strict=True):
        wanted_kind = kind(value.kind)
        if not wanted_kind.accepts(facts):
            why = f" ({facts.why})" if facts.why else ""
            at = f"{what} {value.name}" if what == "operand" else value.name
            subject.fail(value.rule, "{} is {}, found {}{}", at, wanted_kind.text, facts, why)


def _spread(subject: Subject, what: str, count: int, wanted: Sequence[Value]) -> Sequence[Value]:
    """The declaration of each value; variadic ones all have the same number, or what the operation says."""
    variadic = [value for value in wanted if value.variadic]
    single = len(wanted) - len(variadic)
    if not variadic or count < single:
        least = "at least " if variadic else ""
        subject.fail(f"{what}s", "{}{} {}s are wanted, found {}", least, single, what, count)
    given = subject.attribute(f"{what}SegmentSizes")
    if isinstance(given, mlir.DenseArray) and len(given.values) == len(wanted):
        sizes = list(given.values)
        if sum(sizes) != count or min(sizes) < 0:
            subject.fail(f"{what}s", "{} {}s in segments {}", count, what, given.values)
    else:
        each, rest = divmod(count - single, len(variadic))
        if rest:
            names = " and ".join([value.name for value in variadic])
            subject.fail(f"{what}s", "as many {} are wanted, found {} {}s", names, count, what)
        sizes = [each if value.variadic else 1 for value in wanted]
    return [value for value, size in zip(wanted, sizes, strict=True) for _ in range(size)]


def _regions(subject: Subject, declaration: Record) -> None:
    """As many as declared, each one block that ends with a return and has none before."""
    regions = subject.operation.regions
    wanted = declaration.regions
    if wanted is not None and len(regions) != len(wanted):
        subject.fail("regions", "{} regions are wanted, found {}", len(wanted), len(regions))
    if not declaration.filled:
        return
    for number, region in enumerate(regions):
        if len(region.blocks) != 1:
            subject.fail("regions", "region {} is one block, found {}", number, len(region.blocks))
        operations = region.blocks[0].operations
        if not operations or operations[-1].name != "stablehlo.return":
            subject.fail("regions", "region {} is expected to have a terminator, stablehlo.return", number)


# ---- Types that agree


def _same_shape(subject: Subject, label: str) -> None:
    """Operands and results have compatible shapes, a single result that which follows from all operands."""
    values = [*subject.operands, *subject.results]
    first = values[0]
    if all([value is first for value in values]):
        return
    for other in values:
        if other is not first and not sizes_fit(first.shape, other.shape):
            where = difference(first.shape, other.shape)
            subject.fail(label, "all have the same shape, found {} and {}{}", first, other, where)
    if len(subject.results) == 1:
        follow_operands(subject, label, subject.operands)


def _same(subject: Subject, label: str) -> None:
    """Operands and results have compatible types, the result that which follows from all operands."""
    operands = subject.operands
    first = operands[0]
    if all([value is first for value in operands[1:]]) and subject.results[0] is first:
        return
    for other in (*operands, *subject.results):
        if not types_fit(first, other):
            subject.fail(label, "all have the same type, found {} and {}", first, other)
    follow_operands(subject, label, operands)


def _agreeing(
    values: Callable[[Subject], list[Facts]], fit: Callable[[Facts, Facts], bool], message: str
) -> Callable[[Subject, str], None]:
    """All values fit the first one."""

    def rule(subject: Subject, label: str) -> None:
        first, *others = values(subject)
        for other in others:
            if not fit(first, other):
                subject.fail(label, f"{message}, found {{}} and {{}}", first, other)

    return rule


def _paired(fit: Callable[[Facts, Facts], bool], what: str) -> Callable[[Subject, str], None]:
    """As many results as operands, each fitting its operand."""

    def rule(subject: Subject, label: str) -> None:
        operands, results = subject.operands, subject.results
        if len(operands) != len(results):
            subject.fail(label, "as many results as operands, found {} and {}", len(results), len(operands))
        for operand, result in zip(operands, results, strict=True):
            if not fit(operand, result):
                message = "a result has the {} of its operand, found {} and {}"
                subject.fail(label, message, what, operand, result)

    return rule


def _all(subject: Subject) -> list[Facts]:
    return [*subject.operands, *subject.results]


def _operands(subject: Subject) -> list[Facts]:
    return subject.operands


def _one_type(a: Facts, b: Facts) -> bool:
    return a.type == b.type


def _one_element(a: Facts, b: Facts) -> bool:
    return a.element is b.element or a.element == b.element


def _alike_elements(a: Facts, b: Facts) -> bool:
    """Equal up to parameters of quantization."""
    return elements_fit(a.element, b.element)


AGREEMENTS: dict[str, Callable[[Subject, str], None]] = {
    "shape": _same_shape,
    "same": _same,
    "elements": _agreeing(_all, _alike_elements, "all have the same element type"),
    "operands": _agreeing(_operands, _alike_elements, "operands have the same element type"),
    "alike": _agreeing(_all, _one_element, "all have the same element type"),
    "pairs": _paired(_one_type, "type"),
    "pair_elements": _paired(_one_element, "element type"),
    "pairs_equal": _agreeing(_operands, _one_type, "operands have one type"),
}
