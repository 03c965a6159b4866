"""The parts of scripts/conformance: the interface of a section (`section`), the sections, the processes that
run cases (`runner`), and the output (`report`, `page`).
"""
