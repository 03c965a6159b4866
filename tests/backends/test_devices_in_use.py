"""Programs of several participants in use: donation, devices, clients, forks, and what is refused."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import axla
from axla.core.errors import InvalidArgument, UnsupportedError

ALIAS = ", input_output_alias={ {}: (0, {}, must-alias) }"


def summed(count: int, more: str = "", before: str = "", value: str = "x") -> axla.Module:
    return axla.parse(f"""HloModule m, replica_count={count}{more}
        f {{ a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }}
        ENTRY e {{ x = f32[100] parameter(0)
          {before}
          ROOT y = f32[100] all-reduce({value}), to_apply=f }}""")


def rows(count: int) -> list[list[np.ndarray]]:
    return [[np.full(100, n + 1, np.float32)] for n in range(count)]


def arrays(count: int) -> list[axla.Array]:
    return [axla.device_put(row[0]) for row in rows(count)]


def first_of(found) -> list[float]:
    assert all(np.all(np.asarray(a) == np.asarray(a)[0]) for row in found for a in row)
    return [float(np.asarray(row[0])[0]) for row in found]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("how", ["alias", "compile", "execute"])
def test_donated_arrays_of_all_participants_are_gone(how, asynchronous):
    options = {"donate": (0,)} if how == "compile" else {}
    program = axla.compile(summed(2, ALIAS if how == "alias" else ""), backend="cpu", **options)
    given = arrays(2)
    told = {"donate": (0,)} if how == "execute" else {}
    found = program.execute_replicated([[a] for a in given], asynchronous=asynchronous, **told)
    found = program.execute_replicated(found, asynchronous=asynchronous, **told)
    assert first_of(found) == [6, 6]
    assert [a.is_deleted for a in given] == [True, True]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("wrong", ["deleted", "same", "shape"])
def test_nothing_is_donated_where_an_argument_of_one_is_wrong(wrong, asynchronous):
    program = axla.compile(summed(2, ALIAS), backend="cpu")
    given = arrays(2)
    told: list = [[a] for a in given]
    if wrong == "deleted":
        given[1].delete()
    else:
        told[1] = [given[0]] if wrong == "same" else [np.ones(3, np.float32)]
    with pytest.raises(InvalidArgument, match="parameter 0 .x. of participant 1"):
        program.execute_replicated(told, asynchronous=asynchronous)
    assert not given[0].is_deleted


@pytest.mark.parametrize("count", [8, 64, 256])
def test_more_devices_than_processors(count):
    found = axla.compile(summed(count), backend="cpu").execute_replicated(rows(count))
    assert first_of(found) == [count * (count + 1) / 2] * count
    assert [row[0].device for row in found] == list(range(count))


def test_more_participants_than_there_may_be():
    with pytest.raises(UnsupportedError, match="257 replicas.*cpu runs at most 256"):
        axla.compile(summed(257), backend="cpu")


def test_inputs_may_be_on_other_devices():
    client = axla.Client("cpu", devices=4)
    program = client.compile(summed(2), device_assignment=((3,), (1,)))
    given = [[client.device_put(row[0], device)] for row, device in zip(rows(2), (2, 3), strict=True)]
    found = program.execute_replicated(given)
    assert first_of(found) == [3, 3] and [row[0].device for row in found] == [3, 1]
    found = program.execute_replicated(found[::-1], asynchronous=True)
    assert first_of(found) == [6, 6]


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        (((0,), (4,)), "needs devices 0 to 4"), (((0,), (-1,)), "needs devices -1 to 0"),
        (((0,), (0,)), "names a device twice"), (((0, 1),), "1 replicas of 2 partitions"),
        (((0,),), "1 replicas of 1"), ("ab", "wanted a device for each"), (((0.5,), (1,)), "wanted a device"),
    ],
)  # fmt: skip
def test_assignments_that_do_not_fit(assignment, said):
    with pytest.raises(InvalidArgument, match=said):
        axla.Client("cpu", devices=4).compile(summed(2), device_assignment=assignment)


@pytest.mark.parametrize("devices", [0, -1, "2", 2.5, True, 10**9])
def test_numbers_of_devices_that_there_cannot_be(devices):
    with pytest.raises(InvalidArgument, match="wanted a number from 1 to 4096"):
        axla.Client("cpu", devices=devices)


def test_results_of_one_client_are_inputs_of_another():
    one = axla.Client("cpu", devices=4).compile(summed(2), device_assignment=((3,), (0,)))
    two = axla.Client("cpu", devices=2).compile(summed(2))
    found = two.execute_replicated(one.execute_replicated(rows(2), asynchronous=True), asynchronous=True)
    assert first_of(found) == [6, 6] and [row[0].device for row in found] == [0, 1]
    with pytest.raises(InvalidArgument, match="needs devices 0 to 1"):
        axla.Client("cpu", devices=1).compile(summed(2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_runs_programs_of_its_own():
    program = axla.compile(summed(3), backend="cpu")
    assert first_of(program.execute_replicated(rows(3))) == [6] * 3
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a hang ends here
        found = [program.execute_replicated(rows(3), asynchronous=a) for a in (False, True, False)]
        os._exit(0 if all(first_of(f) == [6] * 3 for f in found) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert first_of(program.execute_replicated(rows(3), asynchronous=True)) == [6] * 3


def test_a_function_that_a_run_calls_cannot_run_a_program_of_several():
    """It would wait for itself."""
    inner = axla.compile(summed(2), backend="cpu")
    axla.register_custom_call("test.nested_run", lambda x: inner.execute_replicated(rows(2))[0][0])
    call = 'z = f32[100] custom-call(x), custom_call_target="test.nested_run"'
    outer = axla.compile(summed(2, before=call, value="z"), backend="cpu")
    try:
        with pytest.raises(axla.AxlaError, match="cannot be run by a function that a run on a device calls"):
            outer.execute_replicated(rows(2))
    finally:
        axla.unregister_custom_call("test.nested_run")
    assert first_of(inner.execute_replicated(rows(2))) == [3, 3]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (rows(1), "inputs of 2 devices are wanted, found 1"), (rows(3), "of 2 devices are wanted, found 3"),
        ([*rows(1), []], "parameter x is missing"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_rows_that_do_not_fit(backend, given, said):
    with pytest.raises(InvalidArgument, match=said):
        axla.compile(summed(2), backend=backend).execute_replicated(given)
