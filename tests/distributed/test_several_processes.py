"""Programs on devices of several processes: the bits of collectives, transfers, the command line."""

import os
import re
import sys
from pathlib import Path

import pytest

import axla

pytestmark = pytest.mark.processes
SWEEP = Path(__file__).resolve().parents[2] / "scripts" / "sweep_processes"


def test_collectives_of_three_processes_have_the_bits_of_the_interpreter(job):
    ended = job(SWEEP, 3, "--every=60", "--types=pred,s8,u64,f16,bf16,f32,f64,c64")
    assert ended.status == 0, ended.error
    assert len(re.findall(r" of 3, \d\d+ cases, 0 differ", ended.out)) == 3


def test_two_devices_of_each_process_and_no_shared_memory_between_them(job):
    apart = {"UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}
    ended = job(SWEEP, 2, "--local=2", "--every=30", "--types=f32,bf16,s32", **apart)
    assert ended.status == 0, ended.error
    assert len(re.findall(r" of 2, \d\d+ cases, 0 differ", ended.out)) == 2


TRANSFERS = '''
    import numpy as np
    import axla, axla.distributed
    from axla.core.errors import CollectiveFailure, DeadlineExceeded

    job = axla.distributed.initialize()
    assert axla.distributed.initialize() is job
    client = axla.Client("cpu")
    (mine,) = client.local_devices
    assert [d.id for d in client.devices] == [0, 1] and mine.id == mine.process_index == job.index

    pairs = "channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}"
    exchange = axla.compile(axla.parse(f"""HloModule exchange, replica_count=2
        ENTRY e {{ p = f32[100000] parameter(0)
          t = token[] after-all()
          s = (f32[100000], u32[], token[]) send(p, t), {pairs}
          r = (f32[100000], u32[], token[]) recv(t), {pairs}
          sent = token[] send-done(s), channel_id=1
          got = (f32[100000], token[]) recv-done(r), channel_id=1
          ROOT x = f32[100000] get-tuple-element(got), index=0 }}"""))
    for number in range(5):
        ((x,),) = exchange.execute_replicated([[np.full(100000, number * 10 + job.index, np.float32)]])
        assert x.device == mine.id and np.all(np.asarray(x) == number * 10 + 1 - job.index)

    text = """HloModule fed
        ENTRY e { p = f32[4] parameter(0)
          t = token[] after-all()
          i = (f32[4], token[]) infeed(t)
          v = f32[4] get-tuple-element(i), index=0
          ROOT x = f32[4] add(p, v) }"""
    for alone in (True, False):  # a program of one device is of this process alone
        head = "HloModule fed" if alone else "HloModule fed, replica_count=2"
        fed = axla.compile(axla.parse(text.replace("HloModule fed", head)))
        assert [d.id for d in fed.devices] == ([mine.id] if alone else [0, 1])
        axla.feeds(mine.id).infeed.put(np.full(4, 7 + job.index, np.float32))
        ((x,),) = fed.execute_replicated([[np.ones(4, np.float32)]])
        assert np.asarray(x).tolist() == [8 + job.index] * 4

    gather = axla.compile(axla.parse("""HloModule gather, replica_count=2
        ENTRY e { p = f32[2] parameter(0)
          ROOT r = f32[4] all-gather(p), dimensions={0} }"""))
    ((x,),) = gather.execute_replicated([[np.ones(2, np.float32)]], asynchronous=job.index == 0)
    assert np.asarray(x).tolist() == [1] * 4
    if not job.index:  # the other does not come any more
        try:
            gather.execute_replicated([[np.ones(2, np.float32)]], deadline=0.2)
        except DeadlineExceeded as error:
            assert "replica 1, partition 0 of rank 1" in str(error) and "all-gather" in str(error), error
            print("first", flush=True)
        try:
            gather.execute_replicated([[np.ones(2, np.float32)]])
        except CollectiveFailure as error:
            assert "of the job failed: gather" in str(error), error
            print("second", flush=True)
'''


def test_transfers_feeds_devices_and_deadlines(job):
    ended = job(TRANSFERS, 2)
    assert (ended.status, ended.out) == (0, "first\nsecond\n"), ended.error


def test_the_command_line_runs_a_program_in_processes(job, tmp_path):
    path = tmp_path / "pairs.hlo"
    path.write_text("""HloModule pairs, replica_count=4
        ENTRY e { i = u32[] replica-id()
          j = u32[1] reshape(i)
          ROOT r = u32[2] all-gather(j), dimensions={0}, replica_groups={{0,2},{1,3}} }""")
    command = [sys.executable, "-m", "axla", "run"]
    ended = job(path, 2, "--processes=2", begin=command)
    shown = re.findall(r"device (\d), output 0: uint32\[2\]\n\[(.*)\]", ended.out)
    wanted = [("0", "0, 2"), ("1", "1, 3"), ("2", "0, 2"), ("3", "1, 3")]
    assert (ended.status, sorted(shown)) == (0, wanted), ended.error
    (tmp_path / "numpy.py").write_text("raise SystemExit('the working directory is not to be imported from')")
    at = ["env", "-C", str(tmp_path), sys.executable, "-P", *command[1:]]
    assert job(path, 2, "--processes=2", begin=at).status == 0
    ended = job(path, 3, "--processes=3", begin=command)
    assert ended.status == 1 and "--processes=3: wanted a divisor of 4" in ended.error


def test_examples_of_the_documents_on_two_and_four_processes(job):
    """Those of collectives; spread.py runs programs on the devices of all processes."""
    here = Path(__file__).parent
    command = [sys.executable, "-m", "axla.distributed", "-n", "4", "-m", "pytest", "-n", "0"]
    of_one = ("more_often", "infeed", "computation", "schedules", "nobody", "another_shape")
    chosen = " and ".join(["cpu", *(f"not {word}" for word in of_one)])
    ended = job(
        here.parent / "backends" / "test_documents_on_devices.py", 4, "-k", chosen, "-p", "spread",
        "-p", "no:cacheprovider", begin=command, DEVICES_PER_PROCESS="2",
        PYTHONPATH=f"{Path(axla.__file__).parents[1]}{os.pathsep}{here}",
    )  # fmt: skip
    assert ended.status == 0, ended.out + ended.error
    assert re.findall(r"(\d+) passed", ended.out) == ["25"] * 4
