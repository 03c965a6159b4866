"""Pages about programs: one file of HTML that shows what the compiler did, and what a run took.

Python computes facts, the browser lays out and draws (docs/design/0015-looking-inside.md). `stages` runs the
compiler and notes what it does, with `records` for modules and `memory` for programs; `runs` is about
profiles; `html` writes the page, whose own code is `tools/templates/page*`; `svg` draws without a browser.
"""
