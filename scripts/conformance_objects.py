"""Objects of the executable texts and models: none may need a symbol from outside.

    python scripts/conformance objects [--target x86-64-v3] [--only REGEX]

Each text is compiled ahead of time, as one object, for every --target (x86-64-v3 and x86-64 if none is
named). Texts whose ops are not declared, and those that the backend does not do, are counted apart.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator

from conformance_corpora import corpus

from axla.api import parse
from axla.codegen.target import cpu_target
from axla.core.errors import AxlaError, UnsupportedError
from axla.cpu.compiler import compile_module
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.runtime.elf import symbols

TARGETS = ("x86-64-v3", "x86-64")
OK, UNDEFINED, FAILED, UNSUPPORTED, UNDECLARED = (
    "ok",
    "undefined symbols",
    "failed",
    "unsupported",
    "undeclared",
)


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of every executable case and every model."""
    root = corpus("hlo-open")
    if root is not None:
        for path in sorted((root / "exec").glob("*.hlo")):
            yield path.stem, path.read_text()
    models = corpus("models-open")
    if models is not None:
        for path in sorted(models.glob("*/module.hlo.txt")):
            yield path.parent.name, path.read_text()


def loaded(text: str) -> tuple[Module | None, str, str]:
    """The verified module of a text, or None, how it failed and why."""
    try:
        module = parse(text)
        verify(module)
    except UnsupportedError as error:
        return None, UNDECLARED, error.message
    except AxlaError as error:
        return None, FAILED, str(error)
    return module, OK, ""


def object_outcome(module: Module, target: str) -> tuple[str, str, int]:
    """How the object of a module came out for a target: kind, detail, bytes."""
    try:
        compiled = compile_module(clone_module(module), cpu_target(target), parts=1)
    except UnsupportedError as error:
        return UNSUPPORTED, error.message, 0
    except AxlaError as error:
        return FAILED, f"{type(error).__name__}: {error}", 0
    [image] = compiled.images
    defined, needed = symbols(image)
    if needed:
        return UNDEFINED, ", ".join(sorted(needed)), len(image)
    if defined != {"axla_entry"}:
        return UNDEFINED, f"defines {', '.join(sorted(defined))}, wanted axla_entry alone", len(image)
    return OK, "", len(image)


def main(section: str, options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"conformance {section}", description=__doc__)
    parser.add_argument("--target", action="append", help="an x86-64 level or aarch64; once for each")
    parser.add_argument("--only", default="", help="texts whose name matches this regular expression")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every N-th text only")
    chosen = parser.parse_args(options)
    targets = chosen.target or TARGETS
    cases = [case for case in texts() if re.search(chosen.only, case[0])][:: chosen.sample]
    if not cases:
        print("the corpora are not at hand", file=sys.stderr)
        return 2
    begin = time.monotonic()
    counts: dict[str, Counter[str]] = {target: Counter() for target in targets}
    size: Counter[str] = Counter()
    for name, text in cases:
        module, kind, detail = loaded(text)
        for target in targets:
            if module is not None:
                kind, detail, count = object_outcome(module, target)
                size[target] += count
            counts[target][kind] += 1
            if kind in (UNDEFINED, FAILED):
                print(f"{kind:18} {name}, {target}: {' '.join(detail.split())[:300]}", flush=True)
    wrong = 0
    for target in targets:
        found = counts[target]
        tried = len(cases) - found[UNDECLARED] - found[UNSUPPORTED]
        wrong += tried - found[OK]
        listed = ", ".join(f"{n} {kind}" for kind, n in found.most_common())
        print(f"objects for {target}: {found[OK]} of {tried} stand alone, {size[target]} bytes; {listed}")
    print(f"{time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0
