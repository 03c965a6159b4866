"""Compiles samples of an op on all backends, to list the passes that expand the op and the errors."""

from __future__ import annotations

import axla
import axla.passes.pipelines as pipelines
from axla.codegen.host import host_target
from axla.core.errors import UnsupportedError
from axla.interpreter.evaluate import REGIONS
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.op import OPS
from axla.passes import driver
from axla.passes.steps import Pass
from axla.tools.samples import STARTS, main_type, modules_of
from docs_lib.examples import Example, lifted


def modules(opcode: str) -> list[Module]:
    """The example of the op, with its constants as parameters, and the samples of its declaration."""
    op, shapes = OPS[STARTS.get(opcode, opcode)].samples()[0]
    samples = [module for module, _ in modules_of(opcode, main_type(op, shapes))]
    return [lifted(Example.of(opcode).module)[0], *samples]


def count(module: Module, opcode: str) -> int:
    return sum(inst.opcode == opcode for c in module.computations for inst in c.instructions)


def expanded_by(opcode: str) -> list[str]:
    """The passes before simplification that replace the op by other ops."""
    found: dict[str, None] = {}
    for module in modules(opcode):
        copy = clone_module(module)
        for step in pipelines.IMPORT:
            assert isinstance(step, Pass)
            before = count(copy, opcode)
            try:
                driver.run(copy, (step,), host_target())
            except UnsupportedError:
                break
            if count(copy, opcode) < before:
                found[step.name] = None
    return list(found)


def interpreter(opcode: str) -> str:
    cls = OPS[opcode]
    if hasattr(cls, "evaluate"):
        return "`evaluate` of the declaration, with NumPy"
    if opcode == "parameter":
        return "the argument"
    return "a function of `axla.interpreter`" if cls in REGIONS else "not run"


def cpu(opcode: str) -> str:
    """The lowering of the op by the backends `cpu` and `one-lane`, which share a compiler, in words."""
    passes = ", ".join(f"`{name}`" for name in expanded_by(opcode))
    program, _ = lifted(Example.of(opcode).module)
    try:
        axla.compile(program)
    except UnsupportedError as error:
        return f"not run: {error.message.split(': ', 1)[-1]}"
    return f"replaced by other ops ({passes})" if passes else "compiled directly"
