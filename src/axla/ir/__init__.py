"""The graph. Takes op values and operands, gives modules that verify and change under control.

Read `op.py` first (how an op is declared), then `graph.py` (ops, instructions, computations, modules; the
only code that mutates), `structure.py` (the four ops the graph knows), `traverse.py` (orders). `axla.text`
reads and prints modules.
"""
