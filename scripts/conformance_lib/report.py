"""The output of scripts/conformance: a line per section and backend, and each case with another outcome than
the wanted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conformance_lib.section import UNSUPPORTED, Outcome
from conformance_lib.sections import SECTIONS


@dataclass(frozen=True)
class Total:
    """The numbers of outcomes of a section on one backend, by kind."""

    section: str
    backend: str
    kinds: Counter[str]
    seconds: float

    @property
    def cases(self) -> int:
        return sum(self.kinds.values())

    @property
    def good(self) -> int:
        return sum(n for kind, n in self.kinds.items() if kind in SECTIONS[self.section].good)

    @property
    def share(self) -> str:
        return f"{100 * self.good / self.cases:.2f} %" if self.cases else "-"

    @property
    def rest(self) -> str:
        """The kinds of outcomes that are not wanted, most frequent first."""
        good = SECTIONS[self.section].good
        return ", ".join(f"{n} {kind}" for kind, n in self.kinds.most_common() if kind not in good)


def is_good(outcome: Outcome) -> bool:
    return outcome.kind in SECTIONS[outcome.section].good


def totals(outcomes: Sequence[Outcome]) -> list[Total]:
    """A Total for each section and backend, in the order of SECTIONS and of the backends of a section."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    seconds: Counter[tuple[str, str]] = Counter()
    for o in outcomes:
        counts.setdefault((o.section, o.backend), Counter())[o.kind] += 1
        seconds[o.section, o.backend] += o.seconds
    order = list(SECTIONS)
    keys = sorted(counts, key=lambda k: (order.index(k[0]), _rank(k)))
    return [Total(*key, counts[key], seconds[key]) for key in keys]


def _rank(key: tuple[str, str]) -> tuple[int, str]:
    """The sort key of a backend: its position in the section's list; one that only the command line names
    comes last.
    """
    name, backend = key
    own = SECTIONS[name].backends
    return (own.index(backend) if backend in own else len(own)), backend


def printed(outcomes: Sequence[Outcome], *, slowest: bool = False) -> str:
    lines = []
    for o in sorted(outcomes, key=lambda o: (o.section, o.backend, o.kind, o.case)):
        if not is_good(o) and (o.kind != UNSUPPORTED or o.section != "samples"):
            lines.append(f"{o.kind:12} {o.case} {o.backend}: {' '.join(o.detail.split())[:300]}")
    if slowest:
        lines += [
            f"{o.seconds:8.2f} s  {o.case} {o.backend}"
            for o in sorted(outcomes, key=lambda o: -o.seconds)[:10]
        ]
    for t in totals(outcomes):
        on = f" on {t.backend}" if t.backend else ""
        rest = f"; {t.rest}" if t.rest else ""
        lines.append(f"{t.section}{on}: {t.good} of {t.cases} ({t.share}){rest}")
    return "\n".join(lines)
