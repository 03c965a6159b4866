"""Runs several processes at the same time: one program on all devices, or the programs of a call of
`interpreter.run_parallel`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from axla.core.errors import InvalidArgument, VerifyError
from axla.core.shape import TupleShape
from axla.hlo.control import CustomCall
from axla.interpreter.evaluate import HostValue, Interpreter
from axla.interpreter.processes import ParticipantProcesses, Process
from axla.ir.graph import Computation, Instruction

RUN_PARALLEL = "interpreter.run_parallel"
MOST = 1024
"""The largest number of processes, each of which is a thread."""


def run_replicated(
    interpreter: Interpreter, entry: Computation, values: Sequence[Sequence[HostValue]], replicas: int,
    partitions: int, devices: Sequence[int] = (),
) -> list[HostValue]:  # fmt: skip
    """Evaluates the entry computation on every device, and returns the result of each. The limits of
    `interpreter` hold for all of them. Device n of `devices` is partition n % partitions of replica n //
    partitions, and `values[n]` are its arguments.

    Raises CollectiveFailure if devices meet with different collectives, or wait for each other in a deadlock.
    """
    return _run(
        interpreter,
        ParticipantProcesses(replicas, partitions, devices=devices),
        [entry] * len(values),
        values,
    )


def run_programs(
    interpreter: Interpreter, programs: Sequence[Computation], arguments: Sequence[Sequence[HostValue]]
) -> list[HostValue]:  # fmt: skip
    """Evaluates programs at the same time, each as one replica, and returns the result of each. `arguments`
    has the arguments of each program.
    """
    return _run(interpreter, ParticipantProcesses(len(programs), 1), programs, arguments)


def _run(
    interpreter: Interpreter,
    grid: ParticipantProcesses,
    programs: Sequence[Computation],
    arguments: Sequence[Sequence[HostValue]],
) -> list[HostValue]:
    def run(program: Computation, given: Sequence[HostValue], process: Process) -> HostValue:
        with np.errstate(all="ignore"):
            return interpreter.beside(process).run(program, given)

    return grid.run([partial(run, p, given) for p, given in zip(programs, arguments, strict=True)])


def parallel_call(programs: Sequence[Sequence[int]], infeed: Sequence[int]) -> str:
    """The configuration of a custom call of RUN_PARALLEL: `programs` has numbers of called computations by
    replica and partition, `infeed` those of computations that return the values of the infeed.
    """
    return json.dumps({"programs": programs, "infeed": infeed})


def run_parallel(interpreter: Interpreter, inst: Instruction[CustomCall], *operands: HostValue) -> HostValue:
    """Runs all programs at once. `operands` are those of the first program, then of the second, and so on; so
    are the results.
    """
    rows, fed = _parts(inst, inst.op.called_computations)
    programs = [program for row in rows for program in row]
    rest = iter(operands)
    arguments = [list(islice(rest, len(program.parameters))) for program in programs]
    infeed: deque[HostValue] | None = None
    if fed:
        values = [interpreter.run(program, ()) for program in fed]
        infeed = deque(v if isinstance(v, tuple) else (v,) for v in values)
    results: list[HostValue] = []
    found = _run(interpreter, ParticipantProcesses(len(rows), len(rows[0]), infeed), programs, arguments)
    for program, value in zip(programs, found, strict=True):
        results += value if isinstance(program.root.shape, TupleShape) else [value]
    return tuple(results) if isinstance(inst.shape, TupleShape) else results[0]


def check_parallel(inst: Instruction) -> bool:
    """Whether an instruction is a call of RUN_PARALLEL. VerifyError if it does not fit its programs."""
    if not isinstance(inst.op, CustomCall) or inst.op.custom_call_target != RUN_PARALLEL:
        return False
    _parts(inst, inst.op.called_computations)
    return True


def _parts(
    inst: Instruction, called: Sequence[Computation]
) -> tuple[list[list[Computation]], list[Computation]]:
    """Reads the configuration of a call of RUN_PARALLEL, which has numbers of the `called` computations.
    Returns (the programs by replica and partition, the programs that compute values of the infeed).
    """
    try:
        config: Any = json.loads(inst.extra.backend_config)
        rows = [[called[n] for n in row] for row in config["programs"]]
        fed = [called[n] for n in config["infeed"]]
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise VerifyError(f"{inst!r}: the configuration of {RUN_PARALLEL} is malformed: {error!r}") from None
    if not rows or not rows[0] or len({len(row) for row in rows}) > 1:
        raise VerifyError(f"{inst!r}: programs must be rows of equal length, found {config['programs']}")
    if len(rows) * len(rows[0]) > MOST:
        raise InvalidArgument(f"{inst!r}: wanted at most {MOST} processes, found {len(rows) * len(rows[0])}")
    programs = [program for row in rows for program in row]
    taken = [p.shape.logical for program in programs for p in program.parameters]
    given = [s for program in programs for s in program.root.shape.logical.parts]
    results = list(inst.shape.logical.parts)
    if taken != [o.shape.logical for o in inst.operands] or given != results:
        raise VerifyError(f"{inst!r}: operands and results must be those of the programs, one after another")
    if any(program.parameters for program in fed):
        raise VerifyError(f"{inst!r}: the programs for the infeed must have no parameters")
    return rows, fed
