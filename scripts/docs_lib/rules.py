"""The rules of declarations: the calls of `reject` in the methods of an op and the functions that these
call.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from axla.hlo.family import ANY, Elementwise
from axla.ir.op import Op, package_of


def rules(cls: type[Op]) -> list[tuple[str, str]]:
    """(label, message) for each error of an op; `…` stands for a part that the message fills in."""
    declarers = () if package_of(cls) == "axla" else (package_of(cls),)
    found: dict[str, str] = {}
    seen: set[Any] = set()
    todo: list[Any] = [getattr(cls, name, None) for name in ("infer", "__post_init__")]
    while todo:
        function = todo.pop(0)
        if (
            function in seen
            or not inspect.isfunction(function)
            or not function.__module__.startswith(("axla.hlo", *declarers))
        ):
            continue
        seen.add(function)
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        texts = assigned(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if ast.unparse(call.func) in ("reject", "self.reject"):
                rule, message = (template(argument, cls, texts) for argument in call.args)
                name = cls.opcode.replace("-", "_")
                label = rule if ast.unparse(call.func) == "reject" else f"{name}_{rule}"
                found.setdefault(label, message.removeprefix(f"{cls.opcode}: "))
            else:
                todo.append(called(call, function, cls))
    if issubclass(cls, Elementwise) and cls.accepts is ANY:
        found.pop(f"{cls.opcode.replace('-', '_')}_type", None)
    return list(found.items())


def called(call: ast.Call, function: Callable, cls: type[Op]) -> Any:
    """The function that a call names: a method of the op, or a function in the same module."""
    name = ast.unparse(call.func)
    own = name.removeprefix("self.")
    return getattr(cls, own, None) if own != name else function.__globals__.get(name)


def assigned(tree: ast.AST) -> dict[str, ast.expr]:
    """The names to which a text is assigned, with the expressions of the texts."""
    return {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and is_text(node.value)
    }


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, str)


def template(node: ast.expr, cls: type[Op], texts: dict[str, ast.expr]) -> str:
    """The text of a string expression, with `…` for the parts that are filled in."""
    return "".join(pieces(node, cls, texts))


def pieces(node: ast.expr, cls: type[Op], texts: dict[str, ast.expr]) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from pieces(part, cls, texts)
    elif isinstance(node, ast.BinOp):
        yield template(node.left, cls, texts) + template(node.right, cls, texts)
    else:
        value = node.value if isinstance(node, ast.FormattedValue) else node
        name = ast.unparse(value)
        yield template(texts[name], cls, {}) if name in texts else known(name, cls)


def known(expression: str, cls: type[Op]) -> str:
    """The value of an expression, if the op determines it; else `…`."""
    if expression == "accepts.wanted" and issubclass(cls, Elementwise):
        return cls.accepts.wanted
    if expression == "self.opcode":
        return cls.opcode
    return cls.opcode.replace("-", "_") if expression == "label(self)" else "…"
