"""A program at the stages of the compiler, for a target that is equal on every machine."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from axla.api import parse
from axla.backends.cpu import text_of
from axla.passes import driver
from axla.tools.diffs import diff
from axla.tools.source import target_of

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "design" / "life.mlir"
TARGET = "x86-64-v3"
LANGUAGES = {"optimized": "hlo", "program": "text", "llvm": "llvm", "asm": "gas"}


@cache
def text_at(stage: str) -> str:
    module = parse(FILE)
    return module.to_string() if stage == "read" else text_of(module, stage, target_of(TARGET), {})


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


def source() -> str:
    return fenced("mlir", FILE.read_text(encoding="utf-8"))


def stage(name: str) -> str:
    """The text of a stage; `read` is the module before all passes."""
    return fenced(LANGUAGES.get(name, "hlo"), text_at(name))


class _Watch(driver.Observer):
    """Records the changes that passes make."""

    def __init__(self, text: str) -> None:
        self.text, self.found = text, []

    def ran(self, step, module, session, changed) -> None:  # type: ignore[no-untyped-def]
        before, self.text = self.text, module.to_string()
        if changed and self.text != before:
            self.found.append((str(step), diff(before, self.text)))


def changes() -> str:
    """The changes of each pass that changes the module."""
    module = parse(FILE)
    watch = _Watch(module.to_string())
    with driver.observed(watch):
        text_of(module, "optimized", target_of(TARGET))
    parts = []
    for name, lines in watch.found:
        text = "\n".join(line for line in lines.splitlines()[2:] if not line.startswith("@@"))
        parts.append(f"**{name}**\n\n{fenced('diff', text)}")
    return "\n\n".join(parts)


def loop(name: str) -> str:
    """The innermost loop, in LLVM IR or assembly: the block after a label that has the most multiply-adds."""
    lines = text_at(name).splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"[\w.$]+:", line)]
    blocks = [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]
    found = max(blocks, key=lambda block: sum("fma.v" in line or "vfmadd" in line for line in block))
    last = next(number for number, line in enumerate(found) if re.match(r"\s+(br|j[a-z]+)\b", line))
    return fenced(LANGUAGES[name], "\n".join(found[: last + 1]))
