"""Known reasons why cases of JAX's tests fail on axla."""

from __future__ import annotations

import re

from jax_tests_lib.records import Outcome

UNEXPLAINED = "not explained yet"

# Rows: regular expressions for the case (file, class and test) and for its message, and the reason. The first
# row that matches counts.
KNOWN: list[tuple[str, str, str]] = [
    (
        "test_jit_lower_cost_analysis", "C API",
        "the test is skipped if the platform's version contains 'C API', which jaxlib writes for plugins",
    ),
    (
        "unreduced", "!= 1",
        "results are correct; the test counts all-reduces, and the partitioner makes several: it does not "
        "keep unreduced sums through additions, loops and updates",
    ),
    (
        "testBufferDonationNotDonated", "",
        "a donated argument of a program over several devices is deleted, even if no result has its size",
    ),
]  # fmt: skip


def reason(file: str, case: str, outcome: Outcome) -> str:
    for case_is, says, why in KNOWN:
        if re.search(case_is, f"{file} {case}") and re.search(says, outcome.why):
            return why
    return UNEXPLAINED
