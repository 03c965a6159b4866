"""Passes that write one op as several others that exist everywhere: `topk` as a sort, `scan` as a loop, ...

Each file has the expansion of one op (or a family), a function from an instruction to what takes its place;
`expander.py` runs it.
"""
