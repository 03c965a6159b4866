"""Calls with arrays smaller than their bounds: conversion, refusals, donation, pickling, deadlines."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import axla
from axla.builder.computation import XlaComputation
from axla.client import Client
from axla.core.dtypes import F32
from axla.core.errors import DeadlineExceeded, InvalidArgument
from axla.core.shape import Shape

DOUBLE = """HloModule m
ENTRY e { p = f32[<=64] parameter(0)
  ROOT a = f32[<=64] add(p, p) }"""

PAIR = """HloModule pair
ENTRY e { rows = f32[<=4,6] parameter(0)
  s = f32[] parameter(1)
  b = f32[4,6] broadcast(s), dimensions={}
  ROOT r = f32[<=4,6] multiply(rows, b) }"""


@pytest.mark.parametrize("size", [0, 1, 5, 64])
def test_arguments_of_any_kind(size):
    call = axla.compile(axla.parse(DOUBLE))
    x = np.arange(size, dtype=np.float32)
    strided = np.repeat(x, 2)[::2]
    for argument in (x, strided, axla.device_put(x), x.astype(">f4").astype("<f4")):
        found = call(argument)
        assert isinstance(found, axla.Array) and found.shape == (size,)
        assert found.tolist() == (2 * x).tolist()
    assert call.execute([x])[0].shape == (size,)


def test_results_do_not_share_memory():
    call = axla.compile(axla.parse("HloModule m\nENTRY e { ROOT p = f32[<=4] parameter(0) }"))
    for size in (3, 4):
        x = axla.device_put(np.ones(size, np.float32))
        found = call(x)
        x.delete()
        assert found.tolist() == [1] * size


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize(
    "rows, message",
    [
        (np.zeros((5, 6), np.float32), r"parameter 0 \(rows\).*dimension 0 has size 5, its bound is 4"),
        (np.zeros((3, 7), np.float32), r"parameter 0 \(rows\): wanted f32\[<=4,6\], found float32\[3, 7\]"),
        (np.zeros((3, 5), np.float32), r"wanted f32\[<=4,6\]"),
        (np.zeros((3, 6)), r"wanted f32\[<=4,6\], found float64\[3, 6\]"),
        (np.zeros(3, np.float32), r"wanted f32\[<=4,6\], found float32\[3\]"),
        ([[1], [1, 2]], "not an array"),
    ],
)
def test_wrong_arguments_are_named(rows, message, backend):
    call = axla.compile(axla.parse(PAIR), backend=backend)
    with pytest.raises(InvalidArgument, match=message):
        call(rows, np.float32(1))
    if isinstance(rows, np.ndarray):
        with pytest.raises(InvalidArgument, match=r"parameter 0 \(rows\)"):
            call(axla.device_put(rows), np.float32(1))


def test_the_other_arguments_are_checked_as_ever():
    call = axla.compile(axla.parse(PAIR))
    rows = np.ones((2, 6), np.float32)
    with pytest.raises(InvalidArgument, match=r"parameter 1 \(s\)"):
        call(rows, np.float64(1))
    with pytest.raises(InvalidArgument, match="1 arguments, wanted 2 .*parameter s is missing"):
        call(rows)
    with pytest.raises(InvalidArgument, match="3 arguments, wanted 2"):
        call(rows, np.float32(1), np.int32(2))  # the size is not an argument of the caller's
    assert call(rows, 2.0).tolist() == [[2.0] * 6] * 2


@pytest.mark.parametrize("kind", ["may-alias", "must-alias"])
@pytest.mark.parametrize("size", [0, 5, 64])
def test_donation(kind, size):
    text = DOUBLE.replace("m\n", "m, input_output_alias={ {}: (0, {}, " + kind + ") }\n", 1)
    call = axla.compile(axla.parse(text))
    x = np.arange(size, dtype=np.float32)
    given = axla.device_put(x)
    assert call(given).tolist() == (2 * x).tolist()
    assert given.is_deleted
    with pytest.raises(InvalidArgument, match="deleted or donated"):
        call(given)
    assert call(x).tolist() == (2 * x).tolist()
    assert x.tolist() == list(range(size))


def test_donation_by_compile_and_by_call():
    text = DOUBLE.replace(
        "p = f32[<=64] parameter(0)", "p = f32[<=64] parameter(0)\n q = f32[<=64] parameter(1)"
    )
    call = axla.compile(axla.parse(text), donate=[0])
    x, y = (axla.device_put(np.ones(3, np.float32)) for _ in range(2))
    with pytest.raises(InvalidArgument, match="also donated"):
        call(x, x)
    assert not x.is_deleted
    call(x, y)
    assert x.is_deleted and not y.is_deleted
    call.execute([np.ones(2, np.float32), y], donate=[1])
    assert y.is_deleted


def test_a_run_that_failed_has_taken_what_was_donated():
    """As with arrays of fixed sizes, whose memory it has written by then; a refused call takes nothing."""
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
c { s = (f32[<=8], s32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=1
  end = s32[] constant(-1)
  ROOT t = pred[] compare(k, end), direction=NE }
b { s = (f32[<=8], s32[]) parameter(0)
  x = f32[<=8] get-tuple-element(s), index=0
  y = f32[<=8] cosine(x)
  k = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(k, one)
  ROOT r = (f32[<=8], s32[]) tuple(y, n) }
ENTRY e { p = f32[<=8] parameter(0)
  k = s32[] constant(0)
  t = (f32[<=8], s32[]) tuple(p, k)
  ROOT w = (f32[<=8], s32[]) while(t), condition=c, body=b }"""
    call = axla.compile(axla.parse(text))
    for size in (3, 8):
        x = axla.device_put(np.ones(size, np.float32))
        with pytest.raises(DeadlineExceeded):
            call.execute([x], deadline=0.05)
        assert x.is_deleted


