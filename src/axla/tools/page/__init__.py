"""Pages about programs: a single HTML file that shows what the compiler did, and how a run spent its time.

Python computes the data, the browser lays out and draws (docs/design/0015-looking-inside.md). `stages` runs
the compiler and records what it does, with `records` for modules and `memory` for programs; `runs` handles
profiles; `html` writes the page, whose own code is `tools/templates/page*`; `svg` draws without a browser.
"""
