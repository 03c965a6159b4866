"""The pages docs/ops.md, docs/ops/<op>.md, docs/stablehlo-operations.md, docs/tensorflow-ops.md,
docs/kernel-kinds.md, docs/flags.md and docs/passes.md.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import axla.hlo  # noqa: F401  (declares the ops)
from axla.ir.op import OPS, Op
from docs_lib import backends, coverage, declarations, flags, kernel_kinds, passes, tensorflow
from docs_lib.examples import Example
from docs_lib.rules import rules as refusals
from docs_lib.sections import source

DOCS = Path(__file__).resolve().parents[2] / "docs"

MADE = "Made by `python scripts/docs` from the declarations; do not edit.\n"

INDEX = f"""\
# Ops

{MADE}
Every op has a page with its meaning, attributes, restrictions, the builder's functions, its
implementation on the backends, and an example, a file of [examples](examples) that `axla run` accepts.
[Conformance](conformance.md) lists which op runs at which element type on which backend.
"""


def pages(folder: Path = DOCS, opcodes: Iterable[str] | None = None) -> dict[Path, str]:
    """All files of a folder, each with its text. `opcodes` are the ops that get a page, by default all."""
    return {
        folder / "ops.md": index(),
        folder / "stablehlo-operations.md": coverage.page(table),
        folder / "tensorflow-ops.md": tensorflow.page(table),
        folder / "kernel-kinds.md": kernel_kinds.page(table),
        folder / "flags.md": flags.page(table),
        folder / "passes.md": passes.page(table),
        **{folder / "ops" / f"{op}.md": page(OPS[op]) for op in (OPS if opcodes is None else opcodes)},
    }


def index() -> str:
    """The page with all ops, by the module that declares them."""
    groups: dict[str, list[type[Op]]] = defaultdict(list)
    for cls in OPS.values():
        groups[cls.__module__].append(cls)
    parts = [INDEX]
    for module in sorted(groups):
        doc = inspect.cleandoc(__import__(module, fromlist=["x"]).__doc__ or "").split("\n\n")[0]
        title, _, rest = " ".join(doc.split()).partition(":")
        name = module.rsplit(".", 1)[-1].replace("_", " ").capitalize()
        parts.append(f"\n## {name}\n\n{title.strip() + (':' + rest if rest else '')}\n\n")
        rows = [(f"[{c.opcode}](ops/{c.opcode}.md)", first_sentence(c)) for c in groups[module]]
        parts.append(table(("op", "what"), sorted(rows)))
    return "".join(parts)


def first_sentence(cls: type[Op]) -> str:
    text = " ".join(declarations.documentation(cls).split("\n\n")[0].split())
    return re.split(r"(?<=[.;])\s", text)[0].rstrip(";.") + "."


def page(cls: type[Op]) -> str:
    return "\n".join(
        [
            f"# {cls.opcode}\n\n{MADE}\n{declarations.documentation(cls)}\n",
            f"```hlo\n{declarations.form(cls)}\n```\n",
            *facts(cls),
            *attributes(cls),
            *shapes(cls),
            *rules(cls),
            *builder(cls),
            *runs(cls),
            *example(cls),
        ]
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def facts(cls: type[Op]) -> Iterable[str]:
    listed = declarations.facts(cls)
    yield f"- Element types: {declarations.element_types(cls)}."
    if listed:
        yield f"- Facts: {', '.join(listed)}."
    yield f"- Source: {source(cls.opcode)}"
    yield f"- Code: {declarations.code(cls)}\n"


def attributes(cls: type[Op]) -> Iterable[str]:
    rows = [(f"`{name}`", kind, default) for name, kind, default in declarations.attribute_rows(cls)]
    if rows:
        yield "## Attributes\n\n" + table(("attribute", "value", "default"), rows)


def shapes(cls: type[Op]) -> Iterable[str]:
    rows = [(f"`{of}`" if of else "none", f"`{to}`") for of, to in declarations.shape_rows(cls)]
    yield "## Shapes\n\n" + table(("operands", "result"), rows)


def rules(cls: type[Op]) -> Iterable[str]:
    rows = [(f"`{label}`", message) for label, message in refusals(cls)]
    if rows:
        yield "## What is refused\n\n" + table(("rule", "message"), rows)


def builder(cls: type[Op]) -> Iterable[str]:
    names = declarations.builder_functions()[cls.opcode]
    if names:
        listed = "\n".join(f"- `{declarations.signature(name)}`" for name in names)
        yield f"## In the builder\n\n{listed}\n"


def runs(cls: type[Op]) -> Iterable[str]:
    rows = [
        ("interpreter", backends.interpreter(cls.opcode)),
        ("cpu, one-lane", backends.cpu(cls.opcode)),
    ]
    yield "## How it runs\n\n" + table(("backend", "how"), rows)


def example(cls: type[Op]) -> Iterable[str]:
    shown = Example.of(cls.opcode)
    yield f"## Example\n\n{shown.what}\n\n```hlo\n{shown.text}\n```\n"
    result = shown.result()
    if result.startswith("not run: "):
        yield f"It is parsed and verified, but {result}.\n"
    else:
        fed = " with other data" if cls.opcode == "infeed" else ""
        yield f"`axla run docs/examples/{cls.opcode}.hlo` runs it{fed}; the result:\n\n```\n{result}\n```\n"
