#!/usr/bin/env python3
"""Writes the public interface of axla as text, and compares it with that of another version
(docs/versions.md).

python scripts/interface.py writes tests/api/public.txt python scripts/interface.py --since v0.1.0 prints the
changes since a commit, and the part of the version to raise

The interface is read from the sources, so it is the same with every Python and any installed packages: a name
in `__all__` is followed to its definition. Functions that are made at run time (in `axla.ops`) are imported.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent / "src" / "axla"
SNAPSHOT = HERE.parent / "tests" / "api" / "public.txt"
PROGRAMS = (
    "axla", "axla.aot", "axla.backends", "axla.builder", "axla.client", "axla.core.dtypes",
    "axla.distributed", "axla.jax", "axla.ops", "axla.tensorflow", "axla.xla_client",
)  # fmt: skip
"""The modules for programs."""
EXTENSIONS = (
    "axla.backends.kit", "axla.core.literal", "axla.core.shape", "axla.ir.graph", "axla.ir.op",
    "axla.kernels.kind", "axla.passes.added", "axla.passes.rewrite", "axla.passes.steps",
)  # fmt: skip
"""Further modules for packages with ops, passes, kernels and backends."""
GROUPS = ("axla.backends", "axla.kernels", "axla.ops", "axla.passes")
NOT_SHOWN = {
    "__repr__", "__str__", "__hash__", "__eq__", "__slots__", "__getattr__", "__setattr__", "__delattr__",
    "__dir__", "__reduce__", "__getstate__", "__setstate__", "__doc__", "__del__", "__match_args__",
    "__init_subclass__", "__array_ufunc__",
}  # fmt: skip
WIDTH = 110
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


# The definitions of names.


def path_of(module: str) -> Path | None:
    first, *rest = module.split(".")
    path = ROOT.joinpath(*rest)
    files = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in files if first == "axla" and file.is_file()), None)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, also those inside `if` and `try`."""
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            yield from statements(statement.body)
        else:
            yield statement


def targets(statement: ast.AST) -> list[ast.expr]:
    """The targets of an assignment."""
    found = statement.targets if isinstance(statement, ast.Assign) else []
    found = [statement.target] if isinstance(statement, ast.AnnAssign) else found
    return [part for target in found for part in (target.elts if isinstance(target, ast.Tuple) else [target])]


