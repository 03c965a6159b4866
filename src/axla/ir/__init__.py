"""The graph of a program: ops, instructions, computations and modules, with checks of all changes, and a
verifier.

Read `op.py` first (how an op is declared), then `graph.py` (ops, instructions, computations, modules; the
only code that changes them), `structure.py` (the four ops on which the graph itself depends), and
`traverse.py` (orders of instructions). `axla.text` parses and prints modules.
"""
