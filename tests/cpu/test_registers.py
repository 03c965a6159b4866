"""Values in registers: what is computed where it stands, and what is only bound to a value from before."""

import axla.hlo as hlo
from axla.cpu.registers import WRITERS
from axla.program import verify


def test_the_verifier_of_programs_knows_what_is_bound():
    """It takes an operand of these as read where the result is read."""
    bound = {WRITERS[op] for op in (hlo.Tuple, hlo.GetTupleElement, hlo.OptBarrier, hlo.Call)}
    opcodes = {op.opcode for op, write in WRITERS.items() if write in bound}
    assert opcodes - {"after-all"} == verify._LAZY
