"""StableHLO and CHLO in: a source becomes a module of HLO.

`program.py` imports functions and regions, callees first; `scope.py` is a computation being filled. What an
operation becomes is said by its record (`plain.py`) or is one function in a table: `arrays.py`, `control.py`,
`effects.py`, `chlo.py`. Types with `?` and quantized types have to be gone before (`modules.py` of the
package around sees to it); a source is changed by rewriting it, the import knows nothing of them.
"""

from __future__ import annotations

from axla.stablehlo.importer import arrays, chlo, control, effects, plain
from axla.stablehlo.importer.scope import ImportRule

RULES: dict[str, ImportRule] = {**plain.RULES, **arrays.RULES, **control.RULES, **effects.RULES, **chlo.RULES}
"""Operation name -> the function that imports it."""
