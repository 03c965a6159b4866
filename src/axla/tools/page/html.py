"""Writes a page: data and templates in a single HTML file.

Data is JSON, deflated, in base64, so no text of a module can end an HTML element or start a script.
"""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from importlib.resources import files
from typing import Any

from axla.core.templates import fill


def packed(data: Any) -> str:
    """Encodes data in the form that the page decodes: JSON, deflated, in base64."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def page(data: dict[str, Any]) -> str:
    """The page as HTML; `data` is made by the modules `stages` and `runs`."""
    data = dict(data)
    code = data.pop("code", {})
    library = files("axla").joinpath("tools", "page", "dagre")
    return fill(
        "tools/page.html", TITLE=escape(f"{data['title']} - axla"), STYLE=[fill("tools/page.css")],
        LICENCE=[library.joinpath("LICENSE").read_text("utf-8").strip()],
        LIBRARY=[library.joinpath("dagre.min.js").read_text("utf-8").strip()],
        SCRIPT=[
            fill("tools/page_data.js"), fill("tools/page_graph.js"), fill("tools/page_charts.js"),
            fill("tools/page_views.js"), fill("tools/page_main.js"),
        ],
        DATA=[
            _element("data", packed({**data, "codes": list(code)})),
            *(_element(f"code-{number}", packed(found)) for number, found in enumerate(code.values())),
        ],
    )  # fmt: skip


def _element(name: str, content: str) -> str:
    return f'<script type="application/octet-stream" id="{name}">{content}</script>'


def frame(data: dict[str, Any], height: int = 640) -> str:
    """An HTML element for a notebook that shows the page: a frame of `height` pixels, isolated from the
    notebook.
    """
    return (
        f'<iframe sandbox="allow-scripts" style="width: 100%; height: {height}px; border: 1px solid #ccc" '
        f'srcdoc="{escape(page(data))}"></iframe>'
    )
