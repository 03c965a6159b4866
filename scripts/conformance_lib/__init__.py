"""The parts of scripts/conformance: what a section is (`section`), the sections, the processes that run them
(`runner`), what is printed and written (`report`, `page`).
"""
