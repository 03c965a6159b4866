"""Passes that write an op in terms of several simpler ones: `topk` as a sort, `scan` as a loop, ...

Each file has the expansion of one op, or of a family: a function from an instruction to its replacement.
`expander.py` runs these functions over a module.
"""
