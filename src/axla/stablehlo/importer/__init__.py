"""Imports StableHLO and CHLO: a source becomes an HLO module.

`program.py` imports functions and regions, callees first; `scope.py` is a computation being filled. The
result of an operation follows from its record (`plain.py`) or from a function in a table: `arrays.py`,
`control.py`, `effects.py`, `chlo.py`. Types with `?` and quantized types must have been rewritten before, by
`modules.py` of the parent package.
"""

from __future__ import annotations

from axla.stablehlo.importer import arrays, chlo, control, effects, plain
from axla.stablehlo.importer.scope import ImportRule

RULES: dict[str, ImportRule] = {**plain.RULES, **arrays.RULES, **control.RULES, **effects.RULES, **chlo.RULES}
"""Operation name -> the function that imports it."""
