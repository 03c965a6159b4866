"""FileCheck in Python: checks a text with CHECK lines.

    // CHECK: text         anywhere after the last match
    // CHECK-NEXT: text    on the line after the last match
    // CHECK-SAME: text    later on the line of the last match
    // CHECK-NOT: text     nowhere between the match before it and the match after it
    // CHECK-DAG: text     anywhere; consecutive ones may match in any order

Text is matched literally (several spaces match one), except {{regex}}, [[NAME:regex]], which gives its match
a name, and [[NAME]], which matches the same text again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DIRECTIVE = re.compile(r"//\s*CHECK(-NEXT|-SAME|-NOT|-DAG)?:\s?(.*?)\s*$")
PIECE = re.compile(r"\{\{(.*?)\}\}|\[\[(\w+):(.*?)\]\]|\[\[(\w+)\]\]")


class CheckFailed(AssertionError):
    """Raised for a CHECK line that fails, with the text in which it was searched for."""


@dataclass(frozen=True, slots=True)
class Check:
    kind: str  # "", "-NEXT", "-SAME", "-NOT", "-DAG"
    pattern: str
    line: int


def checks_of(text: str, first_line: int = 1) -> list[Check]:
    found = [(n, DIRECTIVE.search(line)) for n, line in enumerate(text.split("\n"), first_line)]
    return [Check(m[1] or "", m[2], n) for n, m in found if m]


def run_checks(checks: list[Check], text: str) -> None:
    """Raises CheckFailed unless the text satisfies all checks."""
    _Matcher(re.sub(r"[ \t]+", " ", text)).run(checks)


class _Matcher:
    def __init__(self, text: str):
        self.text = text
        self.at = 0  # the offset after the last match
        self.names: dict[str, str] = {}
        self.forbidden: list[Check] = []
        self.group: list[tuple[int, int]] = []  # matches of the current DAG group
        self.group_start = 0

    def run(self, checks: list[Check]) -> None:
        previous = ""
        for check in checks:
            if check.kind == "-NOT":
                self.forbidden.append(check)
            elif check.kind == "-DAG":
                if previous != "-DAG":
                    self.group, self.group_start = [], self.at
                self.match_any_order(check)
            else:
                self.match(check)
            previous = check.kind
        self.reject(len(self.text))

    def match(self, check: Check) -> None:
        start, end = self.at, len(self.text)
        if check.kind in ("-SAME", "-NEXT"):
            line_end = self.text.find("\n", start)
            line_end = end if line_end < 0 else line_end
            if check.kind == "-NEXT":
                start = min(line_end + 1, end)
                line_end = self.text.find("\n", start)
                line_end = end if line_end < 0 else line_end
            end = line_end
        found = self.search(check, start, end)
        self.reject(found.start())
        self.at = found.end()

    def match_any_order(self, check: Check) -> None:
        start = self.group_start
        while True:
            found = self.search(check, start, len(self.text))
            if not any(found.start() < b and a < found.end() for a, b in self.group):
                break
            start = found.end()
        self.reject(min(found.start(), *(a for a, _ in self.group)) if self.group else found.start())
        self.group.append(found.span())
        self.at = max(self.at, found.end())

    def reject(self, end: int) -> None:
        for check in self.forbidden:
            found = re.compile(self.regex(check), re.M).search(self.text, self.at, end)
            if found:
                what = f"line {check.line}: CHECK-NOT: {check.pattern}"
                raise CheckFailed(f"{what}\nfound: {found[0]!r}\n{self.shown(self.at)}")
        self.forbidden = []

    def search(self, check: Check, start: int, end: int) -> re.Match:
        found = re.compile(self.regex(check), re.M).search(self.text, start, end)
        if found is None:
            raise CheckFailed(
                f"line {check.line}: CHECK{check.kind}: {check.pattern}\nnot found in:\n{self.shown(start)}"
            )
        self.names.update({k: v for k, v in found.groupdict().items() if v is not None})
        return found

    def regex(self, check: Check) -> str:
        parts, own, at = [], set(), 0
        pattern = re.sub(r"[ \t]+", " ", check.pattern)
        for piece in PIECE.finditer(pattern):
            parts.append(re.escape(pattern[at : piece.start()]))
            at = piece.end()
            plain, name, named, used = piece.groups()
            if plain is not None:
                parts.append(f"(?:{plain})")
            elif name is not None:
                parts.append(f"(?P<{name}>{named})")
                own.add(name)
            elif used in own:
                parts.append(f"(?P={used})")
            elif used in self.names:
                parts.append(re.escape(self.names[used]))
            else:
                raise CheckFailed(f"line {check.line}: [[{used}]] is not named before: {check.pattern}")
        return "".join((*parts, re.escape(pattern[at:])))

    def shown(self, start: int) -> str:
        return "\n".join(f"    {line}" for line in self.text[start:].split("\n")[:60])
