"""Failures on disk: fuzz-out/ORACLE-SEED-NUMBER has what was found, the program, its arguments, and both reduced."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from .work import Failure

SCRIPT = Path(__file__).resolve().parents[1] / "fuzz"
KEPT = 2
"""Of failures that look the same."""


class Files:
    """A folder of failures; the first ones of every kind are written."""

    def __init__(self, folder: Path, reduces: bool) -> None:
        self.folder, self.reduces = folder, reduces
        self.kept: Counter[str] = Counter()

    def add(self, failure: Failure) -> None:
        self.kept[failure.signature] += 1
        if self.kept[failure.signature] > KEPT:
            return
        where = self.folder / f"{failure.oracle}-{failure.seed.replace(':', '-')}"
        where.mkdir(parents=True, exist_ok=True)
        again = f"scripts/fuzz --case {failure.seed} --oracle {failure.oracle}"
        (where / "what.txt").write_text(f"{failure.why}\n\nfamily: {failure.family}\nagain: {again}\n")
        if failure.text:
            (where / "original.hlo").write_text(failure.text)
            np.savez(where / "inputs.npz", *failure.inputs)
        print(f"\n--- {where}: {failure.oracle}, case {failure.seed}, {failure.family}", flush=True)
        print("\n".join(failure.why.strip().splitlines()[-4:])[:1200], flush=True)

    def close(self) -> None:
        for signature, count in self.kept.most_common():
            print(f"  {count:4} times {signature}")
