"""Writes failures to disk: the message, the program, its arguments, and the reduced program."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from axla.comparison import parameter_leaves, random_inputs
from axla.core.errors import InvalidArgument
from axla.lowering.donation import donate_parameters
from axla.text import parse_hlo
from axla.tools.arrays import raw_items
from axla.tools.reduce import test_text

from .oracles import ORACLES
from .work import Failure, headline

SCRIPT = Path(__file__).resolve().parents[1] / "fuzz"
KEPT = 2
"""The number of failures with the same signature that are written."""


class Files:
    """A folder of failures. Of those with the same signature, the first KEPT are written."""

    def __init__(self, folder: Path, reduces: bool) -> None:
        self.folder, self.reduces = folder, reduces
        self.kept: Counter[str] = Counter()
        self.waiting: list[tuple[Path, Failure]] = []

    def add(self, failure: Failure, when: str) -> None:
        self.kept[failure.signature] += 1
        if self.kept[failure.signature] > KEPT:
            return
        where = self.folder / f"{failure.oracle}-{failure.seed.replace(':', '-')}"
        where.mkdir(parents=True, exist_ok=True)
        again = f"scripts/fuzz --case {failure.seed} --oracle {failure.oracle}"
        (where / "what.txt").write_text(f"{failure.why}\n\nfamily: {failure.family}\nagain: {again}\n")
        if failure.text:
            (where / "original.hlo").write_text(failure.text)
            np.savez(where / "inputs.npz", *map(raw_items, failure.inputs))
        if self.kept[failure.signature] == 1 and failure.oracle in ORACLES:
            self.waiting.append((where, failure))
        print(f"\n--- {where}: {failure.oracle}, case {failure.seed}, {failure.family}, {when}", flush=True)
        print("\n".join(failure.why.strip().splitlines()[-4:])[:1200], flush=True)

    def reduce(self, most: int) -> None:
        """Reduces one failure of each signature, for the first `most` signatures. Ctrl-C stops it."""
        for where, failure in self.waiting[:most] if self.reduces else ():
            try:
                self._reduce(where, failure)
            except KeyboardInterrupt:
                return
            except Exception as error:  # noqa: BLE001  (the failure is reported, reduced or not)
                print(f"{where}: not reduced: {type(error).__name__}: {error}"[:300], flush=True)

    def _reduce(self, where: Path, failure: Failure) -> None:
        from .cases import case_of
        from .reducing import (
            arguments,
            backend_of,
            bisected,
            compiled_how,
            reduced,
            smallest_apart,
            steady,
        )  # fmt: skip

        asked = (failure.oracle, failure.seed, failure.family, failure.why)
        reduces, load = ORACLES[failure.oracle].reduces, []
        if reduces:
            case = case_of(failure.seed)
            module, inputs = case.module, case.inputs
            if failure.oracle == "threads":
                asked = steady(module, inputs, *asked)
            try:
                small = reduced(module, inputs, *asked)
            except InvalidArgument:  # it does not fail again: perhaps a race between threads
                asked = steady(module, inputs, *asked)
                small = reduced(module, inputs, *asked)
        else:
            module = parse_hlo(failure.text)
            inputs = random_inputs(module)
            small = smallest_apart(module)
        before, after = (sum(len(c.instructions) for c in m.computations) for m in (module, small))
        names = [name for name, _ in parameter_leaves(module)]
        left = arguments(small, list(zip(names, inputs, strict=True)))
        items = zip((n for n, _ in parameter_leaves(small)), map(raw_items, left), strict=True)
        np.savez(where / "reduced.npz", **dict(items))
        if reduces:
            given = [(n, a) for (n, _), a in zip(parameter_leaves(small), left, strict=True)]
            small, text, donated = compiled_how(small, given, *asked)
            donate_parameters(small, donated)
            if text:
                (where / "compiled.py").write_text(text)
                load = [str(where / "compiled.py")]
        run = f"axla check --backend {backend_of(failure.oracle)}"
        run += " --inputs reduced.npz" if reduces else ""
        run += " --load compiled.py" if load else ""
        (where / "reduced.hlo").write_text(
            test_text(small, run, f"{failure.oracle}: {headline(failure.why)}")
        )
        print(f"{where}/reduced.hlo: {after} instructions of {before}", flush=True)
        found = bisected(small, left, failure.oracle, load)
        (where / "bisect.txt").write_text(f"{found}\n")
        print(found.splitlines()[0], flush=True)

    def close(self) -> None:
        for signature, count in self.kept.most_common():
            print(f"  {count:4} times {signature}")
