"""The graph. Takes op values and operands, gives modules that print, verify and change under control.

Read `op.py` first (what an op is), then `graph.py` (instructions, computations, modules; the only code that
mutates), `structure.py` (the four ops the graph knows), `traverse.py` (orders).
"""
