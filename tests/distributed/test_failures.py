"""Processes that fail: the job ends, with one message that names rank, host and cause."""

import socket
import sys
from pathlib import Path

import pytest

import axla
import axla.distributed
from axla.core.errors import InvalidArgument

pytestmark = pytest.mark.processes
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
        print("cause at", time.time(), file=sys.stderr, flush=True)
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
            if how == "text":
                sys.exit("no such data set")
            if how == "signal":
                os.kill(os.getpid(), 40)
            if how == "hang":
                time.sleep(1000)
"""
CAUSES = {
    "raise": f"rank 1 on {HOST}: ValueError: no more data",
    "kill": f"rank 1 on {HOST}: it was killed by SIGKILL",
    "exit": f"rank 1 on {HOST}: it ended with status 3",
    "text": f"rank 1 on {HOST}: no such data set",
    "signal": f"rank 1 on {HOST}: it was killed by signal 40",
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
    assert "cause at" in ended.error and ended.seconds < 5  # since then; 2 on a quiet machine
    if how == "text":
        assert "\nno such data set\n" in ended.error
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


def test_a_participant_waits_for_one_of_its_process_that_has_ended(job):
    script = '''
        import numpy as np
        import axla, axla.distributed
        from axla.core.errors import CollectiveFailure

        axla.distributed.initialize(devices_per_process=2)
        run = axla.compile(axla.parse("""HloModule m, replica_count=4
            f { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
            yes { x = f32[4] parameter(0)
              ROOT r = f32[4] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=f }
            no { x = f32[4] parameter(0)
              ROOT r = f32[4] add(x, x) }
            ENTRY e { x = f32[4] parameter(0)
              one = u32[] parameter(1)
              n = u32[] replica-id()
              c = pred[] compare(n, one), direction=NE
              h = f32[4] conditional(c, x, x), true_computation=yes, false_computation=no
              ROOT y = f32[4] all-reduce(h), replica_groups={{0,2},{1},{3}}, to_apply=f }"""))
        for number, one in enumerate((1, 9)):  # nobody is missing in the second, but late
            try:
                run.execute_replicated([[np.full(4, number, np.float32), np.uint32(one)]] * 2)
                print("no failure", flush=True)
            except CollectiveFailure as error:
                print(error, flush=True)
                if number:
                    raise
        '''
    ended = job(script, 2)
    assert "no failure" not in ended.out and ended.out.count("participants wait for ever") == 2
    said = (
        "failed: participants wait for ever: replica 0, partition 0 in all-reduce %r of "
        "f32[4]{0} in m for (replica 1, "
    )
    assert (ended.status, len(ended.messages)) == (1, 1), ended.error
    assert f"rank 0 on {HOST}: " in ended.messages[0] and said in ended.messages[0]


def test_memory_that_mpi_uses_stays(job):
    script = '''
        import gc, time
        import numpy as np
        import axla, axla.distributed
        from axla.core.errors import DeadlineExceeded

        job = axla.distributed.initialize()
        size = 1 << 20
        pairs = "channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}"
        one_way = axla.compile(axla.parse(f"""HloModule one_way, replica_count=2
            ENTRY e {{ p = f32[{size}] parameter(0)
              t = token[] after-all()
              s = (f32[{size}], u32[], token[]) send(p, t), {pairs}
              r = (f32[{size}], u32[], token[]) recv(t), {pairs}
              sent = token[] send-done(s), channel_id=1
              got = (f32[{size}], token[]) recv-done(r), channel_id=1
              ROOT x = f32[{size}] get-tuple-element(got), index=0 }}"""))
        swap = axla.compile(axla.parse(f"""HloModule swap, replica_count=2
            ENTRY e {{ p = f32[{size}] parameter(0)
              q = f32[{size}] multiply(p, p)
              r = f32[{size}] collective-permute(q), source_target_pairs={{{{0,1}},{{1,0}}}}
              ROOT x = f32[{size}] add(r, r) }}"""))

        def run(program, value, **how):
            ((found,),) = program.execute_replicated([[np.full(size, value, np.float32)]], **how)
            return found

        def others():
            gc.collect()
            return [axla.device_put(np.full(size, 100 + n, np.float32)) for n in range(8)]

        if job.index == 0:
            run(one_way, 3, asynchronous=True).block_until_ready()  # nobody waits until it is there
            kept = others()
            run(one_way, 4), run(one_way, 5)
        else:
            time.sleep(0.5)
            assert np.all(np.asarray(run(one_way, 0)) == 3)
            try:
                run(one_way, 0, deadline=1e-9)
            except DeadlineExceeded:
                print("late", flush=True)
            assert np.all(np.asarray(run(one_way, 0)) == 5)
        assert not job.letters and not job.arriving

        if job.index == 0:
            try:
                run(swap, 7, deadline=0.2)
            except DeadlineExceeded:
                print("first", flush=True)
            kept += others()
            time.sleep(1)
        else:
            time.sleep(0.7)
            assert np.all(np.asarray(run(swap, 8)) == 2 * 7 * 7)
            print("second", flush=True)
        '''
    ended = job(script, 2)
    assert (ended.status, sorted(ended.out.split())) == (0, ["first", "late", "second"]), ended.error


def test_the_launcher_is_terminated(job):
    script = """
        import os, signal, time
        os.kill(int(os.environ["LAUNCHER"]), signal.SIGTERM)
        time.sleep(1000)
        """
    begin = ["sh", "-c", 'export LAUNCHER=$$; exec "$0" -m axla.distributed -n 2 "$@"', sys.executable]
    ended = job(script, 2, begin=begin)
    assert (ended.status, ended.out, ended.error) == (143, "", "")


def test_initialize_comes_before_programs():
    axla.compile(axla.parse("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }"))
    with pytest.raises(InvalidArgument, match="must be called before the client of cpu is used"):
        axla.distributed.initialize()


def test_processes_that_do_not_all_come(job):
    script = """
        import os, time
        if os.environ["PMI_RANK"] == "1":
            time.sleep(1000)
        import axla.distributed
        axla.distributed.initialize()
        """
    ended = job(script, 2, AXLA_COLLECTIVE_TIMEOUT="1")
    said = f"axla.distributed: rank 0 on {HOST}: initialize: not all processes called it within 1 s"
    assert (ended.status, ended.messages) == (1, [said]), ended.error
