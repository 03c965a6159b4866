"""StableHLO, CHLO and the dialects around them: text and portable bytecode in, Module, StableHLO text out.

Read `mlir.py` first: the operations, types and attributes as every reader gives and every writer takes them.
`text/` reads and prints MLIR text, `bytecode/` reads MLIR bytecode with VHLO artifacts, `verify/` holds the
specification's constraints, `importer/` makes a Module, `exporter.py` makes operations of a Module.
docs/design/0004-stablehlo.md draws the way.
"""
