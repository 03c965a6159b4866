"""The sections for several devices: programs per device, programs that JAX partitioned, and rejected
programs.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

import axla
from axla.core.errors import AxlaError, UnsupportedError
from axla.ir.graph import Module
from conformance_lib.corpora import require
from conformance_lib.section import (
    OK,
    UNSUPPORTED,
    Outcome,
    Running,
    kind_of,
    said,
)
from conformance_lib.texts import ACCEPTED

STORED = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
"""Element types whose bits are stored as u16."""

Rows = list[list[np.ndarray]]


class Devices(Running):
    """HLO programs for several devices, each with its own arguments and results."""

    name = "devices"
    folder = "hlo"
    file = "module.hlo"
    backends: tuple[str, ...] = ("interpreter", "cpu")
    good = frozenset({OK})

    def __init__(self) -> None:
        self.root = require("devices-open")
        with (self.root / "manifest.csv").open(newline="") as file:
            self.names = [row["name"] for row in csv.DictReader(file) if row["section"] == self.folder]

    def cases(self) -> Sequence[str]:
        return self.names

    def ready(
        self, case: str, backend: str
    ) -> tuple[Callable[[Module], Rows], Callable[[Module, Rows], str]]:
        meta = self.meta(case)
        given, wanted = self.data(case, meta)

        def run(module: Module) -> Rows:
            return self.results(module, meta, given, backend)

        def check(module: Module, found: Rows) -> str:
            return differences(found, wanted, meta)

        return run, check

    def meta(self, case: str) -> dict[str, Any]:
        return json.loads((self.root / self.folder / case / "meta.json").read_text())

    def module(self, case: str) -> Module:
        return axla.parse((self.root / self.folder / case / self.file).read_bytes())

    def data(self, case: str, meta: dict[str, Any]) -> tuple[Rows, Rows]:
        """The arguments and the expected results, for each device."""
        count = meta["devices"]
        given, wanted = (arrays(self.root / self.folder / case / name) for name in ("in.npz", "out.npz"))
        return per_device(given, meta["args"], count), per_device(wanted, meta["results"], count)

    def results(self, module: Module, meta: dict[str, Any], given: Rows, backend: str) -> Rows:
        program = axla.compile(
            module, backend=backend, num_replicas=meta["replicas"], num_partitions=meta["partitions"]
        )
        return [[np.asarray(a) for a in row] for row in program.execute_replicated(given)]


class Partitioned(Devices):
    """Programs with manual partitioning by JAX (shard_map): each partition reads and returns slices of
    arrays.
    """

    name = "devices-jax"
    folder = "jax"
    file = "module.mlir"

    def data(self, case: str, meta: dict[str, Any]) -> tuple[Rows, Rows]:
        folder, count = self.root / self.folder / case, meta["devices"]
        given, wanted = (whole(arrays(folder / name)) for name in ("in.npz", "out.npz"))
        given = [view(a, t) for a, t in zip(given, meta["args"], strict=True)]
        wanted = [view(a, t) for a, t in zip(wanted, meta["results"], strict=True)]
        return cut(given, meta["args_slices"], count), cut(wanted, meta["results_slices"], count)


class PartitionedBytecode(Partitioned):
    """The programs of `Partitioned`, as the bytecode that a PJRT plugin receives."""

    name = "devices-bytecode"
    file = "module.pjrt.bc"


class Auto(Partitioned):
    """Programs with shardings, for an automatic partitioner. They run whole on one device."""

    name = "devices-auto"
    folder = "auto"

    def data(self, case: str, meta: dict[str, Any]) -> tuple[Rows, Rows]:
        folder = self.root / self.folder / case
        given, wanted = (whole(arrays(folder / name)) for name in ("in.npz", "out.npz"))
        given = [view(a, t) for a, t in zip(given, meta["args"], strict=True)]
        return [given], [[view(a, t) for a, t in zip(wanted, meta["results"], strict=True)]]

    def results(self, module: Module, meta: dict[str, Any], given: Rows, backend: str) -> Rows:
        program = axla.compile(module, backend=backend, replicas="first")
        return [[np.asarray(a) for a in program.execute(given[0])]]


class AfterPartitioner(Partitioned):
    """The programs of `Auto` after XLA's partitioner."""

    name = "devices-spmd"
    folder = "auto"
    file = "after_spmd.hlo"


