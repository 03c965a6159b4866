"""Processes that fail: the job ends, with one message that names rank, host and cause."""

import socket
import sys
from pathlib import Path

import pytest

HOST = socket.gethostname()
DRILL = """
    import os, signal, sys, time
    import numpy as np
    import axla, axla.distributed

    how = sys.argv[1]
    job = axla.distributed.initialize()
    text = f'''HloModule m, replica_count={job.count}
        f {{ a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }}
        ENTRY e {{ p = f32[9] parameter(0)
          ROOT r = f32[9] all-reduce(p), to_apply=f }}'''
    if how == "program" and job.index == 1:
        text = text.replace("add", "multiply")
    run = axla.compile(axla.parse(text), backend="cpu").execute_replicated
    for number in range(100000):
        run([[np.ones(9, np.float32)]])
        if number == 10 and job.index == 1:
            print("cause at", time.time(), file=sys.stderr, flush=True)
            if how == "raise":
                raise ValueError("no more data")
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "exit":
                sys.exit(3)
            if how == "hang":
                time.sleep(1000)
"""
CAUSES = {
    "raise": f"rank 1 on {HOST}: ValueError: no more data",
    "kill": f"rank 1 on {HOST}: it was killed by SIGKILL",
    "exit": f"rank 1 on {HOST}: it ended with status 3",
    "program": "the processes have different programs: ",
    "hang": f"has waited 1 s for replica 1, partition 0 of rank 1 on {HOST}",
}


@pytest.mark.parametrize("how", CAUSES)
def test_a_process_fails(job, how):
    hangs = how == "hang"
    ended = job(DRILL, 3 if hangs else 2, how, AXLA_COLLECTIVE_TIMEOUT="1" if hangs else "40")
    assert ended.status == 1
    assert len(ended.messages) == 1 and CAUSES[how] in ended.messages[0], ended.error
    assert "BAD TERMINATION" not in ended.error + ended.out
    assert ended.seconds < 10  # 2 on a quiet machine
    if how == "program":
        assert ended.error.count(f"different programs: rank 0 on {HOST} has ") >= 2  # both say the same
    if hangs:
        assert "in an all-reduce of (0, 1, 2)" in ended.messages[0]


def test_a_process_that_raises_ends_all_without_the_launcher(job):
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else "mpiexec"
    ended = job(DRILL, 2, "raise", begin=[mpiexec, "-n", "2", sys.executable])
    said = f"axla.distributed: rank 1 on {HOST}: ValueError: no more data"
    assert ended.status != 0 and ended.messages == [said], ended.error


def test_processes_that_do_not_all_come(job):
    script = """
        import os, time
        if os.environ["PMI_RANK"] == "1":
            time.sleep(1000)
        import axla.distributed
        axla.distributed.initialize()
        """
    ended = job(script, 2, AXLA_COLLECTIVE_TIMEOUT="1")
    said = f"axla.distributed: rank 0 on {HOST}: initialize: not all processes came within 1 s"
    assert (ended.status, ended.messages) == (1, [said]), ended.error
