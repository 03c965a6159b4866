"""Checks a buffer assignment: its program is verified, and its kernels are planned."""

from axla.analysis.buffers import Buffers
from axla.lowering.loading import check_program
from axla.lowering.lower import lower
from axla.program.verify import verify_program
from axla.target.machine import cpu_target


def check(buffers: Buffers) -> None:
    """Raises VerifyError with the first step that would read or write the wrong memory."""
    target = cpu_target()
    program = lower(buffers.module, buffers, target)
    verify_program(program)
    check_program(program, target)
