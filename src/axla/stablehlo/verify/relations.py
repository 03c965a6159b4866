"""Rules in the notation of the specification: `0<=dimensions<rank(operand)`, `result=shape(operand)[order]`.

They are Python expressions. A name is what an attribute, a field of a structure or a constant operand holds,
a number or a list. `+` puts lists and numbers one after another, `a[b]` are the elements at places. `rank(x)`
and `shape(x)` are those of a value, `size(x)` is the length of a list or of a value of rank 1, `count(x)` how
many values a variadic one is. `result` is the first result, `result1` the second one, `results` are all.

Elements of lists are compared one by one, a number with all. What is about a variadic value holds for each.
What is not known (a `?`, what is computed or missing) fits anything, a size below a bound any smaller one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from axla.stablehlo.sizes import Bounded
from axla.stablehlo.verify.kinds import Facts
from axla.stablehlo.verify.subject import Subject

Rule = Callable[[Subject, str], None]
"""Raises Broken with the label given."""

Held = Mapping[str, Facts]
"""The value that each name stands for: one after another where it is variadic."""


def relation(text: str) -> Rule:
    """The rule that an expression is true, or that it is the sizes of a result."""
    statement: Any = ast.parse(text).body[0]
    node = statement.value
    parts: list[Any] = list(ast.walk(node))
    calls = [part for part in parts if isinstance(part, ast.Call) and ast.unparse(part.func) != "count"]
    names = [part.id for call in calls for part in call.args if isinstance(part, ast.Name)]

    def holds(s: Subject, label: str) -> None:
        for held in _values(s, names):
            if _term(s, held, node) is False:
                parts = node.args if isinstance(node, ast.Call) else (node.left, *node.comparators)
                found = [_term(s, held, part) for part in _shown(parts)]
                s.fail(label, "{}, found " + " and ".join(["{}"] * len(found)), ast.unparse(node), *found)

    def follows(s: Subject, label: str) -> None:
        for held in _values(s, names):
            s.follows(label, _listed(s, held, node), None, index)

    if isinstance(statement, ast.Expr):
        return holds
    index = int(statement.targets[0].id.removeprefix("result") or 0)
    return follows


def _shown(terms: Iterable[ast.expr]) -> list[ast.expr]:
    """Those whose values a message says."""
    found: list[ast.expr] = []
    for term in terms:
        if isinstance(term, ast.BinOp):
            found += _shown((term.left, term.right))
        elif not isinstance(term, ast.Constant):
            found.append(term)
    return found


def _values(s: Subject, names: list[str]) -> Iterator[Held]:
    values = {name: s.values(name) for name in names if s.has(name)}
    for i in range(max(map(len, values.values()), default=1)):
        yield {name: found[min(i, len(found) - 1)] for name, found in values.items()}


# ---- Terms: a number, a list, whether a relation holds, or None for what is not known


def _term(s: Subject, held: Held, node: ast.expr) -> Any:
    return _TERMS[type(node)](s, held, node)


def _listed(s: Subject, held: Held, node: ast.expr) -> tuple[Any, ...] | None:
    """A list; a number is one of length 1."""
    found = _term(s, held, node)
    return found if found is None or isinstance(found, tuple) else (found,)


def _name(s: Subject, held: Held, node: ast.Name) -> Any:
    return s.known(node.id)


def _subscript(s: Subject, held: Held, node: ast.Subscript) -> Any:
    found, at = _term(s, held, node.value), _term(s, held, node.slice)
    if found is None or at is None:
        return None
    return tuple([found[i] for i in at]) if isinstance(at, tuple) else found[at]


_COMPUTED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
}  # fmt: skip


def _computed(s: Subject, held: Held, node: ast.BinOp) -> Any:
    read = _listed if isinstance(node.op, ast.Add) else _term
    left, right = read(s, held, node.left), read(s, held, node.right)
    if left is None or right is None or isinstance(left, Bounded) or isinstance(right, Bounded):
        return None
    return _COMPUTED[type(node.op)](left, right)


def _compared(s: Subject, held: Held, node: ast.Compare) -> bool:
    values = [_term(s, held, term) for term in (node.left, *node.comparators)]
    return all(map(_holds, node.ops, values, values[1:]))


_FITS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.Eq: lambda a, b: a == b or isinstance(b, Bounded),
}


def _holds(sign: ast.cmpop, left: Any, right: Any) -> bool:
    count = max([len(side) for side in (left, right) if isinstance(side, tuple)], default=1)
    lists = [side if isinstance(side, tuple) else (side,) * count for side in (left, right)]
    fit = _FITS[type(sign)]
    return len(lists[0]) == len(lists[1]) and all(
        [a is None or b is None or isinstance(a, Bounded) or fit(a, b) for a, b in zip(*lists, strict=True)]
    )


def _is_permutation(dims: tuple[int, ...], rank: int) -> bool:
    return sorted(dims) == list(range(rank))


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
    "is_permutation": _is_permutation,
}


def _called(s: Subject, held: Held, node: Any) -> Any:
    name, first = node.func.id, node.args[0]
    if name == "count":
        return len(s.values(first.id))
    if isinstance(first, ast.Name) and first.id in held:
        return OF_VALUES[name](held[first.id])
    found = _listed(s, held, first) or ()
    return OF_LISTS[name](found, *[_term(s, held, part) for part in node.args[1:]])


_TERMS: dict[type[ast.expr], Callable[[Subject, Held, Any], Any]] = {
    ast.Constant: lambda s, held, node: node.value,
    ast.UnaryOp: lambda s, held, node: ast.literal_eval(node),
    ast.Name: _name, ast.Subscript: _subscript, ast.BinOp: _computed, ast.Compare: _compared,
    ast.Call: _called,
}  # fmt: skip
