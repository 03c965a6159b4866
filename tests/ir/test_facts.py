"""The declared facts about ops agree with what the ops compute."""

import numpy as np
import pytest

import axla.hlo  # noqa: F401  (declares the ops)
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape
from axla.interpreter import evaluate
from axla.ir.op import OPS, Op, op
from sample_modules import sample_arguments, sample_module


def those(fact):
    return [opcode for opcode, cls in sorted(OPS.items()) if getattr(cls, fact)]


def results(opcode):
    """Arguments and result of every sample of arrays."""
    for value, shapes in OPS[opcode].samples():
        if all(isinstance(s, Shape) and not s.is_dynamic for s in shapes):
            given = sample_arguments(value, shapes)
            yield [x.array for x in given], evaluate(sample_module(value, shapes), given).array


@pytest.mark.parametrize("opcode", [o for o in those("moves") if o not in ("bitcast", "bitcast-convert")])
def test_elements_that_move_are_those_of_operands(opcode):
    for given, found in results(opcode):
        assert np.isin(found, np.concatenate([x.reshape(-1) for x in given])).all()


@pytest.mark.parametrize("opcode", ["bitcast", "bitcast-convert"])
def test_bits_that_move_are_those_of_the_operand(opcode):
    whole = [(x, y) for (x,), y in results(opcode) if x.nbytes == y.nbytes]  # numbers of 4 bits fill a byte
    assert whole and all(sorted(x.tobytes()) == sorted(y.tobytes()) for x, y in whole)


@pytest.mark.parametrize("opcode", those("passes_on"))
def test_what_is_passed_on_is_the_first_operand(opcode):
    for given, found in results(opcode):
        assert found.tobytes() == given[0].tobytes()


@pytest.mark.parametrize("opcode", those("keeps_order"))
def test_what_keeps_the_order_moves_nothing(opcode):
    for (given,), found in results(opcode):
        if given.itemsize == found.itemsize and given.size == found.size:
            assert found.tobytes() == given.tobytes()


def test_what_costs_nothing_reads_one_operand_at_most():
    assert {*those("free")} == {"bitcast", "broadcast", "constant", "iota", "reshape"}
    assert all(len(OPS[opcode].operand_names) <= 1 for opcode in those("free"))


@pytest.mark.parametrize("opcode", those("structural"))
def test_structure_neither_computes_nor_moves(opcode):
    cls = OPS[opcode]
    assert not (cls.elementwise or cls.moves or cls.side_effect or cls.computation_fields)
    for value, shapes in cls.samples():
        assert value.accessed(shapes, value.infer(*shapes)) == value.operations(shapes, shapes) == 0


@pytest.mark.parametrize("opcode", those("updates"))
def test_what_is_updated_has_the_shape_of_the_result(opcode):
    for value, shapes in OPS[opcode].samples():
        result = value.infer(*shapes)
        assert [s.logical for s in result.parts] == [s.logical for s in shapes[: len(result.parts)]]


@pytest.mark.parametrize("opcode", those("control"))
def test_control_runs_computations(opcode):
    for value, _ in OPS[opcode].samples():
        assert value.computations()


@pytest.mark.parametrize("opcode", those("reads_alike"))
def test_arrays_that_are_read_alike_are_of_one_size(opcode):
    for _, shapes in OPS[opcode].samples():
        assert len({s.dims for s in shapes if s.rank}) <= 1


@pytest.mark.parametrize("opcode", those("ends"))
def test_an_end_takes_what_its_beginning_gives(opcode):
    assert OPS[opcode].ends.ended_by is OPS[opcode]
    end = OPS[opcode].samples()[0][0]
    for start, shapes in OPS[opcode].ends.samples():
        assert end.infer(start.infer(*shapes))


def test_effects_are_of_ops_that_have_one():
    """An op that must stay where it is says which effect it has, or is part of a collective."""
    has = {o for o, cls in OPS.items() if cls.side_effect is True}
    told = {o for o, cls in OPS.items() if cls.effect or cls.collective is not None}
    ends = {o for o, cls in OPS.items() if cls.ends is not None and cls.ends.collective is not None}
    assert has - told - ends == set() and told - has == {"custom-call"}
    assert set(those("in_order")) == {"custom-call", "infeed", "outfeed", "recv-done", "send"}


def test_a_fact_that_there_is_not():
    with pytest.raises(InvalidArgument, match="op nothing: expansive is not a fact"):
        op("nothing", expansive=True)(type("Nothing", (Op,), {}))
    assert "nothing" not in OPS
