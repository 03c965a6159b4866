"""The kinds of kernels, a file for each or for a family (`kinds.py` lists them): what a kind matches, what
fusion may put into its kernels and why not, and how they are planned. What writes their code is named there.
"""

ADDED: list = []
"""The kinds that others registered, the last one first."""
