"""Sphinx's extension of the site: pages of source files, and the colours of HLO."""

from __future__ import annotations

from sphinx.application import Sphinx

from . import lexers, sources


def setup(app: Sphinx) -> dict:
    for name, lexer in lexers.LEXERS.items():
        app.add_lexer(name, lexer)
    sources.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
