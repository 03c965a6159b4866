"""The public names of a module, with signatures and docstrings, as Markdown.

They are read from the source, so that the packages which a module needs (JAX, TensorFlow, gRPC) need not be
installed. Docstrings are Markdown.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINED = (*FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True)
class Definition:
    """The definition of a name: its file, its statement, and the text of its docstring."""

    path: Path
    node: ast.stmt
    doc: str


def path_of(module: str) -> Path | None:
    base = ROOT / "src" / Path(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yields each statement with the string after it, which is the docstring of a variable; statements in
    `if` and `try` too.
    """
    for node, behind in zip(body, [*body[1:], None], strict=True):
        text = ""
        if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
            text = behind.value.value if isinstance(behind.value.value, str) else ""
        yield node, inspect.cleandoc(text)
        if isinstance(node, ast.If | ast.Try):
            yield from statements(node.body)


def names_of(node: ast.stmt) -> list[str]:
    """The names that a statement defines or assigns."""
    if isinstance(node, DEFINED):
        return [node.name]
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]


def is_overload(node: ast.stmt) -> bool:
    return isinstance(node, FUNCTIONS) and any("overload" in ast.unparse(d) for d in node.decorator_list)


def definition(module: str, name: str) -> Definition | None:
    """The definition of a name of a module, also if it is imported from another one; None if the source does
    not show it.
    """
    path = path_of(module)
    if path is None:
        return None
    for node, behind in statements(tree_of(path).body):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    is_module = path_of(f"{node.module}.{alias.name}")
                    return None if is_module else definition(node.module, alias.name)
        if name in names_of(node) and not is_overload(node):
            has_doc = isinstance(node, DEFINED)
            return Definition(path, node, (ast.get_docstring(node) or "") if has_doc else behind)
    return None


def public_names(module: str) -> list[str]:
    """The names in `__all__`; without it, those that the module defines."""
    path = path_of(module)
    assert path is not None, module
    for node in tree_of(path).body:
        if names_of(node) == ["__all__"]:
            return [name for name in ast.literal_eval(node.value) if not name.startswith("_")]  # type: ignore[attr-defined]
    found = [name for node in tree_of(path).body for name in names_of(node) if not name.startswith("_")]
    return list(dict.fromkeys(found))


def markdown(doc: str) -> str:
    """A docstring as Markdown: stars and underscores outside of code are escaped."""
    return "\n".join(line if line.startswith("    ") else plain(line) for line in doc.splitlines())


def plain(line: str) -> str:
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<|])", r"\\\1", part) for part in parts)


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, bound: bool) -> str:
    """The parameters of a function, without `self`, and its result."""
    arguments = node.args
    if bound:
        first = arguments.posonlyargs or arguments.args
        rest = first[1:]
        arguments = ast.arguments(
            posonlyargs=rest if arguments.posonlyargs else [],
            args=arguments.args if arguments.posonlyargs else rest,
            vararg=arguments.vararg, kwonlyargs=arguments.kwonlyargs, kw_defaults=arguments.kw_defaults,
            kwarg=arguments.kwarg, defaults=arguments.defaults,
        )  # fmt: skip
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){returns}"


def directive(kind: str, head: str, body: str, options: str = "", ticks: int = 4) -> str:
    fence = "`" * ticks
    return f"{fence}{{py:{kind}}} {head}\n{options}\n{body}\n{fence}\n"


def link(path: Path, name: str) -> str:
    return f"[source](../../{path.relative_to(ROOT).as_posix()}#{name})"


def members(node: ast.ClassDef) -> Iterator[str]:
    """Yields the documentation of the public members of a class that have a docstring: fields, properties and
    methods.
    """
    for inner, behind in statements(node.body):
        names = [name for name in names_of(inner) if not name.startswith("_")]
        if not names or is_overload(inner):
            continue
        if isinstance(inner, FUNCTIONS):
            decorators = {ast.unparse(d).rpartition(".")[2] for d in inner.decorator_list}
            doc = markdown(ast.get_docstring(inner) or "")
            if decorators & {"property", "cached_property"}:
                yield directive("property", inner.name, doc, ticks=4)
            elif not decorators & {"setter"}:
                kind = "staticmethod" if "staticmethod" in decorators else "method"
                options = ":classmethod:\n" if "classmethod" in decorators else ""
                head = inner.name + signature(inner, bound=kind == "method")
                yield directive(kind, head, doc, options, ticks=4)
        elif isinstance(inner, ast.AnnAssign) or behind:
            head = ", ".join(names)
            yield directive("attribute", head, markdown(behind), ticks=4)


def entry(module: str, name: str) -> str:
    """The documentation of a public name, as a directive of Sphinx."""
    found = definition(module, name)
    if found is None:
        return read_from_object(module, name)
    head, tail = markdown(found.doc), link(found.path, names_of(found.node)[0])
    if isinstance(found.node, FUNCTIONS):
        return directive("function", name + signature(found.node, bound=False), f"{head}\n\n{tail}")
    if isinstance(found.node, ast.ClassDef):
        bases = [f"`{ast.unparse(base)}`" for base in found.node.bases]
        parts = [head, f"Bases: {', '.join(bases)}." if bases else "", tail, *members(found.node)]
        made = next(
            (n for n in found.node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None
        )
        arguments = signature(made, bound=True).removesuffix(" -> None") if made else ""
        return directive("class", name + arguments, "\n\n".join(p for p in parts if p), ticks=5)
    return directive("data", name, f"{head}\n\n{tail}")


def read_from_object(module: str, name: str) -> str:
    """The documentation of a module, or of a name that is bound to a method of an object. It is read from the
    imported object.
    """
    value = getattr(importlib.import_module(module), name)
    doc = markdown(inspect.getdoc(value) or "")
    if inspect.ismodule(value):
        return directive("data", name, doc.partition("\n\n")[0])
    return directive("function", f"{name}{inspect.signature(value)}", doc)


def page(module: str, *others: str) -> str:
    """The docstring of a module and its public names, without those that the modules `others` have too."""
    path = path_of(module)
    assert path is not None
    elsewhere: dict[str, str] = {}
    entries = []
    for name in sorted(public_names(module), key=str.lower):
        found = definition(module, name)
        home = next((other for other in others if found and name in public_names(other)), None)
        if home is None:
            entries.append(entry(module, name))
        else:
            elsewhere[name] = home
    named = ", ".join(f"{{py:obj}}`{name} <{home}.{name}>`" for name, home in elsewhere.items())
    doc = markdown(ast.get_docstring(tree_of(path)) or "")
    head = [f"```{{py:currentmodule}} {module}\n```", doc]
    return "\n\n".join([*head, *([f"On other pages: {named}."] if named else []), *entries])
