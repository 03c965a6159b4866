"""Rewrites programs that run in parallel (StableHLO's `interpreter.run_parallel`) as a host call whose
configuration has the texts of the programs.
"""

from __future__ import annotations

import json
from dataclasses import replace

from axla.core.errors import UnsupportedError, VerifyError
from axla.hlo import CustomCall
from axla.interpreter.parallel import RUN_PARALLEL, check_parallel
from axla.ir.clone import stand_alone
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand
from axla.text.printer import print_module

TARGET = "axla.run_parallel"


def parallel_programs(module: Module) -> None:
    """Replaces every custom call `interpreter.run_parallel` by a host call."""
    expand(module, "parallel-programs", {CustomCall: _written_out})


def _written_out(inst: Instruction[CustomCall]) -> Instruction | None:
    if inst.op.custom_call_target != RUN_PARALLEL:
        return None
    try:
        check_parallel(inst)
    except VerifyError as error:
        raise UnsupportedError(str(error)) from None
    texts = [
        print_module(stand_alone(called, called.name).module, print_large_constants=True)
        for called in inst.op.called_computations
    ]
    config = json.dumps({**json.loads(inst.extra.backend_config), "texts": texts})
    op = CustomCall(inst.shape.logical, custom_call_target=TARGET, custom_call_has_side_effect=True)
    return inst.computation.add(op, inst.operands, extra=replace(inst.extra, backend_config=config))
