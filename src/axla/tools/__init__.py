"""The command line `axla <verb>`: `main.py` finds the verb, each verb is a file of its own.

A verb module has `HELP`, `add_arguments(parser)` and `execute(options) -> exit code`. Heavy imports are
inside functions, so that `axla --help` starts at once.
"""
