"""Known reasons for outcomes other than the wanted ones."""

from __future__ import annotations

import re

from conformance_lib.programs import SENSITIVE
from conformance_lib.section import UNSUPPORTED, Outcome

UNEXPLAINED = "not explained yet"

# Rows: section; regular expressions for "case backend" and for the kind; the reason. The first row that
# matches counts.
KNOWN = [
    ("exec", "", SENSITIVE, "XLA's own result moves between its optimisation levels"),
    (
        "matrix", "^atan2_c(64|128) ", "differs",
        "atan2 of complex numbers: XLA rounds intermediate results, axla's result is more accurate",
    ),
    (
        "matrix", "^popcnt_s4 ", "differs",
        "popcnt of s4: XLA counts the bits of the sign-extended byte",
    ),
    (
        "exec", "^while_loop_all_reduce_code_motion_test_(1679|1862|1941|1994|2195)_", "differs",
        "the input is NaN, which XLA:CPU's reduce by maximum ignores and HLO's maximum returns",
    ),
    (
        "exec", "^collective_pipeliner_test_(4870|5098)_", "differs",
        "all-gather of members that do not exist: XLA leaves their part of the result uninitialised",
    ),
    (
        "exec", "^dynamic_padder_test_1366_", "differs",
        "the recorded run lost the dynamic size in the conversion to StableHLO",
    ),
    (
        "exec", "^elemental_hlo_to_mlir_test_184_", "differs",
        "an initial value that is no neutral element: XLA adds it several times, which the documents allow",
    ),
    (
        "exec", "^hlo_parser_test_693_", "differs",
        "reduce-window of rank 0: XLA folds it to its operand and ignores the initial value",
    ),
    (
        "exec", "^cudnn_norm_rewriter_test_483_", "differs",
        "the variance as E[x^2] - E[x]^2: the difference cancels, and only rounding errors remain",
    ),
    (
        "exec", "^triangular_solve_expander_test_41_.* interpreter$", "differs",
        "triangular-solve near the limit of f32: XLA's blocks overflow, substitution does not",
    ),
    (
        "matrix", "^power_c64 interpreter$", "differs",
        "power of c64: the sign of an infinity depends on an angle without any correct digits",
    ),
    (
        "matrix", "^power_c64 ", "differs",
        "power of c64: one component cancels, and only rounding errors remain",
    ),
    (
        "invalid", "^hlo_verifier_test_2128_", "accepted",
        "the text is valid: XLA's test makes the module invalid after parsing it",
    ),
    (
        "export", "", SENSITIVE, "XLA's own results for the original text are not within the tolerance",
    ),
    (
        "export", "^static/random_gamma_float64_3_chlo ", "differs",
        "axla's expansion of random_gamma differs by 5 ULP of f64 with XLA's functions, 3 are allowed",
    ),
    (
        "export-exec", "^while_loop_simplifier_test_(813|839)_", "too late",
        "an endless loop without side effects: removed only if its state is a tuple",
    ),
    (
        "matrix", "^sine_c64 ", "differs",
        "sine of c64: XLA overflows at an imaginary part of 88, although f32 does not",
    ),
]  # fmt: skip


def reason(outcome: Outcome) -> str:
    """The reason of an outcome; for one that is not known yet, the message of the program."""
    for section, case, kind, why in KNOWN:
        name = f"{outcome.case} {outcome.backend}"
        if outcome.section == section and re.search(case, name) and re.fullmatch(kind, outcome.kind):
            return why
    if outcome.kind == UNSUPPORTED:
        return f"unsupported: {general(outcome.detail)}"
    return f"{outcome.kind}: {UNEXPLAINED}"


def general(message: str) -> str:
    """A message without the names and shapes of its case."""
    message = re.sub(r"%?[\w.-]+ = .*?(?=: )", "...", " ".join(message.split()))
    message = re.sub(r"(?<=\w):? \(?%.*", "", message)
    return re.sub(r"\b(?:pred|token|[subfc]+\d+\w*)(?:\[[^\]]*\])?(?:\{[^}]*\})?", "T", message)[:200]
