"""The sections that run programs: texts with recorded outputs of XLA:CPU, modules of one op, models."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from axla.ir.graph import Module
from axla.text import parse_hlo
from conformance_lib.corpora import require
from conformance_lib.section import (
    DIFFERS,
    OK,
    Running,
    load_module,
    run_flat,
)

BACKENDS = ("interpreter", "cpu", "one-lane")
SENSITIVE = "differs, as XLA itself does"

Inputs = Callable[[], list[np.ndarray]]
Check = Callable[[Module, list[np.ndarray]], str]


class Programs(Running):
    """A section whose cases have a text, inputs, and a check of the results."""

    name = ""
    corpus = ""
    backends = BACKENDS
    good = frozenset({OK})

    def __init__(self) -> None:
        self.root = require(self.corpus)
        self.compare = load_module(self.root / "tools" / "compare.py", "corpus_compare")

    def text(self, case: str) -> str:
        raise NotImplementedError

    def module(self, case: str) -> Module:
        return parse_hlo(self.text(case))

    def data(self, case: str, backend: str) -> tuple[Inputs, Check]:
        raise NotImplementedError

    def ready(self, case: str, backend: str) -> tuple[Callable[[Module], list[np.ndarray]], Check]:
        inputs, check = self.data(case, backend)
        values = inputs()

        def run(module: Module) -> list[np.ndarray]:
            return self.results(module, values, backend)

        return run, check

    def results(self, module: Module, inputs: list[np.ndarray], backend: str) -> list[np.ndarray]:
        return run_flat(module, inputs, backend)

    def against(self, path: Path, types: Sequence[str]) -> Check:
        """Returns a check against the results that are recorded in a file, with these element types."""

        def check(module: Module, found: list[np.ndarray]) -> str:
            with np.load(path) as data:
                recorded = [data[f"out{k}"] for k in range(len(data.files))]
            wanted = [self.compare.decode(w, t) for w, t in zip(recorded, types, strict=True)]
            return self.differences(found, wanted)

        return check

    def differences(self, found: list[np.ndarray], wanted: list[np.ndarray]) -> str:
        if len(found) != len(wanted):
            return f"{len(found)} results, {len(wanted)} are wanted"
        for number, (a, e) in enumerate(zip(found, wanted, strict=True)):
            if a.dtype != e.dtype:
                return f"result {number}: {a.dtype}, {e.dtype} is wanted"
            with np.errstate(all="ignore"):
                right, why = self.compare.close(a, e, e.dtype.name)
            if not right:
                return f"result {number}: {why}"
        return ""


class Exec(Programs):
    """The texts in exec/, compared with XLA's recorded outputs."""

    name = "exec"
    corpus = "hlo-open"

    def __init__(self) -> None:
        super().__init__()
        self.recipe = load_module(self.root / "tools" / "hlo_inputs.py", "corpus_inputs")
        with (self.root / "manifest.csv").open(newline="") as file:
            self.rows = {row["id"]: row for row in csv.DictReader(file)}

    def cases(self) -> Sequence[str]:
        return list(self.rows)

    def text(self, case: str) -> str:
        return (self.root / "exec" / f"{case}.hlo").read_text()

    def different(self, case: str) -> str:
        return SENSITIVE if self.rows[case]["stability"].startswith("sensitive") else DIFFERS

    def data(self, case: str, backend: str) -> tuple[Inputs, Check]:
        row = self.rows[case]

        def inputs() -> list[np.ndarray]:
            leaves = [re.fullmatch(r"(\w+)\[([\d,<=]*)\]", p) for p in row["params"].split(";") if p]
            made = [
                self.recipe.make_input(
                    int(row["seed"]), k, m[1], [d.strip("<=") for d in m[2].split(",") if d]
                )
                for k, m in enumerate(leaves)
                if m
            ]
            digest = hashlib.sha256(b"".join(a.tobytes() for a in made)).hexdigest()[:16]
            if digest != row["inputs_sha256_16"]:
                raise ValueError(f"{case}: the inputs are not those of the recording")
            return made

        types = re.split(r"[;,\s]+", row["out_dtypes"].strip())
        return inputs, self.against(self.root / "expected" / f"{case}.npz", types)