def test_pickled_programs():
    call = pickle.loads(pickle.dumps(axla.compile(axla.parse(PAIR))))
    assert call(np.ones((1, 6), np.float32), np.float32(3)).tolist() == [[3.0] * 6]


def test_equal_code_of_different_borders():
    """Dynamic and static programs with one text of code do not take each other's place in caches."""
    dynamic = axla.compile(axla.parse(DOUBLE))
    static = axla.compile(axla.parse(DOUBLE.replace("<=", "")))
    assert dynamic(np.ones(2, np.float32)).shape == (2,)
    with pytest.raises(InvalidArgument):
        static(np.ones(2, np.float32))


def test_calls_from_several_threads():
    call = axla.compile(axla.parse(DOUBLE))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: call(np.full(n % 65, n, np.float32)), range(100)))
    for n, array in enumerate(found):
        assert array.tolist() == [2.0 * n] * (n % 65)


def test_the_interface_says_where_sizes_are():
    call = axla.compile(axla.parse(PAIR))
    text = str(call.interface)
    assert "parameter 2: size of parameter 0, dimension 0" in text
    assert "result 1: size of result 0, dimension 0" in text
    assert [str(p.shape.logical.to_string(layout=False)) for p in call.interface.parameters] == [
        "f32[<=4,6]",
        "f32[]",
    ]
    code = call.interface.of_code()
    assert len(code.parameters) == 3 and len(code.results) == 2
    assert not code.is_dynamic and code.of_code() is code


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_the_client_runs_smaller_arrays(backend):
    client, computation = Client(backend), XlaComputation(axla.parse(DOUBLE))
    found = client.Execute(computation, [client.TransferToServer(np.ones(3, np.float32))])
    assert client.GetShape(found) is Shape(F32, (3,))
    assert client.Transfer(found).array.tolist() == [2, 2, 2]
    with pytest.raises(InvalidArgument, match="parameter 0"):
        client.Execute(computation, [client.TransferToServer(np.ones(65, np.float32))])
