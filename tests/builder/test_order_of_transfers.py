"""Transfers without tokens happen in the order in which they were added, on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla import ops
from axla.builder import XlaBuilder
from axla.builder.records import ChannelHandle
from axla.core.dtypes import S32
from axla.core.shape import Shape, TupleShape

BACKENDS = ("interpreter", "cpu", "one-lane")
NUMBER = Shape(S32)


def number(b, value):
    return ops.Constant(b, np.int32(value))


def run(computation, backend, fed=()):
    """The result, and what came out."""
    queues = axla.feeds()
    queues.infeed.clear()
    queues.outfeed.clear()
    for value in fed:
        queues.infeed.put(np.int32(value))
    result = int(axla.compile(computation.get_hlo_module(), backend=backend)())
    assert len(queues.infeed) == 0
    return result, [int(queues.outfeed.get(0)) for _ in range(len(queues.outfeed))]


def loop(b, times, step, start=None):
    """`step` adds the transfers of a round, and gives what is added to the state."""
    body, condition = b.sub_builder("body"), b.sub_builder("condition")
    found = body.parameter(0, NUMBER) + step(body)
    root = body.build(found)
    holds = condition.build(ops.Lt(condition.parameter(0, NUMBER), number(condition, times)))
    return ops.While(holds, root, number(b, 0) if start is None else start)


@pytest.mark.parametrize("backend", BACKENDS)
def test_infeeds_happen_in_the_order_in_which_they_were_added(backend):
    b = XlaBuilder("two")
    p, q = ops.Infeed(b, NUMBER), ops.Infeed(b, NUMBER)
    assert run(b.build(q - p), backend, (8, 1)) == (-7, [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_transfers_of_a_loop_happen_between_those_around_it(backend):
    def step(body):
        p, q = ops.Infeed(body, NUMBER), ops.Infeed(body, NUMBER)
        ops.Outfeed(q - p, NUMBER)
        return number(body, 1)

    b = XlaBuilder("around")
    ops.Outfeed(number(b, 9), NUMBER)
    state = loop(b, 2, step)
    ops.Outfeed(number(b, -9), NUMBER)
    last = ops.Infeed(b, NUMBER)
    assert run(b.build(last * 10 + state), backend, (8, 1, 2, 5, 4)) == (42, [9, -7, 3, -9])


@pytest.mark.parametrize("backend", BACKENDS)
def test_transfers_of_a_branch_and_of_a_call_happen_between_those_around_them(backend):
    def giving(b, *values):
        sub = b.sub_builder("giving")
        x = sub.parameter(0, NUMBER)
        for value in values:
            ops.Outfeed(x + number(sub, value), NUMBER)
        return sub.build(x)

    b = XlaBuilder("branches")
    ops.Outfeed(number(b, 1), NUMBER)
    index = ops.Infeed(b, NUMBER)
    ops.Conditional(index, [giving(b, 10), giving(b, 20, 30)], [number(b, 0), number(b, 0)])
    ops.Outfeed(number(b, 2), NUMBER)
    inner = b.sub_builder("outer")
    called = ops.Call(inner, giving(b, 40, 50), [inner.parameter(0, NUMBER)])
    ops.Call(b, inner.build(called), [number(b, 0)])
    ops.Outfeed(number(b, 3), NUMBER)
    assert run(b.build(index), backend, (1,)) == (1, [1, 20, 30, 2, 40, 50, 3])


@pytest.mark.parametrize("backend", BACKENDS)
def test_sends_and_receives_without_tokens_are_in_order(backend):
    b = XlaBuilder("channels")
    channel = ChannelHandle(1)
    ops.Outfeed(number(b, 1), NUMBER)
    ops.Send(number(b, 5), channel)
    x = ops.Recv(b, NUMBER, channel)
    ops.Outfeed(number(b, 2), NUMBER)
    assert run(b.build(x), backend) == (5, [1, 2])


def test_a_transfer_takes_the_token_of_the_one_before():
    b = XlaBuilder("chain")
    first = ops.InfeedWithToken(ops.CreateToken(b), NUMBER)
    second = ops.Infeed(b, NUMBER).instruction.operands[0]
    token = second.operands[0]
    assert token.opcode == "get-tuple-element" and token.operands == (first.instruction,)


def test_what_does_not_transfer_gets_no_control_edges():
    b = XlaBuilder("pure")
    ops.Outfeed(number(b, 1), NUMBER)
    state = loop(b, 2, lambda body: number(body, 1))
    assert state.instruction.extra.control_predecessors == ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infeed_of_the_empty_tuple_reads_nothing(backend):
    b = XlaBuilder("nothing")
    nothing = TupleShape(())
    ops.Infeed(b, nothing)
    x = ops.Infeed(b, NUMBER)
    ops.Infeed(b, TupleShape((nothing, nothing)))
    axla.feeds().infeed.put(())
    assert run(b.build(x), backend, (3,)) == (3, [])
