"""Checks the specification's constraints, before a program is used for anything.

`kinds.py` checks types, `attributes.py` kinds of attributes; `agreement.py` checks an operation against its
record in `../operations.py`, with `relations.py` for rules about numbers. For rules that a record cannot
express there is a function for each operation: `elements.py`, `reducers.py`, `control.py`, `numeric.py`,
`collectives.py`. `structure.py` walks the program.
"""

from __future__ import annotations

from axla.stablehlo import mlir


def verify(source: mlir.Source) -> None:
    """Raises VerifyError for a program that breaks a rule.

    The message starts with line and column, the operation and the label of the rule: `add_c1` is the first
    constraint of `add` in the specification, `add_i2` its requirement for the second input.
    """
    from axla.stablehlo.verify.structure import ProgramVerifier

    ProgramVerifier(source).run()
