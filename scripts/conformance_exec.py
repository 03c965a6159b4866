"""The executable cases of the corpora: texts with recorded XLA:CPU outputs, one-op modules, models.

    python scripts/conformance exec   [--backend interpreter] [--only REGEX] [--list]
    python scripts/conformance matrix ...
    python scripts/conformance models ...

Cases whose text uses an op that is not declared are counted apart.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import importlib.util
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from conformance_corpora import corpus

import axla.hlo  # noqa: F401  (declares the ops)
from axla.core.errors import AxlaError, UnsupportedError

Runner = Callable[[object, list[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Outcome:
    """What came of a case: ok, undeclared, or why it failed."""

    case: str
    kind: str
    detail: str = ""
    seconds: float = 0.0


def tool(root: Path, name: str):
    """A module of the corpus' own tools: its input recipe and its comparison."""
    spec = importlib.util.spec_from_file_location(f"corpus_{name}", root / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def interpreter(module, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Runs a module whose parameters, flattened, are `inputs`; gives the flattened result."""
    from axla.interpreter import evaluate

    result = evaluate(module, arguments(module, inputs), deadline=20)
    return [leaf.array for leaf in result.leaves() if leaf.shape.is_array]


def compiled(**options) -> Runner:
    """A backend of `axla.compile`."""

    def run(module, inputs: list[np.ndarray]) -> list[np.ndarray]:
        import axla

        executable = axla.compile(module, **options)
        return [np.asarray(a) for a in executable.execute(inputs)]

    return run


BACKENDS: dict[str, Runner] = {
    "interpreter": interpreter,
    "cpu": compiled(backend="cpu"),
    "one-lane": compiled(backend="one-lane"),
}


def arguments(module, inputs: Sequence[np.ndarray]) -> list[object]:
    """The flat inputs as the parameters want them: tuples nested again."""
    rest = iter(inputs)

    def take(shape):
        if shape.is_tuple:
            return tuple(take(e) for e in shape.elements)
        return next(rest) if shape.is_array else None

    return [take(p.shape) for p in module.entry.parameters]


def attempt(
    name: str, text: str, inputs: Callable[[], list[np.ndarray]], check: Callable, run: Runner
) -> Outcome:
    """Parses, verifies and runs one case, and compares."""
    from axla.ir.verify import verify
    from axla.text import parse_hlo

    begin = time.perf_counter()
    try:
        module = parse_hlo(text)
    except UnsupportedError as error:
        return Outcome(name, "undeclared", error.message)
    except AxlaError as error:
        return Outcome(name, "parse", str(error))
    try:
        verify(module)
    except AxlaError as error:
        return Outcome(name, "verify", str(error))
    try:
        found = run(module, inputs())
        problem = check(found)
    except AxlaError as error:
        return Outcome(name, type(error).__name__, str(error))
    seconds = time.perf_counter() - begin
    return Outcome(name, "differs" if problem else "ok", problem, seconds)


def exec_cases(root: Path, run: Runner, only: str) -> Iterator[Outcome]:
    """The texts under exec/ against XLA's recorded outputs."""
    recipe, compare = tool(root, "hlo_inputs"), tool(root, "compare")
    with open(root / "manifest.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        name = row["id"]
        if not re.search(only, name):
            continue

        def inputs(row: dict[str, str] = row) -> list[np.ndarray]:
            leaves = [re.fullmatch(r"(\w+)\[([\d,<=]*)\]", p) for p in row["params"].split(";") if p]
            made = [
                recipe.make_input(int(row["seed"]), k, m[1], [d.strip("<=") for d in m[2].split(",") if d])
                for k, m in enumerate(leaves)
                if m
            ]
            digest = hashlib.sha256(b"".join(a.tobytes() for a in made)).hexdigest()[:16]
            if digest != row["inputs_sha256_16"]:
                raise ValueError(f"{row['id']}: the inputs are not those of the recording")
            return made

        def check(found: list[np.ndarray], row: dict[str, str] = row) -> str:
            with np.load(root / "expected" / f"{row['id']}.npz") as data:
                wanted = [data[f"out{k}"] for k in range(len(data.files))]
            types = re.split(r"[;,\s]+", row["out_dtypes"].strip())
            return differences(
                compare, found, [compare.decode(w, t.strip()) for w, t in zip(wanted, types, strict=False)]
            )

        outcome = attempt(name, (root / "exec" / f"{name}.hlo").read_text(), inputs, check, run)
        if outcome.kind == "differs" and row["stability"].startswith("sensitive"):
            outcome = Outcome(name, "differs (sensitive)", outcome.detail, outcome.seconds)
        yield outcome


def differences(compare, found: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} results, {len(wanted)} are wanted"
    for number, (a, e) in enumerate(zip(found, wanted, strict=True)):
        with np.errstate(all="ignore"):
            right, why = compare.close(a, e, e.dtype.name)
        if not right:
            return f"result {number}: {why}"
    return ""


TOLERANCE = {
    "float64": 1e-12,
    "complex128": 1e-12,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
}


def matrix_cases(root: Path, run: Runner, only: str) -> Iterator[Outcome]:
    """One-op modules on special values."""
    compare = tool(root, "compare")
    names = {
        "pred": "bool",
        "bf16": "bfloat16",
        "f8e5m2": "float8_e5m2",
        "f8e4m3fn": "float8_e4m3fn",
        "s4": "int4",
        "u4": "uint4",
    }
    for line in (root / "matrix.jsonl").read_text().splitlines():
        row = json.loads(line)
        name = row["id"]
        if not re.search(only, name):
            continue
        with np.load(root / "matrix" / f"{name}.npz") as data:
            raw = {key: data[key] for key in data.files}
        inputs = [
            compare.decode(raw[f"in{k}"], names.get(t, raw[f"in{k}"].dtype.name))
            for k, t in enumerate(row["ins"])
        ]
        wanted = compare.decode(raw["out0"], names.get(row["res"], raw["out0"].dtype.name))

        def check(found: list[np.ndarray], wanted: np.ndarray = wanted) -> str:
            return special(found[0], wanted)

        yield attempt(
            name, (root / "matrix" / f"{name}.hlo").read_text(), lambda inputs=inputs: inputs, check, run
        )


def special(found: np.ndarray, wanted: np.ndarray) -> str:
    """The matrix' own rule: relative tolerance only, one smallest normal absolute."""
    if wanted.dtype.kind in "biu" or wanted.dtype.name in ("int4", "uint4"):
        same = np.asarray(found == wanted)
    elif wanted.dtype.kind == "c":
        first, second = special(found.real, wanted.real), special(found.imag, wanted.imag)
        return first or second
    else:
        import ml_dtypes

        with np.errstate(all="ignore"):
            tiny = float(ml_dtypes.finfo(wanted.dtype).smallest_normal)
            tolerance = TOLERANCE.get(wanted.dtype.name, 0.13)
            a, e = found.astype(np.float64), wanted.astype(np.float64)
            near = np.isfinite(a) & np.isfinite(e) & (np.abs(a - e) <= tiny + tolerance * np.abs(e))
            same = (a == e) | (np.isnan(a) & np.isnan(e)) | near
    if same.all():
        return ""
    at = int(np.argmax(~same))
    return f"{int((~same).sum())}/{same.size} differ, first at {at}: {found.flat[at]} vs {wanted.flat[at]}"


def model_cases(root: Path, run: Runner, only: str) -> Iterator[Outcome]:
    """Whole programs: one step against recorded results, training traces step by step."""
    compare = tool(root, "compare")
    for folder in sorted(p.parent for p in root.glob("*/meta.json")):
        if not re.search(only, folder.name):
            continue
        meta = json.loads((folder / "meta.json").read_text())
        with np.load(folder / "data.npz") as data:
            arrays = {key: data[key] for key in data.files}
        inputs = [compare.decode(arrays[f"in{k}"], a["dtype"]) for k, a in enumerate(meta["args"])]
        wanted = [compare.decode(arrays[f"out{k}"], r["dtype"]) for k, r in enumerate(meta["results"])]

        def check(
            found: list[np.ndarray],
            meta: dict = meta,
            inputs: list = inputs,
            wanted: list = wanted,
            folder: Path = folder,
        ) -> str:
            problem = differences(compare, found, wanted)
            return problem or trace_differs(meta, list(inputs), (folder / "module.hlo.txt").read_text(), run)

        yield attempt(
            folder.name,
            (folder / "module.hlo.txt").read_text(),
            lambda inputs=inputs: list(inputs),
            check,
            run,
        )


def trace_differs(meta: dict, state: list[np.ndarray], text: str, run: Runner) -> str:
    """Runs the training steps of a model; what differs from the recorded losses."""
    from axla.text import parse_hlo

    module = parse_hlo(text)
    for step, loss in enumerate(meta.get("trace", ())):
        found = run(module, state)
        for result, argument in meta["state_map"]:
            state[argument] = found[result]
        value = float(found[meta["trace_out"]])
        if abs(value - loss) > (1e-3 if step < 10 else 2e-2) * abs(loss):
            return f"training step {step}: loss {value}, {loss} is wanted"
    return ""


SECTIONS = {
    "exec": ("hlo-open", exec_cases),
    "matrix": ("hlo-open", matrix_cases),
    "models": ("models-open", model_cases),
}


def main(section: str, options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"conformance {section}", description=__doc__)
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="interpreter")
    parser.add_argument("--only", default="", help="run cases whose name matches this regular expression")
    parser.add_argument("--list", action="store_true", help="name the undeclared ones, and the slowest, too")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    chosen = parser.parse_args(options)
    name, cases = SECTIONS[section]
    root = corpus(name)
    if root is None:
        print(f"the corpus {name} is not at hand", file=sys.stderr)
        return 2
    outcomes = list(cases(root, BACKENDS[chosen.backend], chosen.only))
    return report(section, outcomes, chosen)


def report(section: str, outcomes: list[Outcome], chosen: argparse.Namespace) -> int:
    counts = Counter(o.kind for o in outcomes)
    for o in outcomes:
        if o.kind != "ok" and (o.kind != "undeclared" or chosen.list):
            print(f"{o.kind:12} {o.case}: {' '.join(o.detail.split())[:300]}")
    if chosen.list:
        for o in sorted(outcomes, key=lambda o: -o.seconds)[:10]:
            print(f"{o.seconds:8.2f} s  {o.case}")
    if chosen.json:
        chosen.json.write_text(json.dumps([o.__dict__ for o in outcomes], indent=1))
    ran = len(outcomes) - counts["undeclared"]
    share = 100 * counts["ok"] / ran if ran else 0.0
    listed = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    print(
        f"{section} on {chosen.backend}: {counts['ok']} of {ran} agree ({share:.1f} %); "
        f"{len(outcomes)} cases: {listed}"
    )
    return 0 if counts["ok"] == ran else 1
