"""The text section of scripts/conformance: HLO texts parsed and printed, compared with XLA's own print.

python scripts/conformance text [--verbose]
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from conformance_corpora import corpus

from axla.core.errors import AxlaError, ParseError, UnsupportedError
from axla.text import parse_hlo


def rows(root: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Kind (exec or parse), text and manifest row of every text that XLA parses."""
    for kind, table in (("exec", "manifest.csv"), ("parse", "parse.csv")):
        with (root / table).open(newline="") as file:
            for row in csv.DictReader(file):
                yield kind, (root / kind / f"{row['id']}.hlo").read_text(), row


def check(text: str, canonical: str | None) -> tuple[str, str]:
    """What happens to a text, and details. `canonical` is XLA's print, where XLA prints it unchanged."""
    try:
        module = parse_hlo(text)
    except UnsupportedError as error:
        return "unsupported", str(error)
    except AxlaError as error:
        return "refused", str(error)
    for options in ({}, {"print_large_constants": True}):
        printed = module.to_string(**options)
        again = parse_hlo(printed, exact=True).to_string(**options)
        if again != printed:
            return "no fixed point", _difference(printed, again)
    printed = module.to_string()
    if canonical is None:
        return "parsed", ""
    if canonical.strip() == printed.strip():
        return "as XLA", ""
    return "not as XLA", _difference(canonical.strip(), printed.strip())


def _difference(wanted: str, found: str) -> str:
    lines = unified_diff(wanted.splitlines(), found.splitlines(), "wanted", "found", lineterm="", n=0)
    return "\n".join(line[:200] for line in list(lines)[2:12])


def refused(text: str) -> str:
    """How the parser takes a text that it must refuse."""
    try:
        parse_hlo(text)
    except ParseError as error:
        return "ParseError" if error.line and error.column and error.excerpt else "ParseError without a place"
    except AxlaError as error:
        return type(error).__name__
    return "accepted"


def main(section: str, arguments: list[str]) -> int:
    root = corpus("hlo-open")
    if root is None:
        print("no corpus hlo-open beside the repository")
        return 2
    counts: Counter[tuple[str, str]] = Counter()
    missing: Counter[str] = Counter()
    for kind, text, row in rows(root):
        same = row["canonical_reparse"] == "same"
        canonical = (root / "canonical" / f"{row['id']}.hlo").read_text() if same else None
        outcome, details = check(text, canonical)
        counts[kind, outcome] += 1
        if outcome == "unsupported":
            missing[details] += 1
        elif "--verbose" in arguments and details:
            print(f"{row['id']}: {outcome}\n{details}")
    for kind in ("exec", "parse"):
        found = {outcome: n for (k, outcome), n in sorted(counts.items()) if k == kind}
        print(
            f"{kind}: {sum(found.values())} texts: " + ", ".join(f"{n} {what}" for what, n in found.items())
        )
    compared = sum(n for (_, outcome), n in counts.items() if outcome in ("as XLA", "not as XLA"))
    equal = counts["exec", "as XLA"] + counts["parse", "as XLA"]
    print(f"printed as XLA prints: {equal} of {compared} ({equal / max(compared, 1):.2%})")
    print("most often unsupported: " + "; ".join(f"{what} ({n})" for what, n in missing.most_common(8)))
    with (root / "invalid.csv").open(newline="") as file:
        wrong = [row["id"] for row in csv.DictReader(file) if row["stage"] == "parse"]
    ends = Counter(refused((root / "invalid" / f"{name}.hlo").read_text()) for name in wrong)
    print(f"invalid: {len(wrong)} texts: " + ", ".join(f"{n} {end}" for end, n in ends.most_common()))
    return 1 if any(outcome in ("no fixed point", "refused") for _, outcome in counts) else 0
