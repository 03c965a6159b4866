"""Runs several programs of one participant each at the same time. They communicate by collectives and
transfers.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from axla.backends.interface import BACKENDS
from axla.backends.native import run_together
from axla.backends.options import CompileOptions, ExecuteOptions
from axla.core.shape import Shape
from axla.custom.feeds import feeds
from axla.custom.site import CallSite, nest
from axla.ir.graph import Module
from axla.program.packed import Packed
from axla.runtime.array import Array
from axla.runtime.grid import Grid
from axla.runtime.program import LoadedProgram
from axla.text.parser import parse_hlo

CompileFunction = Callable[[Module, CompileOptions], Packed]
"""A function that compiles a module to machine code."""
_devices = itertools.count(1 << 20, 1 << 10)
"""The number of the first device for each set of programs that a run calls. The devices of the run itself are
busy with it.
"""


class Programs:
    """Loaded programs for cpu: one per replica and partition, on consecutive devices from number `first`
    on.
    """

    def __init__(self, rows: Sequence[Sequence[Module]], compiled: CompileFunction, first: int = 0) -> None:
        self.counts = len(rows), len(rows[0])
        options = CompileOptions(num_replicas=self.counts[0], num_partitions=self.counts[1])
        made = {module: compiled(module, options) for row in rows for module in row}
        self.first = first
        every = [made[module] for row in rows for module in row]
        self.programs = [
            LoadedProgram(one.images, one.interface.of_code(), one.constants, None, first + number, number)
            for number, one in enumerate(every)
        ]

    def run(self, arguments: Sequence[Sequence[Any]], deadline: float | None = None) -> list[list[Array]]:
        """Runs all programs at the same time. `arguments` has a row for each program; returns the results of
        each program. `deadline` limits the run, in seconds.
        """
        grid = Grid(*self.counts, range(self.first, self.first + len(self.programs)))
        return run_together(self.programs, arguments, grid, ExecuteOptions(deadline))


def run_parallel(compiled: CompileFunction, *operands: Any, site: CallSite) -> Any:
    """The function of a custom call that runs several programs; they are in its configuration. Its operands
    are the arguments of the first program, then of the second, and so on; its result has all results in the
    same order.
    """
    programs, infeed = _programs(compiled, site.config)
    rest = iter(operand for operand in operands if operand is not None)  # without tokens
    arguments = [list(islice(rest, len(p.interface.parameters))) for p in programs.programs]
    feed = feeds(programs.first).infeed
    for module in infeed:
        client = BACKENDS.get("cpu").client
        feed.put(tuple(np.asarray(a) for a in client.compile(module).execute([])))
    found = (np.asarray(leaf) for row in programs.run(arguments) for leaf in row)
    leaves = [next(found) if isinstance(leaf, Shape) else None for leaf in site.result.leaves()]
    return nest(site.result, iter(leaves))


@lru_cache(maxsize=64)
def _programs(compiled: CompileFunction, config: str) -> tuple[Programs, list[Module]]:
    said = json.loads(config)
    modules = [parse_hlo(text) for text in said["texts"]]
    rows = [[modules[n] for n in row] for row in said["programs"]]
    first = next(_devices)  # the devices of the run that calls this are busy
    return Programs(rows, compiled, first), [modules[n] for n in said["infeed"]]
