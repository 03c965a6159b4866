"""A compilation, and a run, as data for a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from axla.backends import CompileOptions, Executable, get
from axla.core import flags
from axla.core.errors import CompileError, UnsupportedError
from axla.core.profile import profile
from axla.ir.graph import Module
from axla.target.machine import CpuTarget
from axla.tools.page import runs, stages


def of_executable(executable: Executable, *, code: bool = False) -> dict[str, Any]:
    """The page's data about an executable of the backend `cpu` or `one-lane`, whose module is compiled again.
    With `code`, the data includes LLVM and assembly.
    """
    target: Any = executable._target()
    work: Module = executable._work()  # type: ignore[attr-defined]
    with flags.override(**dict(executable.options.flags)):
        return of_work(work, target, code=code)


def of_module(module: Module, target: CpuTarget, *, code: bool = True) -> dict[str, Any]:
    """The page's data about a module and its compilation by the backend `cpu` for a target. If the
    compilation fails, the data has the stages before the failure, with a note. With `code`, it includes LLVM
    and assembly.
    """
    backend: Any = get("cpu")
    return of_work(backend.work(module, CompileOptions()), target, code=code)


def of_work(work: Module, target: CpuTarget, *, code: bool = True) -> dict[str, Any]:
    """The page's data about a prepared module: passes, program and code, or the reason why there is no
    program. With `code`, it includes LLVM and assembly.
    """
    data: dict[str, Any] = {}
    try:
        data = stages.of_passes(work, None, target)
        return data | stages.of_program(work, target, code=code)
    except (UnsupportedError, CompileError) as error:
        found = data or stages.of_module(work)
        return {**found, "notes": [f"not compiled: {error.message}"]}


def of_run(
    module: Module, inputs: list[list[Any]], repeat: int, feed: Callable[[Module], object]
) -> dict[str, Any]:
    """The page's data about `repeat` calls of a module with each set of inputs, on the backend `cpu`; all
    devices get the same inputs. `feed` fills the infeed before a call.
    """
    from axla.api import compile

    with profile() as taken:
        program = compile(module)
        for given in inputs * repeat:
            feed(module)
            for row in program.execute_replicated([given] * len(program.local_participants)):
                for array in row:
                    np.asarray(array)
    return runs.of_profile(taken)