def defined(statement: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    return [target.id for target in targets(statement) if isinstance(target, ast.Name)]


@cache
def body_of(module: str) -> list[ast.stmt]:
    path = path_of(module)
    return list(statements(ast.parse(path.read_text(encoding="utf-8")).body)) if path else []


@cache
def find(module: str, name: str) -> tuple[str, Definition | None]:
    """(the module that defines a name, its definition). The definition is None for modules and objects made
    at run time.
    """
    if path_of(f"{module}.{name}"):
        return f"{module}.{name}", None
    for statement in reversed(body_of(module)):
        if "_COMPATIBILITY" in defined(statement) and isinstance(getattr(statement, "value", None), ast.Dict):
            homes = ast.literal_eval(statement.value)  # type: ignore[attr-defined]  (names that `__getattr__` imports)
            if name in homes:
                return find(homes[name], name)
        if name in defined(statement):
            assert isinstance(statement, Definition)
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
                return find(module, statement.value.id)
            return module, statement
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                if alias.name == "*" and (found := find(statement.module, name))[1] is not None:
                    return found
                if (alias.asname or alias.name) == name:
                    return find(statement.module, alias.name)
    return module, None


def names_of(module: str) -> list[str]:
    """The names in `__all__`; without it, those that the module defines."""
    if module == "axla.ops":
        return list(importlib.import_module(module).__all__)
    for statement in body_of(module):
        if "__all__" in defined(statement) and isinstance(statement, ast.Assign):
            return sorted(ast.literal_eval(statement.value))
        if isinstance(statement, ast.ImportFrom) and any(a.name == "__all__" for a in statement.names):
            return names_of(str(statement.module))
    names = {name for statement in body_of(module) for name in defined(statement)}
    return sorted(name for name in names if not name.startswith("_"))


@cache
def public() -> dict[tuple[str, str], str]:
    """Maps (module, name in the module) of classes and functions to the first of their public names, which is
    shown.
    """
    found: dict[tuple[str, str], str] = {}
    for module in PROGRAMS + EXTENSIONS:
        for name in names_of(module):
            home, node = find(module, name)
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found.setdefault((home, node.name), f"{module}.{name}")
    return found


# The text of each name.


def shortened(node: ast.expr | None) -> str:
    text = ast.unparse(node) if node else ""
    return text if len(text) <= 60 else "..."


def function(name: str, node: ast.FunctionDef, method: bool) -> str:
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    if {"property", "cached_property"} & set(decorators):
        return f"{name}: {shortened(node.returns)}"
    marks = [f" @{mark}" for mark in decorators if mark in ("contextmanager", "classmethod", "staticmethod")]
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = ast.unparse(node.args)
    if method and "staticmethod" not in decorators:
        arguments = re.sub(r"^\w+(, )?(/, |/$)?", "", arguments)
    return f"{name}({arguments}){result}{''.join(marks)}"


def field(name: str, node: ast.Assign | ast.AnnAssign) -> str:
    kind = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    return f"{name}{kind}" + (f" = {shortened(node.value)}" if node.value else "")


def members(shown: str, module: str, node: ast.ClassDef) -> Iterator[str]:
    """Yields the methods and attributes of a class, also those of base classes that are not public."""
    for base in node.bases:
        if isinstance(base, ast.Name):
            home, definition = find(module, base.id)
            if isinstance(definition, ast.ClassDef) and (home, definition.name) not in public():
                yield from members(shown, home, definition)
    for statement in statements(node.body):
        for name in defined(statement):
            if name in NOT_SHOWN or (name.startswith("_") and not name.startswith("__")):
                continue
            if isinstance(statement, ast.FunctionDef):
                yield function(f"{shown}.{name}", statement, method=True)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                yield field(f"{shown}.{name}", statement)
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            for part in ast.walk(statement):
                for target in targets(part):
                    if re.fullmatch(r"self\.[^\W_]\w*", text := ast.unparse(target)):
                        yield shown + text.removeprefix("self")


def entries(module: str) -> Iterator[str]:
    for name in names_of(module):
        shown = f"{module}.{name}"
        home, node = find(module, name)
        if (
            isinstance(node, (ast.ClassDef, ast.FunctionDef))
            and (first := public()[home, node.name]) != shown
        ):
            yield f"{shown} is {first}"
        elif isinstance(node, ast.ClassDef):
            bases = ", ".join(map(ast.unparse, node.bases))
            yield f"class {shown}({bases})" if bases else f"class {shown}"
            described: dict[str, str] = {}
            for member in members(shown, home, node):  # members of base classes come first
                if member != key(member) or member not in described:
                    described[key(member)] = member
            yield from sorted(described.values())
        elif isinstance(node, ast.FunctionDef):
            yield function(shown, node, method=False)
        elif node is None and path_of(home) and home != module:
            yield f"{shown} is {home}"
        elif node is None or isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            made = getattr(importlib.import_module(module), name)
            routine = inspect.isroutine(made)
            yield shown + (str(inspect.signature(made)).replace("'", "") if routine else "")
        else:
            yield shown


def commands() -> Iterator[str]:
    """Yields the verbs of the command line with their arguments."""
    from axla.tools.main import parser

    verbs = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for verb, its in verbs.choices.items():
        for action in its._actions:
            if not isinstance(action, argparse._HelpAction):
                taken = "" if action.nargs == 0 else action.metavar or action.dest.upper()
                yield " ".join(filter(None, [f"$ axla {verb}", ", ".join(action.option_strings), str(taken)]))


def environment() -> Iterator[str]:
    from axla.core.flags import FIELDS, spellings_of

    for name in FIELDS:
        yield f"flag {', '.join(f'--{spelling}' for spelling in spellings_of(name))}"
    yield from (f"entry points {group}" for group in GROUPS)


def text() -> str:
    """The text of the interface: a line per entry, with indented continuation lines."""
    found = [entry for module in PROGRAMS + EXTENSIONS for entry in entries(module)]
    fill = textwrap.TextWrapper(
        WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "".join(fill.fill(entry) + "\n" for entry in [*found, *commands(), *environment()])


# The meaning of a change.


def key(entry: str) -> str:
    """The name that an entry describes."""
    if entry.startswith(("$ ", "flag ", "entry points ")):
        return entry
    return re.split(r"[(:]| = | is ", entry.removeprefix("class "), maxsplit=1)[0]


def changes(old: str, new: str) -> tuple[list[str], list[str]]:
    """(keys of entries that are gone or accept less, keys of entries that are new or accept more)."""
    was, now = ({key(e): e for e in re.sub(r"\n {4}", " ", t).splitlines()} for t in (old, new))
    broken = [name for name in was if name not in now or breaks(was[name], now[name])]
    changed = [name for name in now if was.get(name) != now[name] and name not in broken]
    return broken, changed


def breaks(old: str, new: str) -> bool:
    """Whether correct code may become wrong. Optional parameters, and types, may be added."""
    pattern = r"[\w.]+\((.*)\)((?: -> .*?)?(?: @\w+)*)"
    was, now = re.fullmatch(pattern, old), re.fullmatch(pattern, new)
    if not was or not now:
        return old != new
    return was[2] != now[2] or _takes_less(_parameters(was[1]), _parameters(now[1]))


def _parameters(arguments: str) -> list[tuple[str, str, str, str]]:
    """(kind, name, type, default) of each parameter."""
    [node] = ast.parse(f"def f({re.sub('<[^>]*>', '...', arguments)}): ...").body
    assert isinstance(node, ast.FunctionDef)
    its = node.args
    positional = [*its.posonlyargs, *its.args]
    defaults = [None] * (len(positional) - len(its.defaults)) + its.defaults
    named = [("place", a, d) for a, d in zip(positional, defaults, strict=True)]
    named += [("name", a, d) for a, d in zip(its.kwonlyargs, its.kw_defaults, strict=True)]
    named += [(kind, a, None) for kind, a in (("*", its.vararg), ("**", its.kwarg)) if a]
    written = lambda node: ast.unparse(node) if node else ""  # noqa: E731
    return [(kind, a.arg, written(a.annotation), written(d)) for kind, a, d in named]


def _takes_less(was: list[tuple[str, str, str, str]], now: list[tuple[str, str, str, str]]) -> bool:
    places = [[p[1] for p in them if p[0] == "place"] for them in (was, now)]
    known = {name: (kind, kinds, default) for kind, name, kinds, default in now}
    for kind, name, kinds, default in was:
        if name not in known or known[name][0] != kind or known[name][2] != default:
            return True
        if known[name][1] and not set(kinds.split(" | ")) <= set(known[name][1].split(" | ")):
            return True
    added = [p for p in now if p[1] not in {name for _, name, _, _ in was}]
    return places[1][: len(places[0])] != places[0] or any(
        p[3] == "" and p[0] in ("place", "name") for p in added
    )


def advice(old: str, new: str) -> str:
    """The changes as lines, and the part of the version that they raise; "" if there are none."""
    broken, added = changes(old, new)
    if old == new:
        return ""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "was", "is", n=0, lineterm="")
    shown = "\n".join(f"  {line}" for line in lines if not line.startswith(("---", "+++", "@@")))
    part = "major (minor before 1.0)" if broken else "minor (patch before 1.0)" if added else "patch"
    gone = "".join(f"\n  {name}" for name in broken)
    return (
        f"the public interface changed:\n{shown}\n\nVersion: raise the {part} part."
        + (f" Gone, or takes less than before:{gone}" if gone else " Nothing is gone.")
        + "\nSay it in CHANGELOG.md, and keep the new text: python scripts/interface.py (or pytest --bless)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--since", metavar="COMMIT", help="compare with the interface at a commit")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT.parent))
    if options.since is None:
        SNAPSHOT.write_text(text(), encoding="utf-8")
        return 0
    name = f"{options.since}:{SNAPSHOT.relative_to(HERE.parent)}"
    old = subprocess.run(["git", "show", name], capture_output=True, text=True, check=True, cwd=HERE).stdout
    print(advice(old, text()) or f"the public interface is that of {options.since}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
