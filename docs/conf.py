"""Sphinx's configuration of the site: `sh scripts/site` builds it. The extension is scripts/site_lib."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "src")]

import axla  # noqa: E402

project = "axla"
author = "the authors of axla"
copyright = "the authors of axla, Apache-2.0"
version = release = axla.__version__

extensions = ["myst_parser", "site_lib.extension"]
exclude_patterns = ["examples"]
root_doc = "index"
suppress_warnings = ["toc.not_included", "ref.python"]  # site_lib.links finds pages to which none leads
smartquotes = False  # -- is the beginning of an option
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures: most are no entries of the reference
highlight_language = "text"

myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "attrs_block"]

html_theme = "furo"
html_title = "axla"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
