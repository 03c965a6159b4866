"""Rules for the accuracy of results that a program asks for. In this module:

result_accuracy  stands at functions of one operand that are approximated; it is a mode, default or
                 highest, or tolerances of at least 0
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
    """`result_accuracy` is allowed at unary transcendental ops only, and has a known form."""
    text = dict(inst.extra.more).get("result_accuracy")
    if text is None:
        return
    if not inst.op.transcendental or len(inst.operands) > 1:
        fail("result_accuracy", f"{inst!r}: {inst.opcode} takes no result_accuracy")
    if not _ACCURACY.fullmatch(text) or re.search(r"=\s*-", text):
        wanted = "mode=default, mode=highest or tolerance={atol=..., rtol=..., ulps=...} of at least 0"
        fail("result_accuracy", f"{inst!r}: result_accuracy must be {wanted}, found {text}")
