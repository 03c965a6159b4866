"""The rule for the accuracy of results that a program may require:

result_accuracy  an attribute of transcendental functions of one operand only; its value is a mode, default
                 or highest, or tolerances of at least 0
"""

from __future__ import annotations

import re

from axla.core.regex import ascii_regex
from axla.ir.graph import Instruction
from axla.ir.verify.failure import fail

_ENTRY = r"\s*+(?:(?:atol|rtol)\s*+=\s*+[\d.eE+\-]++|ulps\s*+=\s*+\d++)\s*+"
_ACCURACY = ascii_regex(
    r"\{\s*+(?:mode\s*+=\s*+(?:default|highest)|tolerance\s*+=\s*+\{"
    + f"(?:{_ENTRY}(?:,{_ENTRY})*+)?"
    + r"\})\s*+\}"
)


def verify_accuracy(inst: Instruction) -> None:
    """Checks that `result_accuracy` has a valid value, and that its op is a transcendental function of one
    operand.
    """
    text = dict(inst.extra.more).get("result_accuracy")
    if text is None:
        return
    if not inst.op.transcendental or len(inst.operands) > 1:
        fail("result_accuracy", f"{inst!r}: {inst.opcode} takes no result_accuracy")
    if not _ACCURACY.fullmatch(text) or re.search(r"=\s*-", text):
        wanted = "mode=default, mode=highest or tolerance={atol=..., rtol=..., ulps=...} of at least 0"
        fail("result_accuracy", f"{inst!r}: result_accuracy must be {wanted}, found {text}")
