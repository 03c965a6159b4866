"""Parts of pages that are generated while the site is built: they replace blocks `{made} NAME ARGUMENTS`."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

from . import api, commands, layers, stages


def functions() -> str:
    """The functions of the builder, with the ops that they add."""
    from docs_lib import declarations

    import axla.hlo  # noqa: F401  (declares the ops)

    found = ((name, opcode) for opcode, names in declarations.builder_functions().items() for name in names)
    rows = [
        f"| `{declarations.signature(name)}` | [{opcode}](../ops/{opcode}.md) |"
        for name, opcode in sorted(found)
        if name not in ("Parameter", "Constant", "ConstantLiteral") or opcode in ("parameter", "constant")
    ]
    return "\n".join(["| function | operation |", "| --- | --- |", *rows])


MAKERS = {
    "api": api.page, "commands": commands.page, "functions": functions,
    "layers": layers.picture, "list-of-layers": layers.listed,
    "source": stages.source, "stage": stages.stage, "changes": stages.changes, "loop": stages.loop,
}  # fmt: skip
BLOCK = re.compile(r"^```\{made\} (\S+) ?(.*)\n```$", re.M)


def fill(app: Sphinx, page: str, text: list[str]) -> None:
    text[0] = BLOCK.sub(lambda block: MAKERS[block[1]](*block[2].split()), text[0])


def changed(app: Sphinx, env: object, added: set[str], altered: set[str], removed: set[str]) -> list[str]:
    """The pages that Sphinx reads again, since their generated parts may have changed."""
    return [
        page for page in app.env.found_docs if "{made}" in app.env.doc2path(page).read_text(encoding="utf-8")
    ]


def setup(app: Sphinx) -> None:
    app.connect("source-read", fill)
    app.connect("env-get-outdated", changed)
