"""The files of axla must not import each other in a cycle; imports for types, and inside functions, count
too.

`lint-imports` checks this for files and packages of the same folder. This test checks every file, also those
that import the package around them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import axla

ROOT = Path(axla.__file__).parent


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Yields (module, name in it or "") for all imports of a source, also those inside functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield from ((node.module or "", alias.name) for alias in node.names)


def graph_of(sources: dict[str, str]) -> dict[str, set[str]]:
    """The files that each file imports."""
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        pairs = [(module, f"{module}.{inside}") for module, inside in imported(source)]
        graph[name] = {inner if inner in sources else module for module, inner in pairs} & set(sources)
    return graph


def test_files_import_each_other_in_no_circle():
    sources = {module_name(path): path.read_text("utf-8") for path in sorted(ROOT.rglob("*.py"))}
    graph = graph_of(sources)
    assert len(graph) > 400 and sum(map(len, graph.values())) > 2000
    TopologicalSorter(graph).prepare()  # CycleError names the cycle


@pytest.mark.parametrize(
    "text",
    [
        "import axla.b",
        "from axla.b import f",
        "def g():\n    from axla import b",
        "if TYPE_CHECKING:\n    from axla.b import f",
    ],
)
def test_every_kind_of_import_counts(text):
    graph = graph_of({"axla": "", "axla.a": text, "axla.b": "from axla.a import g"})
    with pytest.raises(CycleError, match="axla.a"):
        TopologicalSorter(graph).prepare()


def test_nothing_is_linked_by_llvm():
    """LLVM's linker must not be used: it may put code and constants more than 2 GiB apart, and then ends the
    process.

    `Image` puts them into one block of memory.
    """
    linkers = re.compile(r"create_(lljit|mcjit)_compiler")
    files = [*ROOT.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]
    found = [str(path) for path in files if path != Path(__file__) and linkers.search(path.read_text())]
    assert not found
