"""docs/limits.md: its numbers are those of the source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
LINKS = re.findall(r"\[([\d,]+)\]\((\.\./src/\S+\.py)#(\w+)\)", (DOCS / "limits.md").read_text())


def test_numbers_are_found():
    assert len(LINKS) > 15


@pytest.mark.parametrize(("number", "file", "name"), LINKS, ids=lambda x: x.rsplit("/", 1)[-1])
def test_number_is_the_sources(number, file, name):
    tree = ast.parse((DOCS / file).read_text(encoding="utf-8"))
    [value] = [
        node.value for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]
    ]  # fmt: skip
    assert int(number.replace(",", "")) == eval(ast.unparse(value))
