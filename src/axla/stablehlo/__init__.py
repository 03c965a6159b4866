"""StableHLO, CHLO and the dialects around them: text and portable bytecode in, Module, StableHLO text out.

Read `mlir.py` first: the operations, types and attributes as every reader gives and every writer takes them;
then `operations.py`, where each operation of the dialects has its record.
`text/` reads and prints MLIR text, `bytecode/` reads MLIR bytecode with VHLO artifacts, `verify/` holds the
specification's constraints, `modules.py` makes a Module with `specialize/`, `quantized/` and `importer/`,
`exporter/` makes operations of a Module.
docs/design/0004-stablehlo.md draws the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from axla.ir.graph import Module
    from axla.stablehlo.mlir import Source


def export_source(module: Module) -> Source:
    """The module as operations of StableHLO. UnsupportedError names an op for which there are none."""
    from axla.stablehlo import exporter

    return exporter.export_source(module)


def export_text(module: Module, *, locations: bool = True) -> str:
    """The module as StableHLO text, in the generic form that every MLIR reads.

    With `locations`, metadata and the names of parameters are kept.
    """
    from axla.stablehlo.text.printer import print_source

    return print_source(export_source(module), locations)
