"""Pages for the files of the repository that the documentation links to.

A link `[x](../src/axla/api.py#compile)` also works on hosts of repositories. On the site it leads to the line
where `compile` begins. A link to a folder leads to the list of its files, which then have pages too.
"""

from __future__ import annotations

import ast
import html
import posixpath
from pathlib import Path

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from .lexers import LEXERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} - axla</title>
<link rel="stylesheet" href="{top}_static/pygments.css">
<link rel="stylesheet" href="{top}_static/source.css">
</head>
<body>
<p><a href="{top}index.html">axla</a></p>
<h1>{name}</h1>
{body}
</body>
</html>
"""
log = logging.getLogger(__name__)


def lines_of_names(path: Path) -> dict[str, int]:
    """The first line of each function, class and variable at the top level of a Python file."""
    if path.suffix != ".py":
        return {}
    lines = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            lines[node.name] = node.lineno
        elif isinstance(node, ast.Assign):
            lines |= {name.id: node.lineno for name in node.targets if isinstance(name, ast.Name)}
    return lines


def files_below(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts]


def target_of(app: Sphinx, page: str, node: nodes.Element) -> tuple[Path, str] | None:
    """The file or folder that a link names, and the name after `#`. None if the link is to a page."""
    if isinstance(node, addnodes.pending_xref) and node.get("reftype") not in ("myst", "doc", None):
        return None
    written = node.get("reftarget", "")
    if node.get("refdomain") == "doc":
        written += ".md"  # MyST removes it
    target, _, name = written.partition("#")
    places = [(Path(app.srcdir) / page).parent, ROOT]  # ROOT: for links in a text that a page includes
    found = (place.joinpath(target).resolve() for place in places)
    path = next((path for path in found if path.exists() and path.is_relative_to(ROOT)), None)
    if not target or path is None:
        return None
    is_page = path.is_relative_to(app.srcdir) and path.suffix == ".md"
    return None if is_page else (path, name or node.get("reftargetid") or "")


def link(app: Sphinx, doctree: nodes.document) -> None:
    """Replaces links to files that are not pages by links to the generated pages of these files."""
    page = app.env.docname
    links = [*doctree.findall(addnodes.download_reference), *doctree.findall(addnodes.pending_xref)]
    for node in links:
        found = target_of(app, page, node)
        if found is None:
            continue  # another page, or a missing file, which Sphinx reports
        path, name = found
        if path.suffix != ".py":
            name = ""
        elif name and name not in lines_of_names(path):
            log.warning("%s has no %s", path, name, location=node)
        inside = path.relative_to(ROOT).as_posix()
        app.env.axla_sources.setdefault(page, set()).add(inside)  # type: ignore[attr-defined]
        uri = posixpath.relpath(f"source/{inside}", posixpath.dirname(page) or ".") + ".html"
        uri += f"#{name}" if name else ""
        node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))


def text_of(path: Path) -> str:
    """The body of the page of a file."""
    kind = path.suffix[1:]
    try:
        lexer = LEXERS[kind]() if kind in LEXERS else get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    formatter = HtmlFormatter(linenos="inline", lineanchors="line", wrapcode=True)
    body = highlight(path.read_text(encoding="utf-8"), lexer, formatter)
    for name, line in lines_of_names(path).items():
        body = body.replace(f'<a id="line-{line}"', f'<a id="{name}"></a><a id="line-{line}"', 1)
    return body


def list_of(folder: Path, files: list[Path]) -> str:
    """The body of the page of a folder."""
    links = (path.relative_to(folder.parent).as_posix() for path in files)
    rows = (f'<li><a href="{link}.html">{html.escape(link)}</a></li>' for link in links)
    return "<ul>" + "\n".join(rows) + "</ul>"


def write_pages(app: Sphinx, failure: Exception | None) -> None:
    """Writes the pages of files. They have no navigation, as Sphinx needs most of its time to make that."""
    if failure is not None or app.builder.format != "html":
        return
    named = {ROOT / inside for inside in set().union(*app.env.axla_sources.values())}  # type: ignore[attr-defined]
    folders = {path: files_below(path) for path in named if path.is_dir()}
    for path in sorted(named.union(*folders.values())):
        inside = path.relative_to(ROOT).as_posix()
        body = list_of(path, folders[path]) if path in folders else text_of(path)
        out = Path(app.outdir) / "source" / f"{inside}.html"
        out.parent.mkdir(parents=True, exist_ok=True)
        top = "../" * (inside.count("/") + 1)
        out.write_text(PAGE.format(name=html.escape(inside), top=top, body=body), encoding="utf-8")


def begin(app: Sphinx) -> None:
    if not hasattr(app.env, "axla_sources"):
        app.env.axla_sources = {}  # type: ignore[attr-defined]


def purge(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    env.axla_sources.pop(page, None)  # type: ignore[attr-defined]


def merge(app: Sphinx, env: BuildEnvironment, pages: list[str], other: BuildEnvironment) -> None:
    env.axla_sources |= {p: s for p, s in other.axla_sources.items() if p in pages}  # type: ignore[attr-defined]


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", begin)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("doctree-read", link, priority=400)  # before Sphinx copies files for downloads
    app.connect("build-finished", write_pages)
