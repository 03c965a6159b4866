"""The sections for texts: valid ones are parsed and printed as XLA prints them; invalid ones are rejected."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from axla.core.errors import AxlaError, ParseError, UnsupportedError
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.stablehlo.text import parse as parse_stablehlo
from axla.stablehlo.verify import verify as verify_stablehlo
from axla.text import parse_hlo
from conformance_lib.corpora import require
from conformance_lib.section import OK, REFUSED, UNSUPPORTED, Outcome, said

NOT_AS_XLA = "not as XLA"
NO_ROUND_TRIP = "no round trip"
ACCEPTED, UNNAMED = "accepted", "refused without a rule"


def rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


class Text:
    """Every text that XLA parses. The printed module must parse again, and print the same."""

    name = "text"
    backends = ("",)
    good = frozenset({OK})

    def __init__(self) -> None:
        self.root = require("hlo-open")
        self.rows = {
            f"{kind}/{name}": row
            for kind, table in (("exec", "manifest.csv"), ("parse", "parse.csv"))
            for name, row in rows(self.root / table).items()
        }

    def cases(self) -> Sequence[str]:
        return list(self.rows)

    def text(self, case: str) -> str:
        return (self.root / f"{case}.hlo").read_text()

    def run(self, case: str, backend: str = "") -> Outcome:
        return Outcome(self.name, case, backend, *self.outcome(case))

    def outcome(self, case: str) -> tuple[str, str]:
        try:
            module = parse_hlo(self.text(case))
        except UnsupportedError as error:
            return UNSUPPORTED, error.message
        except AxlaError as error:
            return REFUSED, said(error)
        return self.judge(case, module)

    def judge(self, case: str, module: Module) -> tuple[str, str]:
        for options in ({}, {"print_large_constants": True}):
            printed = module.to_string(**options)
            again = parse_hlo(printed, exact=True).to_string(**options)
            if again != printed:
                return NO_ROUND_TRIP, difference(printed, again)
        return OK, ""


class Print(Text):
    """The texts that XLA prints, and reads, as the same text: axla must print this text."""

    name = "print"

    def cases(self) -> Sequence[str]:
        return [case for case, row in self.rows.items() if row["canonical_reparse"] == "same"]

    def canonical(self, case: str) -> str:
        return (self.root / "canonical" / f"{case.split('/')[1]}.hlo").read_text()

    def judge(self, case: str, module: Module) -> tuple[str, str]:
        wanted, printed = self.canonical(case).strip(), module.to_string().strip()
        return (OK, "") if wanted == printed else (NOT_AS_XLA, difference(wanted, printed))


def difference(wanted: str, found: str) -> str:
    lines = unified_diff(wanted.splitlines(), found.splitlines(), "wanted", "found", lineterm="", n=0)
    return "\n".join(line[:200] for line in list(lines)[2:12])


class Invalid:
    """Texts that XLA's parser or verifier rejects, without those that only later stages reject."""

    name = "invalid"
    backends = ("",)
    good = frozenset({OK})

    def __init__(self) -> None:
        self.root = require("hlo-open")
        stages = rows(self.root / "invalid.csv")
        self.rows = {name: row for name, row in stages.items() if row["stage"] in ("parse", "verify")}

    def cases(self) -> Sequence[str]:
        return list(self.rows)

    def run(self, case: str, backend: str = "") -> Outcome:
        text = (self.root / "invalid" / f"{case}.hlo").read_text()
        return Outcome(self.name, case, backend, *refusal(text))


def refusal(text: str) -> tuple[str, str]:
    """The outcome and the message for a text that must be rejected. It is OK if the error has a position or
    the label of a rule.
    """
    try:
        verify(parse_hlo(text))
    except UnsupportedError as error:
        return UNSUPPORTED, str(error)
    except ParseError as error:
        return (OK if error.line and error.column and error.excerpt else UNNAMED), str(error)
    except AxlaError as error:
        return (OK if re.search(r"\[\w+\]", str(error)) else UNNAMED), str(error)
    return ACCEPTED, ""


class InvalidStableHLO:
    """StableHLO programs that violate the syntax or a rule of the specification."""

    name = "invalid-stablehlo"
    backends = ("",)
    good = frozenset({OK})

    def __init__(self) -> None:
        self.root = require("stablehlo-open")

    def cases(self) -> Sequence[str]:
        return sorted(path.stem for path in (self.root / "invalid").glob("*.mlir"))

    def run(self, case: str, backend: str = "") -> Outcome:
        text = (self.root / "invalid" / f"{case}.mlir").read_text()
        return Outcome(self.name, case, backend, *stablehlo_refusal(text))


def stablehlo_refusal(text: str) -> tuple[str, str]:
    """The outcome and the message for a StableHLO text that must be rejected. It is OK if the error has a
    position, or begins with position, operation and rule.
    """
    try:
        verify_stablehlo(parse_stablehlo(text))
    except ParseError as error:
        return (OK if error.line and error.column and error.excerpt else UNNAMED), str(error)
    except AxlaError as error:
        return (OK if re.match(r"\d+:\d+: [\w.-]+: \w+: ", str(error)) else UNNAMED), str(error)
    return ACCEPTED, ""
