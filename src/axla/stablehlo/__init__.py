"""StableHLO, CHLO and related dialects: reads text and portable bytecode, makes Modules of them, and writes
Modules as StableHLO text.

Read `mlir.py` first: it has operations, types and attributes, the common form of all readers and writers.
Then read `operations.py`, which has a record for each operation of the dialects. `text/` reads and prints
MLIR text, `bytecode/` reads MLIR bytecode with VHLO artifacts, `verify/` checks the specification's
constraints, `modules.py` makes a Module with `specialize/`, `quantized/` and `importer/`, `exporter/`
converts a Module to operations. docs/design/0004-stablehlo.md has a picture of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from axla.ir.graph import Module
    from axla.stablehlo.mlir import Source


def export_source(module: Module) -> Source:
    """Converts a module to StableHLO operations. Raises UnsupportedError, with the name of the op, if an op
    has no equivalent.
    """
    from axla.stablehlo import exporter

    return exporter.export_source(module)


def export_text(module: Module, *, locations: bool = True) -> str:
    """Prints a module as StableHLO text, in the generic form that every MLIR reads.

    With `locations`, the text has metadata and the names of parameters.
    """
    from axla.stablehlo.text.printer import print_source

    return print_source(export_source(module), locations)
