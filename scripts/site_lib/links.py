"""Finds broken links within a built site, and pages without links to them."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the anchors in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = {"", "top"}
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.places.add(value)
            elif value and name in ("href", "src"):
                self.links.add(value)


def problems(folder: Path) -> list[str]:
    """A line `page: link` for every broken link, and a line for every page that cannot be reached from the
    first one. Links to other sites are not followed.
    """
    folder = folder.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    found = []
    leads_to: dict[Path, set[Path]] = {}
    for path, page in pages.items():
        leads_to[path] = set()
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            leads_to[path].add(target)
            inside = target.is_relative_to(folder) and target.is_file()
            if not inside or (target in pages and unquote(parts.fragment) not in pages[target].places):
                found.append(f"{path.relative_to(folder)}: {link}")
    reached, ahead = set(), [folder / "index.html"]
    while ahead:
        path = ahead.pop()
        if path not in reached and path in pages:
            reached.add(path)
            ahead += leads_to[path]
    lost = sorted(path.relative_to(folder).as_posix() for path in pages.keys() - reached)
    return found + [f"{name}: no page leads there" for name in lost]