class Matrix(Programs):
    """Modules of one op on special values: NaN, infinities, -0, the smallest and largest integers."""

    name = "matrix"
    corpus = "hlo-open"

    # Names of element types whose arrays are stored as bits.
    STORED = {
        "pred": "bool", "bf16": "bfloat16", "f8e5m2": "float8_e5m2", "f8e4m3fn": "float8_e4m3fn",
        "s4": "int4", "u4": "uint4",
    }  # fmt: skip
    TOLERANCE = {
        "float64": 1e-12, "complex128": 1e-12, "float32": 1e-5, "complex64": 1e-5, "float16": 2e-3,
        "bfloat16": 1.6e-2,
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        lines = (self.root / "matrix.jsonl").read_text().splitlines()
        self.rows = {row["id"]: row for row in map(json.loads, lines)}

    def cases(self) -> Sequence[str]:
        return list(self.rows)

    def text(self, case: str) -> str:
        return (self.root / "matrix" / f"{case}.hlo").read_text()

    def data(self, case: str, backend: str) -> tuple[Inputs, Check]:
        row = self.rows[case]
        with np.load(self.root / "matrix" / f"{case}.npz") as data:
            raw = {key: data[key] for key in data.files}

        def stored(key: str, dtype: str) -> np.ndarray:
            return self.compare.decode(raw[key], self.STORED.get(dtype, raw[key].dtype.name))

        def inputs() -> list[np.ndarray]:
            return [stored(f"in{k}", dtype) for k, dtype in enumerate(row["ins"])]

        def check(module: Module, found: list[np.ndarray]) -> str:
            return self.special(found[0], stored("out0", row["res"]))

        return inputs, check

    def special(self, found: np.ndarray, wanted: np.ndarray) -> str:
        """The difference by the rule of this section: a relative tolerance, and as absolute tolerance the
        smallest normal number. "" if there is none.
        """
        if wanted.dtype.kind in "biu" or wanted.dtype.name in ("int4", "uint4"):
            same = np.asarray(found == wanted)
        elif wanted.dtype.kind == "c":
            return self.special(found.real, wanted.real) or self.special(found.imag, wanted.imag)
        else:
            import ml_dtypes

            with np.errstate(all="ignore"):
                tiny = float(ml_dtypes.finfo(wanted.dtype).smallest_normal)
                tolerance = self.TOLERANCE.get(wanted.dtype.name, 0.13)
                a, e = found.astype(np.float64), wanted.astype(np.float64)
                near = np.isfinite(a) & np.isfinite(e) & (np.abs(a - e) <= tiny + tolerance * np.abs(e))
                same = (a == e) | (np.isnan(a) & np.isnan(e)) | near
        if same.all():
            return ""
        at = int(np.argmax(~same))
        return (
            f"{int((~same).sum())}/{same.size} differ, first at {at}: {found.flat[at]} vs {wanted.flat[at]}"
        )


class Models(Programs):
    """Whole programs: one step is compared with recorded results, and the losses of training step by step."""

    name = "models"
    corpus = "models-open"

    def cases(self) -> Sequence[str]:
        return sorted(path.parent.name for path in self.root.glob("*/meta.json"))

    def text(self, case: str) -> str:
        return (self.root / case / "module.hlo.txt").read_text()

    def data(self, case: str, backend: str) -> tuple[Inputs, Check]:
        folder: Path = self.root / case
        meta = json.loads((folder / "meta.json").read_text())
        with np.load(folder / "data.npz") as data:
            arrays = {key: data[key] for key in data.files}
        given = [self.compare.decode(arrays[f"in{k}"], a["dtype"]) for k, a in enumerate(meta["args"])]
        wanted = [self.compare.decode(arrays[f"out{k}"], r["dtype"]) for k, r in enumerate(meta["results"])]

        def check(module: Module, found: list[np.ndarray]) -> str:
            return self.differences(found, wanted) or self.trace_differs(meta, list(given), module, backend)

        return lambda: list(given), check

    def trace_differs(
        self, meta: dict[str, Any], state: list[np.ndarray], module: Module, backend: str
    ) -> str:
        """Runs the training steps of a model; returns the difference from the recorded losses, "" if there is
        none.
        """
        import axla

        if not meta.get("trace"):
            return ""
        program = axla.compile(module, backend=backend, replicas="first")
        for step, loss in enumerate(meta["trace"]):
            found = program.execute(state)
            for result, argument in meta["state_map"]:
                state[argument] = np.asarray(found[result])
            value = float(np.asarray(found[meta["trace_out"]]))
            if abs(value - loss) > (1e-3 if step < 10 else 2e-2) * abs(loss):
                return f"training step {step}: loss {value}, {loss} is wanted"
        return ""
