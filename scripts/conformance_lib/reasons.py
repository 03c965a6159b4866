"""Why cases of the corpora are not as they should be: what is known about them."""

from __future__ import annotations

import re

from conformance_lib.programs import SENSITIVE
from conformance_lib.section import UNSUPPORTED, Outcome

UNEXPLAINED = "not explained yet"

# (section, case, kind) as regular expressions, and the reason; the first that fits counts.
KNOWN = [
    ("exec", "", SENSITIVE, "XLA's own result moves between its optimisation levels"),
    (
        "matrix", "^atan2_c(64|128)$", "differs",
        "atan2 of complex numbers: XLA rounds on the way, ours is nearer to the true value",
    ),
    (
        "matrix", "^popcnt_s4$", "differs",
        "popcnt of s4: XLA counts the bits of the sign-extended byte",
    ),
    (
        "matrix", "^power_c64$", "differs",
        "power of c64: the sign of an infinity of an angle beyond any precision",
    ),
    (
        "matrix", "^sine_c64$", "differs",
        "sine of c64: XLA overflows at an imaginary part of 88, where f32 does not",
    ),
]  # fmt: skip


def reason(outcome: Outcome) -> str:
    """The reason of an exception; what the program said of it, when nobody has looked yet."""
    for section, case, kind, why in KNOWN:
        if outcome.section == section and re.search(case, outcome.case) and re.fullmatch(kind, outcome.kind):
            return why
    if outcome.kind == UNSUPPORTED:
        return f"unsupported: {general(outcome.detail)}"
    return f"{outcome.kind}: {UNEXPLAINED}"


def general(message: str) -> str:
    """A message without the names and shapes of one case."""
    message = re.sub(r"%?[\w.-]+ = .*?(?=: )", "...", " ".join(message.split()))
    message = re.sub(r"(?<=\w):? \(?%.*", "", message)
    return re.sub(r"\b(?:pred|token|[subfc]+\d+\w*)(?:\[[^\]]*\])?(?:\{[^}]*\})?", "T", message)[:200]
