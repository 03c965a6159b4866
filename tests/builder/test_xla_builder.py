import os

import numpy as np
import pytest

from axla.builder import OpMetadata, XlaBuilder, XlaComputation, ops
from axla.core.dtypes import F32, PRED, S32
from axla.core.errors import InvalidArgument, ShapeError
from axla.core.shape import Shape, TupleShape
from axla.interpreter import evaluate
from axla.ir.graph import Alias

VECTOR = Shape(F32, (3,))


def axpy(b: XlaBuilder):
    alpha = ops.Parameter(b, 0, Shape(F32), "alpha")
    x, y = ops.Parameter(b, 1, VECTOR, "x"), ops.Parameter(b, 2, VECTOR, "y")
    return ops.Add(ops.Mul(alpha, x), y)


def test_build_gives_a_program(b):
    computation = b.build(axpy(b))
    assert str(computation.program_shape) == "(alpha: f32[], x: f32[3], y: f32[3]) -> f32[3]"
    result = evaluate(computation.module, [np.float32(2), np.float32([1, 2, 3]), np.float32([10, 20, 30])])
    assert result.array.tolist() == [12, 24, 36]


def test_build_takes_the_last_op_by_default(b):
    axpy(b)
    assert b.get_program_shape().result is VECTOR
    assert b.build().entry.root.opcode == "add"


def test_build_of_nothing_is_refused(b):
    with pytest.raises(InvalidArgument, match="has no ops"):
        b.build()


def test_build_leaves_the_builder_empty(b):
    old = axpy(b)
    first = b.build()
    assert b.build(axpy(b)).module is not first.module
    with pytest.raises(InvalidArgument, match="has finished"):
        ops.Neg(old)
    assert old.shape is VECTOR


def test_operands_of_another_builder_are_refused(b):
    other = XlaBuilder("other")
    x, y = ops.Parameter(b, 0, VECTOR), ops.Parameter(other, 0, VECTOR)
    with pytest.raises(InvalidArgument, match="belongs to builder 'other', wanted one of builder 'test'"):
        ops.Add(x, y)
    with pytest.raises(InvalidArgument, match="belongs to builder 'other'"):
        b.build(y)


def test_parameters_are_numbered_without_gaps(b):
    ops.Parameter(b, 1, VECTOR)
    with pytest.raises(InvalidArgument, match="but not 0"):
        b.build()
    with pytest.raises(InvalidArgument, match="number 1 of builder 'test' is already"):
        ops.Parameter(b, 1, VECTOR)
    with pytest.raises(InvalidArgument, match="the number -1"):
        ops.Parameter(b, -1, VECTOR)
    with pytest.raises(InvalidArgument, match="wanted a shape"):
        ops.Parameter(b, 0, (3,))


def test_shape_errors_raise_at_the_call_with_operands_and_line(b):
    x = ops.Parameter(b, 0, VECTOR, "x")
    y = ops.Parameter(b, 1, Shape(S32, (3,)), "y")
    with pytest.raises(ShapeError) as caught:
        ops.Add(x, y)
    message = str(caught.value)
    assert message.startswith("add(f32[3] %x, s32[3] %y)")
    assert f"{__file__}:" in message


def test_the_line_of_the_user_is_noted(b):
    from inspect import currentframe

    x = ops.Parameter(b, 0, VECTOR, "x")
    y = x + 1.0
    line = currentframe().f_lineno - 1
    location = y.instruction.extra.location
    assert (os.path.basename(location.source_file), location.source_line) == (
        os.path.basename(__file__),
        line,
    )
    assert x.instruction.extra.location.source_line == line - 1


def test_op_metadata(b):
    b.set_op_metadata(OpMetadata("Dense", "layer1/dense"))
    x = ops.Parameter(b, 0, VECTOR)
    b.set_one_shot_op_metadata(OpMetadata("Once", "once", "model.py", 7))
    y, z = ops.Neg(x), ops.Abs(x)
    b.clear_op_metadata()
    found = [op.instruction.extra.location for op in (x, y, z, ops.Neg(x))]
    assert [f.op_type for f in found] == ["Dense", "Once", "Dense", ""]
    assert (found[1].source_file, found[1].source_line) == ("model.py", 7)
    assert found[0].source_file == __file__


def test_sharding_and_frontend_attributes(b):
    b.set_sharding("{replicated}")
    b.set_frontend_attributes({"k": "v", "a": "b"})
    x = ops.Parameter(b, 0, VECTOR)
    b.clear_sharding()
    b.clear_frontend_attributes()
    y = ops.Neg(x)
    b.set_instruction_frontend_attribute(y, "one", "1")
    assert str(x.instruction.extra.sharding) == "replicated"
    assert x.instruction.extra.frontend_attributes == (("a", "b"), ("k", "v"))
    assert y.instruction.extra.sharding is None
    assert y.instruction.extra.frontend_attributes == (("one", "1"),)


