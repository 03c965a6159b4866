"""The Sphinx extension of the site: pages of source files, generated parts of pages, highlighting of HLO."""

from __future__ import annotations

from sphinx.application import Sphinx

from . import lexers, made, sources


def setup(app: Sphinx) -> dict:
    for name, lexer in lexers.LEXERS.items():
        app.add_lexer(name, lexer)
    sources.setup(app)
    made.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
