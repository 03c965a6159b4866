"""Records inputs and results of functions, for the self-test of a library."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from axla.aot.library import CompiledLibrary, LibraryFunction
from axla.aot.objects import stand_alone
from axla.codegen.host import host_target
from axla.comparison import random_inputs
from axla.core.dataclass import dataclass
from axla.core.errors import DeadlineExceeded, InvalidArgument, RuntimeFailure
from axla.ir.clone import clone_module
from axla.target.machine import X86_LEVELS, CpuTarget

SEED = 2017
LONGEST = 60.0
"""The largest number of seconds that a run for a recording may take."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded call of a function: an array for each argument, for each result, and for each argument that
    is written in place (None for other arguments). `exact`: whether the library computes the same bits; if
    not, the results are those of another machine.
    """

    arguments: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]
    variables: tuple[np.ndarray | None, ...]
    exact: bool


def record(
    library: CompiledLibrary, inputs: tuple[tuple[np.ndarray, ...] | None, ...]
) -> tuple[Recording, ...]:
    """A recording per function: the JIT's results for the inputs, or for random inputs where `inputs` has
    None.
    """
    here = runs_as(library.target)
    return tuple(
        _recording(function, given, here or _plain(host_target()), here is not None)
        for function, given in zip(library.functions, inputs, strict=True)
    )


def _plain(host: CpuTarget) -> CpuTarget:
    """The target for recordings when the library's code cannot run here: on x86-64 the oldest level, so that
    every host computes the same numbers; elsewhere the host.
    """
    if host.name not in X86_LEVELS:
        return host
    return replace(X86_LEVELS["x86-64"], triple=host.triple, form=host.form)


def _recording(
    function: LibraryFunction, inputs: tuple[np.ndarray, ...] | None, target: CpuTarget, exact: bool
) -> Recording:
    from axla.backends.native import NativeExecutable
    from axla.cpu.compiler import compile_module

    arguments = tuple(inputs if inputs is not None else random_inputs(function.module, SEED))
    work = clone_module(function.module)
    stand_alone(work)
    compiled = compile_module(work, target)
    executable = NativeExecutable(compiled.images, compiled.interface, compiled.constants)
    try:
        found = [array.to_numpy() for array in executable.execute(arguments, deadline=LONGEST)]
    except RuntimeFailure as error:
        late = isinstance(error, DeadlineExceeded)
        why = f"did not end within {LONGEST:g} s" if late else f"failed ({error.message})"
        raise InvalidArgument(
            f"{function.name}: the run for the self-test {why}; give arguments "
            "for which it ends, or self_test=False (--no-self-test)"
        ) from None
    placed = {alias.result: alias.parameter for alias in function.interface.aliases}
    results = tuple(array for k, array in enumerate(found) if k not in placed)
    written = {placed[k]: array for k, array in enumerate(found) if k in placed}
    variables = tuple(written.get(k) for k in range(len(arguments)))
    return Recording(arguments, results, variables, exact)


def runs_as(target: CpuTarget) -> CpuTarget | None:
    """The target with which this process computes the same bits as `target`; None when it cannot."""
    from axla.codegen.llvm import host_features

    host = host_target()
    same = target.cpu in X86_LEVELS and host.name in X86_LEVELS
    if not same and target.cpu != host.cpu:
        return None
    levels = [*X86_LEVELS]
    if same and levels.index(target.cpu) > levels.index(host.name):
        return None
    there = host_features()
    if any(f[0] == "+" and not there.get(f[1:], False) for f in target.features):
        return None
    return replace(target, triple=host.triple, form=host.form)
