"""Runs of several participants one after the other and beside each other: bits, errors, and what is left."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.core.errors import Cancelled, CollectiveFailure, DeadlineExceeded

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import soak_devices  # noqa: E402

ROUNDS = soak_devices.ROUNDS
FOREVER = [[np.ones(8, np.float32), np.int32(2_000_000_000)]] * 2


@pytest.fixture
def client():
    return axla.Client("cpu", devices=4)


def test_a_program_of_all_collectives_is_the_same_every_time():
    assert "the same bits" in soak_devices.repeat(runs=40, size=1000)


def test_many_programs_at_once_on_the_same_devices():
    assert "threads" in soak_devices.at_once(seconds=1.5, threads=4)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_the_error_is_that_of_the_participant_that_failed(backend):
    """Not of those that it stopped, however fast they are."""
    axla.register_custom_call("test.below_zero", soak_devices._fails_below_zero)
    text = soak_devices.FAILS.replace("soak.fails_below_zero", "test.below_zero")
    program = axla.compile(axla.parse(text), backend=backend)
    try:
        for number in range(60):
            rows = [[np.full(8, -1 if n == number % 3 else 1, np.float32)] for n in range(3)]
            with pytest.raises((ValueError, axla.AxlaError), match="below zero"):
                program.execute_replicated(rows)
    finally:
        axla.unregister_custom_call("test.below_zero")


def test_who_waits_for_ever_is_found_where_nobody_waits_for_the_run(client):
    """Of a run that was handed over; the devices are free then."""
    program = client.compile(axla.parse(ROUNDS))
    found = program.execute_replicated(
        [[np.ones(8, np.float32), np.int32(n)] for n in (5, 6)], asynchronous=True
    )
    assert np.asarray(found[0][0]).tolist() == [1.0] * 8
    with pytest.raises(CollectiveFailure, match=r"wait for ever: replica 1, .* for \(replica 0"):
        found[1][0].block_until_ready(30)
    good = program.execute_replicated([[np.ones(8, np.float32), np.int32(5)]] * 2)
    assert np.asarray(good[1][0]).tolist() == [1.0] * 8


def test_failed_runs_leave_nothing(client):
    """Their errors do not keep the arrays of who reads them."""
    program = client.compile(axla.parse(ROUNDS))
    kept = []

    def fails(asynchronous: bool) -> None:
        given = [axla.device_put(np.ones(8, np.float32)) for _ in range(2)]
        found = []
        kept.extend(weakref.ref(a) for a in given)
        with pytest.raises(DeadlineExceeded):
            options = {"deadline": 0.01, "asynchronous": asynchronous}
            found = program.execute_replicated([[a, np.int32(2_000_000_000)] for a in given], **options)
            kept.extend(weakref.ref(row[0]) for row in found)
            found[1][0].block_until_ready(30)

    for asynchronous in (False, True):
        fails(asynchronous)
    program.execute_replicated([[np.ones(8, np.float32), np.int32(5)]] * 2)
    gc.collect()
    assert len(kept) == 6 and [ref() for ref in kept] == [None] * 6


def test_cancel_stops_all_participants_also_those_that_wait_for_their_turn(client):
    """Device 1 is busy with another run: participant 0 has begun, 1 has not."""
    busy = client.compile(axla.parse(ROUNDS), device_assignment=((1,), (2,)))
    waits = client.compile(axla.parse(ROUNDS), device_assignment=((0,), (1,)))
    first = busy.execute_replicated(FOREVER, asynchronous=True)
    second = waits.execute_replicated(FOREVER, asynchronous=True)
    assert waits.cancel() > 0
    with pytest.raises(Cancelled):
        second[0][0].block_until_ready(30)
    assert not first[0][0].is_ready()
    assert busy.cancel() > 0
    for row in (*first, second[1]):
        with pytest.raises(Cancelled):
            row[0].block_until_ready(30)


def test_programs_side_by_side_start_no_threads_of_their_own(client):
    x = np.arange(30, dtype=np.float32)
    modules = [axla.parse(soak_devices.SENDER), axla.parse(soak_devices.RECEIVER)]
    client.backend.execute_parallel(modules, [[x], []])
    before = soak_devices.open_things()[0]
    for _ in range(10):
        (double,), (negative,) = client.backend.execute_parallel(modules, [[x], []])
        assert np.array_equal(double, 2 * x) and np.array_equal(negative, -x)
    assert soak_devices.open_things()[0] <= before


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_programs_side_by_side_have_the_feeds_of_the_first_devices(backend):
    text = """ENTRY e { t = token[] after-all()
        i = (f32[], token[]) infeed(t)
        ROOT x = f32[] get-tuple-element(i), index=0 }"""
    for device in range(2):
        axla.feeds(device).infeed.clear()
        axla.feeds(device).infeed.put(np.float32(device + 4))
    found = axla.backends.get(backend).execute_parallel([axla.parse(text)] * 2, [[], []])
    assert [float(np.asarray(row[0])) for row in found] == [4, 5]


def test_a_run_that_ends_before_it_is_waited_for(client):
    """Another thread lets its tasks go meanwhile."""
    program = client.compile(axla.parse(soak_devices.SUM.replace("COUNT", "2").replace("5000", "4")))
    stop_at, errors = time.monotonic() + 0.3, []

    def work() -> None:
        try:
            while time.monotonic() < stop_at:
                found = program.execute_replicated([[np.ones(4, np.float32)]] * 2)
                assert np.asarray(found[0][0]).tolist() == [2.0] * 4
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
