"""Rules in the notation of the specification: `0<=dimensions<rank(operand)`, `result=shape(operand)[order]`.

They are Python expressions. A name stands for the value of an attribute, a field of a structure or a constant
operand: a number or a list. `+` concatenates lists and numbers, `a[b]` are the elements of a at the indices
b. `rank(x)` and `shape(x)` are those of a value, `size(x)` is the length of a list or of a value of rank 1,
`count(x)` the number of values of a variadic operand. `result` is the first result, `result1` the second one,
`results` are all.

Elements of lists are compared one by one, a number with all elements. A rule about a variadic value applies
to each of its values. Unknown values (`?`, computed or missing ones) fit anything, a bounded size any smaller
one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from axla.core.parsing import undisturbed
from axla.importers.records import Record
from axla.stablehlo.attributes import STRUCTURES
from axla.stablehlo.sizes import Bounded
from axla.stablehlo.verify.kinds import Facts
from axla.stablehlo.verify.subject import Subject

CheckRule = Callable[[Subject, str], None]
"""Raises Broken, with the label given, if a rule does not hold."""

Term = Callable[[Subject, int], Any]
"""Evaluates an expression: to a number, a list, whether a relation holds, or None for an unknown value. The
integer is the number of the value that a variadic name stands for.
"""


def relation(text: str, record: Record) -> CheckRule:
    """Makes the check for a rule: an expression that must be true, or an assignment with the sizes of a
    result.
    """
    statement: Any = undisturbed(ast.parse, text).body[0]
    node, term = statement.value, _term(statement.value, record)
    parts: list[Any] = list(ast.walk(node))
    calls = [part for part in parts if isinstance(part, ast.Call) and ast.unparse(part.func) != "count"]
    names = [part.id for call in calls for part in call.args if isinstance(part, ast.Name)]
    each = next((name for name in names if _is_variadic(name, record)), "")

    def holds(s: Subject, label: str) -> None:
        for i in range(len(s.values(each)) if each else 1):
            if term(s, i) is False:
                found = [_term(part, record)(s, i) for part in _shown(node)]
                s.fail(label, "{}, found " + " and ".join(["{}"] * len(found)), ast.unparse(node), *found)

    def follows(s: Subject, label: str) -> None:
        s.follows(label, _listed(term(s, 0)), None, index)

    if isinstance(statement, ast.Expr):
        return holds
    index = int(statement.targets[0].id.removeprefix("result") or 0)
    return follows


def _shown(node: ast.Call | ast.Compare) -> list[ast.expr]:
    """The terms whose values appear in the message of a broken rule."""
    parts = node.args if isinstance(node, ast.Call) else [node.left, *node.comparators]
    sides = [[part.left, part.right] if isinstance(part, ast.BinOp) else [part] for part in parts]
    return [part for side in sides for part in side if not isinstance(part, ast.Constant)]


# ---- Terms


def _term(node: ast.expr, record: Record) -> Term:
    return _TERMS[type(node)](node, record)


def _listed(found: Any) -> tuple[Any, ...] | None:
    """A number as a list of length 1; lists and None are returned as they are."""
    return found if found is None or isinstance(found, tuple) else (found,)


def _constant(node: ast.expr, record: Record) -> Term:
    value = ast.literal_eval(node)
    return lambda s, i: value


def _name(node: ast.Name, record: Record) -> Term:
    name = node.id
    for attribute in record.attributes:
        if name in STRUCTURES.get(attribute.kind.removeprefix("#"), ()):
            return lambda s, i: s.operation.attributes[attribute.name].fields[name]
    return lambda s, i: s.known(name)


def _subscript(node: ast.Subscript, record: Record) -> Term:
    of, places = _term(node.value, record), _term(node.slice, record)

    def term(s: Subject, i: int) -> Any:
        found, at = of(s, i), places(s, i)
        if found is None or at is None:
            return None
        return tuple([found[n] for n in at]) if isinstance(at, tuple) else found[at]

    return term


_COMPUTED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
}  # fmt: skip


def _computed(node: ast.BinOp, record: Record) -> Term:
    sides = _term(node.left, record), _term(node.right, record)
    compute, joins = _COMPUTED[type(node.op)], isinstance(node.op, ast.Add)

    def term(s: Subject, i: int) -> Any:
        left, right = [_listed(side(s, i)) if joins else side(s, i) for side in sides]
        unknown = left is None or right is None or isinstance(left, Bounded) or isinstance(right, Bounded)
        return None if unknown else compute(left, right)

    return term


_FITS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.Eq: lambda a, b: a == b or isinstance(b, Bounded),
}


def _compared(node: ast.Compare, record: Record) -> Term:
    first = _term(node.left, record)
    pairs = zip(node.ops, node.comparators, strict=True)
    others = [(_FITS[type(sign)], _term(part, record)) for sign, part in pairs]

    def term(s: Subject, i: int) -> bool:
        left = first(s, i)
        for fit, other in others:
            right = other(s, i)
            if not _holds(fit, left, right):
                return False
            left = right
        return True

    return term


def _holds(fit: Callable[[int, int], bool], left: Any, right: Any) -> bool:
    if type(left) is int and type(right) is int:
        return fit(left, right)
    if left is None or right is None:
        return True
    if not isinstance(left, tuple):
        left = (left,) * (len(right) if isinstance(right, tuple) else 1)
    if not isinstance(right, tuple):
        right = (right,) * len(left)
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        if not (a is None or b is None or isinstance(a, Bounded) or fit(a, b)):
            return False
    return True


OF_VALUES: dict[str, Callable[[Facts], Any]] = {
    "rank": lambda value: value.rank,
    "shape": lambda value: value.extents,
    "size": lambda value: value.dims[0],
}
OF_LISTS: dict[str, Callable[..., Any]] = {
    "size": len,
    "min": min,
    "is_unique": lambda dims: len(set(dims)) == len(dims),
    "is_sorted": lambda dims: list(dims) == sorted(dims),
    "is_permutation": lambda dims, rank: sorted(dims) == list(range(rank)),
}


def _called(node: Any, record: Record) -> Term:
    name, first = node.func.id, node.args[0]
    if name == "count":
        return lambda s, i: len(s.values(first.id))
    variadic = _is_variadic(first.id, record) if isinstance(first, ast.Name) else None
    if variadic is not None:
        of_value = OF_VALUES[name]
        places = [value.name for value in record.operands]
        if first.id in places and not any(value.variadic for value in record.operands):
            at = places.index(first.id)
            return lambda s, i: of_value(s.operands[at])
        return lambda s, i: of_value(s.values(first.id)[i if variadic else 0])
    compute, of_list, *others = OF_LISTS[name], *[_term(part, record) for part in node.args]

    def term(s: Subject, i: int) -> Any:
        dims = _listed(of_list(s, i)) or ()
        return compute(dims, *[other(s, i) for other in others])

    return term


def _is_variadic(name: str, record: Record) -> bool | None:
    """Whether an operand or result is variadic; None for other names."""
    if name.startswith("result"):
        return name == "results"
    return next((value.variadic for value in record.operands if value.name == name), None)


_TERMS: dict[type[ast.expr], Callable[[Any, Record], Term]] = {
    ast.Constant: _constant, ast.UnaryOp: _constant, ast.Name: _name, ast.Subscript: _subscript,
    ast.BinOp: _computed, ast.Compare: _compared, ast.Call: _called,
}  # fmt: skip
