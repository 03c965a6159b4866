"""Links within a built site that lead nowhere: to a page, a file or a place in a page that is not there."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page refers to, and the places in it."""

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


def broken(folder: Path) -> list[str]:
    """`page: link` of every link that leads nowhere. Links to other sites are not followed."""
    folder = folder.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            inside = target.is_relative_to(folder) and target.is_file()
            place = unquote(parts.fragment)
            if not inside or (target in pages and place not in pages[target].places):
                found.append(f"{path.relative_to(folder)}: {link}")
    return found
