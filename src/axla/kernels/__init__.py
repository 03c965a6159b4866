"""The kinds of kernels, a file for each kind or family (`kinds.py` lists them): what a kind matches, what
fusion may put into its kernels and why not, and how they are planned. Each names its emitter in
`codegen/emit`.
"""

ADDED: list = []
"""The kinds that this process registered, the last one first."""

ENTRY_POINTS = "axla.kernels"
"""The group of the entry points of packages that have kinds. Object: the class."""
