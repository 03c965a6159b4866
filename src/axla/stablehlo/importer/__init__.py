"""StableHLO and CHLO in: a source becomes a module of HLO.

`program.py` imports functions and regions, callees first; `scope.py` is a computation being filled. What an
operation becomes is one function in a table: `elementwise.py`, `movement.py`, `reduction.py`, `numeric.py`,
`control.py`, `effects.py`, `chlo.py`. Types with `?` and quantized types have to be gone before; a source is
changed by rewriting it, the import knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axla.core.collector import collector_paused
from axla.core.errors import InvalidArgument, did_you_mean
from axla.ir.graph import Module
from axla.stablehlo import mlir
from axla.stablehlo.importer import chlo, control, effects, elementwise, movement, numeric, reduction
from axla.stablehlo.importer.program import Importer, functions_of
from axla.stablehlo.importer.scope import Rule

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **movement.RULES,
    **reduction.RULES,
    **numeric.RULES,
    **control.RULES,
    **effects.RULES,
    **chlo.RULES,
}
"""Operation name -> the function that imports it."""


def entry_of(source: mlir.Source, entry: str = "") -> str:
    """The name of the function that a program begins with: `main`, or the only one."""
    names = functions_of(source)
    if not entry:
        entry = "main" if "main" in names or len(names) != 1 else next(iter(names))
    if entry not in names:
        hint = f"there are {', '.join(names) or 'none'}{did_you_mean(entry, names)}"
        raise InvalidArgument(f"there is no function @{entry}; {hint}")
    return entry


def import_source(
    source: mlir.Source, entry: str = "", *, arg_types: Sequence[Any] | None = None,
    dim_args: Sequence[int] | None = None,
) -> Module:  # fmt: skip
    """The module that a source is, with the function `entry` (by default `main`, or the only one) as entry,
    for arguments of the types and with the values that `specialize` takes.

    Raises VerifyError for a program that breaks a rule, UnsupportedError for one that HLO cannot say, both
    with the operation and where it stands.
    """
    # What rewrites sources reads them as the importer does: it stands on top of this package's modules.
    from axla.stablehlo.quantized import without_quantized
    from axla.stablehlo.specialize import specialize

    entry = entry_of(source, entry)
    with collector_paused():
        source = without_quantized(specialize(source, entry, arg_types, dim_args))
        return Importer(source, RULES).run(entry)
