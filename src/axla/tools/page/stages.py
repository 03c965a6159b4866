"""The stages of a compilation as data for a page: passes, program, memory, kernels and their code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import axla
from axla.codegen.llvm import emit_assembly
from axla.core import limits
from axla.core.literal import Literal
from axla.cpu.compiler import checked_text, llvm_module, llvm_modules, publish_kernel
from axla.cpu.timed import row_of
from axla.ir.graph import Module
from axla.lowering.pipeline import optimize, program_of
from axla.passes import driver
from axla.passes.rewrite import RuleSession
from axla.passes.steps import Pass, Step
from axla.program.program import Program
from axla.program.steps import KernelStep
from axla.program.text import print_kernel, print_program
from axla.target.machine import CpuTarget, Target
from axla.tools.page.memory import LiveBlock, blocks, live_bytes, timed_steps
from axla.tools.page.records import States

ENTRY = "entry"
"""The name for the code outside of kernels."""


def of_module(module: Module) -> dict[str, Any]:
    """The page's data about a module that is not compiled."""
    states = States(module)
    states.add("")
    return {"title": module.name, "axla": axla.__version__, "notes": [], **states.to_data()}


class _Watch(driver.Observer):
    """Observes passes, and records the states between them."""

    def __init__(self, states: States) -> None:
        self.states = states
        self._start = 0

    def wants(self, step: Pass, module: Module, session: RuleSession) -> bool:
        session.fired = []
        self._start = time.perf_counter_ns()
        return True

    def ran(self, step: Pass, module: Module, session: RuleSession, changed: bool) -> None:
        if changed:
            self.states.add(str(step), time.perf_counter_ns() - self._start, session.fired or ())


def of_passes(module: Module, steps: Sequence[Step] | None, target: Target) -> dict[str, Any]:
    """The page's data about a module before and after each pass; the passes change the module. `steps` are
    the passes; None stands for those of the CPU pipeline.
    """
    watch = _Watch(States(module))
    watch.states.add("")
    with driver.observed(watch):
        if steps is None:
            optimize(module, target)
        else:
            driver.run(module, steps, target, name=watch.pipeline)
    return {
        "title": module.name, "axla": axla.__version__, "target": target.name, "notes": [],
        **watch.states.to_data(),
    }  # fmt: skip


def of_program(module: Module, target: CpuTarget, *, code: bool = True) -> dict[str, Any]:
    """The page's data about the program of an optimized module; with `code`, it includes LLVM and
    assembly.
    """
    constants: dict[Literal, int] = {}
    program = program_of(module, target, constants)
    kernels = {kernel.name: kernel for kernel in program.kernels}
    steps = timed_steps(program)
    found = blocks(program, steps)
    sizes = {"parameters": program.interface.parameters, "results": program.interface.results}
    rows = []
    for timed in steps:
        row = row_of(timed.step, kernels)
        kernel = timed.step.kernel if isinstance(timed.step, KernelStep) else ""
        rows.append([
            timed.name, row.kind, kernel, row.location, timed.first, timed.last, timed.depth, row.bytes,
            row.operations,
        ])  # fmt: skip
    return {
        "steps": rows,
        "memory": {
            **{name: sum(spec.bytes for spec in specs) for name, specs in sizes.items()},
            "constants": program.interface.constants_bytes, "workspace": program.interface.workspace_bytes,
            "blocks": [_block(block) for block in found],
            "live": live_bytes(found, len(steps)),
        },
        "kernels": [{"name": kernel.name, "kind": kernel.kind} for kernel in program.kernels],
        "code": texts(program, target, code=code),
    }  # fmt: skip


def _block(block: LiveBlock) -> list[Any]:
    place = block.place
    return [block.name, place.allocation.name, place.offset, place.size, block.first, block.last]


def texts(program: Program, target: CpuTarget, *, code: bool = True) -> dict[str, list[str]]:
    """Maps the names of the kernels, and ENTRY, to lists of texts: the part of the program, and with `code`
    LLVM and assembly.
    """
    found = {ENTRY: [print_program(program)]}
    for kernel in program.kernels:
        found[kernel.name] = [print_kernel(kernel)]
    if not code:
        return found
    found[ENTRY].append(llvm_modules(program, target)[0])
    for kernel in program.kernels:
        module = llvm_module(target)
        publish_kernel(module, kernel, target)
        found[kernel.name].append(checked_text(module, target))
    with ThreadPoolExecutor(limits.thread_count()) as pool:  # LLVM runs without Python's lock
        listed = [pool.submit(emit_assembly, mine[-1], target) for mine in found.values()]
        for mine, assembly in zip(found.values(), listed, strict=True):
            mine.append(assembly.result())
    return found