def test_setup_alias(b):
    x = ops.Parameter(b, 0, VECTOR)
    b.setup_alias([1], 0, [], "must")
    b.add_buffer_donor(0, [])
    config = b.build(ops.Tuple(b, [ops.Constant(b, np.float32(1)), ops.Neg(x)])).module.config
    assert config.aliases == (Alias((1,), 0, (), True),)
    assert config.buffer_donors == ((0, ()),)


def test_setup_alias_is_checked(b):
    x = ops.Parameter(b, 0, VECTOR)
    b.setup_alias([0], 0, [])
    with pytest.raises(ShapeError, match=r"output \[0\] is f32\[\], but parameter 0\[\] is f32\[3\]"):
        b.build(ops.Tuple(b, [ops.Constant(b, np.float32(1)), x]))
    c = XlaBuilder("c")
    c.setup_alias([], 3, [])
    with pytest.raises(InvalidArgument, match="parameter 3 does not exist"):
        c.build(ops.Constant(c, np.float32(1)))
    with pytest.raises(InvalidArgument, match="'may' or 'must'"):
        c.setup_alias([], 0, [], "perhaps")


def test_is_constant_and_constant_subgraph(b):
    x = ops.Parameter(b, 0, VECTOR)
    two = ops.Constant(b, np.float32([2, 3, 4]))
    square = two * two
    assert b.is_constant(square) and not b.is_constant(square + x)
    call = ops.CustomCall(b, "f", [two], VECTOR)
    assert not b.is_constant(call)
    sub = b.sub_builder("calls")
    calls = sub.build(ops.CustomCall(sub, "f", [], VECTOR))
    assert not b.is_constant(ops.Call(b, calls, []))
    assert evaluate(b.build_constant_subgraph(square).module, []).array.tolist() == [4, 9, 16]
    with pytest.raises(InvalidArgument, match="not a constant: it depends on %parameter"):
        b.build_constant_subgraph(square + x)


def test_sub_builders_and_shared_computations(b):
    sub = b.sub_builder("double")
    double = sub.build(ops.Parameter(sub, 0, VECTOR) * 2.0)
    assert sub.parent is b
    x = ops.Parameter(b, 0, VECTOR)
    module = b.build(ops.Call(b, double, [ops.Call(b, double, [x])])).module
    assert [c.name for c in module.computations] == ["double", "test"]
    assert evaluate(module, [np.float32([1, 2, 3])]).array.tolist() == [4, 8, 12]
    assert len(double.module.computations) == 1, "the callee's own module stays as it was"


def test_nested_computations_are_copied_once(b):
    inner = b.sub_builder("inner")
    f = inner.build(ops.Neg(ops.Parameter(inner, 0, Shape(F32))))
    middle = b.sub_builder("middle")
    x = ops.Parameter(middle, 0, Shape(F32))
    g = middle.build(ops.Call(middle, f, [ops.Call(middle, f, [x])]))
    module = b.build(ops.Call(b, g, [ops.Constant(b, np.float32(3))])).module
    assert len(module.computations) == 3
    assert evaluate(module, []).array == 3


def test_a_chain_of_ten_thousand_ops(b):
    x = ops.Parameter(b, 0, Shape(F32))
    for _ in range(10_000):
        x = ops.Add(x, x)
    module = b.build(x).module
    assert len(module.entry.instructions) == 10_001
    assert XlaComputation(module).program_shape.result is Shape(F32)


def test_names_become_identifiers():
    b = XlaBuilder("my model/v1")
    x = ops.Parameter(b, 0, VECTOR, "a b")
    computation = b.build(x)
    assert computation.name == "my_model_v1"
    assert computation.entry.root.name == "a_b"


def test_an_empty_computation_says_so(b):
    with pytest.raises(InvalidArgument, match="empty"):
        ops.Call(b, XlaComputation(), [])
    with pytest.raises(InvalidArgument, match="found str, wanted an XlaComputation"):
        ops.Call(b, "f", [])


def test_tuple_shapes(b):
    pair = ops.Parameter(b, 0, TupleShape((VECTOR, Shape(PRED))))
    first, second = pair
    assert first.shape is VECTOR and second.shape is Shape(PRED) and len(pair) == 2
    assert pair[-1].shape is Shape(PRED)
