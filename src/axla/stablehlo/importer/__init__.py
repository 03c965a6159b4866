"""Imports StableHLO and CHLO: makes an HLO module from a source.

`program.py` imports functions and regions, callees first; `scope.py` fills one computation. An operation is
imported by its record (`plain.py`), or by a function in a table: `arrays.py`, `control.py`, `effects.py`,
`chlo.py`. Before, `modules.py` of the parent package must have rewritten types with `?` and quantized types.
"""

from __future__ import annotations

from axla.stablehlo.importer import arrays, chlo, control, effects, plain
from axla.stablehlo.importer.scope import ImportRule

RULES: dict[str, ImportRule] = {**plain.RULES, **arrays.RULES, **control.RULES, **effects.RULES, **chlo.RULES}
"""The function that imports each operation."""
