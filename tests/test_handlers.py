"""Functions in tables by op annotate the op that they take: it must be the op of their row."""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from types import FunctionType
from typing import Any, get_args

from axla.ir.op import OPS, Op

PACKAGES = ("analysis", "codegen", "cpu", "interpreter", "ir", "lowering", "passes")


def _op_of_row(key: object) -> type[Op] | None:
    if isinstance(key, str):
        return OPS.get(key)
    return key if isinstance(key, type) and issubclass(key, Op) else None


def _functions(handler: Any) -> list[FunctionType]:
    """The function of a handler; for a partial one, all functions in it."""
    if isinstance(handler, partial):
        return [f for part in (handler.func, *handler.args) for f in _functions(part)]
    return [handler] if isinstance(handler, FunctionType) else []


def _taken(function: FunctionType) -> tuple[type, ...]:
    """The ops in the annotation of an instruction parameter; () if it names none."""
    for text in function.__annotations__.values():
        if isinstance(text, str) and text.startswith("Instruction["):
            (kind,) = get_args(eval(text, function.__globals__))
            return () if kind is Any else get_args(kind) or (kind,)
    return ()


def _rows() -> list[tuple[str, type[Op], FunctionType]]:
    """(table, op, function) for each row of each table by op."""
    found = []
    packages = [importlib.import_module(f"axla.{name}") for name in PACKAGES]
    names = [i.name for p in packages for i in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
    for module in map(importlib.import_module, names):
        for name, table in vars(module).items():
            for key, handler in table.items() if isinstance(table, dict) else ():
                op = _op_of_row(key)
                if op is not None:
                    found += [(f"{module.__name__}.{name}", op, f) for f in _functions(handler)]
    return found


def test_handlers_take_the_op_of_their_row():
    rows = [(table, op, f, _taken(f)) for table, op, f in _rows()]
    wrong = [
        f"{table}: {op.__name__} has {f.__name__}, which takes {[k.__name__ for k in kinds]}"
        for table, op, f, kinds in rows
        if kinds and not issubclass(op, kinds)
    ]
    assert not wrong, "\n".join(wrong)
    assert sum(1 for *_, kinds in rows if kinds) > 60
