"""The kinds of kernels, with a file for each kind or family; `kinds.py` lists them. A kind recognises its
kernels, decides what fusion may put into them, and plans them. Each names its emitter in `codegen/emit`.
"""

ADDED: list = []
"""The kinds that this process has registered, the latest first."""

ENTRY_POINTS = "axla.kernels"
"""The group of entry points by which installed packages add kinds; the object is the class."""
