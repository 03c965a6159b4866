"""Prints the results of a run, and writes them as a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .checks import Verdict


def progress(name: str, done: int, count: int) -> None:
    """Prints a line that the next one overwrites, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r{done:4} of {count}: {name:50}", end="", file=sys.stderr, flush=True)


def show(verdict: Verdict, seed: int) -> None:
    """Prints the result for a rule or pass, with the module of its first failure."""
    if sys.stderr.isatty():
        print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    state = "FAILED" if verdict.failed else "ok"
    counts = f"{verdict.tried:6} tried {verdict.changed:5} compared {verdict.firings:6} firings"
    types = f"{len(verdict.types):3} types {verdict.seconds:5.1f} s"
    print(f"{state:6} {verdict.name:40} {counts} {types}" + (f"  {verdict.allows}" if verdict.allows else ""))
    if verdict.missing:
        print(f"  {verdict.name}: {verdict.missing}")
    for failure in verdict.failures[:1]:
        again = f"python scripts/verify-passes {verdict.name} --seed {seed} --case {failure.number}"
        print(f"  {failure.why}\n  again: {again}")
        print(f"before:\n{failure.module}\nafter:\n{failure.after}", flush=True)


def total(verdicts: Sequence[Verdict], seconds: float) -> None:
    """Prints the sums of all results."""
    for kind, name in (("rule", "rules"), ("pass", "passes")):
        found = [v for v in verdicts if v.kind == kind]
        if found:
            print(f"{len(found)} {name}: {_sums(found)}")
    failed = [v.name for v in verdicts if v.failed]
    print(f"{len(verdicts)} in {seconds:.0f} s; failed: {', '.join(failed) or 'none'}")


def _sums(found: Sequence[Verdict]) -> str:
    tried, changed = sum(v.tried for v in found), sum(v.changed for v in found)
    failures = sum(len(v.failures) + bool(v.missing) for v in found)
    firings = sum(v.firings for v in found)
    return f"{tried} modules, {changed} changed and compared, {firings} firings, {failures} failures"


def markdown(verdicts: Sequence[Verdict], cases: int, seed: int) -> str:
    """The table of all results, for a page."""
    lines = [
        f"`python scripts/verify-passes --cases {cases} --seed {seed}`", "",
        "| rule or pass | modules | changed and compared | firings | failures | types | allows |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]  # fmt: skip
    for v in verdicts:
        counts = (
            f"{v.tried} | {v.changed} | {v.firings} | {len(v.failures) + bool(v.missing)} | {len(v.types)}"
        )
        lines.append(f"| {v.name} | {counts} | {v.allows} |")
    for kind, name in (("rule", "rules"), ("pass", "passes")):
        lines += ["", f"{name.capitalize()}: {_sums([v for v in verdicts if v.kind == kind])}."]
    return "\n".join(lines) + "\n"