class InvalidDevices(Devices):
    """Programs for several devices that XLA rejects before a run."""

    name = "devices-invalid"
    folder = "invalid"

    def run(self, case: str, backend: str) -> Outcome:
        meta, folder = self.meta(case), self.root / self.folder / case
        begin = time.perf_counter()
        kind, detail = ACCEPTED, meta["message"][:200]
        try:
            (path,) = folder.glob("module.*")
            axla.compile(
                axla.parse(path.read_bytes()), backend=backend, num_replicas=meta["replicas"],
                num_partitions=meta["partitions"],
            )  # fmt: skip
        except UnsupportedError as error:
            kind, detail = UNSUPPORTED, said(error)
        except AxlaError as error:
            kind, detail = OK, said(error)
        except Exception as error:
            kind, detail = kind_of(error), said(error)
        return Outcome(self.name, case, backend, kind, detail, time.perf_counter() - begin)


@lru_cache(maxsize=4)
def arrays(path: Any) -> dict[str, np.ndarray]:
    with np.load(path) as data:
        return {key: data[key] for key in data.files}


def whole(found: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [found[f"g{k}"] for k in range(len(found))]


def view(array: np.ndarray, text: str) -> np.ndarray:
    """Converts a stored array to the element type at the beginning of `text`, such as bf16[2,3]."""
    kind = text.partition("[")[0]
    return array.view(STORED[kind]) if kind in STORED else array.astype(bool) if kind == "pred" else array


def per_device(found: dict[str, np.ndarray], types: Sequence[str], count: int) -> Rows:
    """The arrays of each device: `dD_aK` is array K of device D, `aK` is array K of all devices."""
    return [
        [view(found.get(f"d{d}_a{k}", found.get(f"a{k}")), t) for k, t in enumerate(types)]
        for d in range(count)
    ]


def cut(given: Sequence[np.ndarray], slices: Any, count: int) -> Rows:
    """The slices of whole arrays that each partition has."""
    return [
        [a[tuple(slice(b, e) for b, e in slices[k][d])] for k, a in enumerate(given)] for d in range(count)
    ]


def differences(found: Rows, wanted: Rows, meta: dict[str, Any]) -> str:
    if len(found) != len(wanted):
        return f"results of {len(found)} devices, {len(wanted)} are wanted"
    for device, (row, right) in enumerate(zip(found, wanted, strict=True)):
        if len(row) != len(right):
            return f"device {device}: {len(row)} results, {len(right)} are wanted"
        for k, (a, e) in enumerate(zip(row, right, strict=True)):
            why = difference(a, e, meta)
            if why:
                return f"device {device}, result {k}: {why}"
    return ""


def difference(a: np.ndarray, e: np.ndarray, meta: dict[str, Any]) -> str:
    """The difference between two arrays, by the rule of the corpus: a relative tolerance, and one that is
    relative to the largest finite element; other values must be equal. "" if there is none.
    """
    if a.dtype != e.dtype or a.shape != e.shape:
        return f"{a.dtype}{list(a.shape)}, {e.dtype}{list(e.shape)} is wanted"
    if e.dtype.kind in "biu":
        same = a == e
    else:
        wide = np.complex128 if e.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            x, y = a.astype(wide), e.astype(wide)
            finite = np.isfinite(y)
            largest = float(np.abs(y[finite]).max(initial=0.0))
            near = np.abs(x - y) <= meta["rtol"] * np.abs(y) + meta["atol_of_max"] * largest
            same = np.where(finite, near, (x == y) | (np.isnan(x) & np.isnan(y)))
    if np.all(same):
        return ""
    at = int(np.argmin(same))
    return f"{int((~same).sum())} of {same.size} differ, at {at}: {a.flat[at]}, {e.flat[at]} is wanted"
