"""The command line `axla <verb>`: `main.py` finds the verb; each verb is a module of its own.

The module of a verb has `add_arguments(parser)` and `execute(options) -> exit code`; its docstring is the
help text. Heavy imports are inside functions, so that `axla --help` starts at once.
"""
