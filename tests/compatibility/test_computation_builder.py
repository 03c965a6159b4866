"""ComputationBuilder: every method of the class that XLA's first documents print, and when mistakes raise."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.builder import ComputationBuilder
from axla.client import Client
from axla.compatibility.computation_builder import snake_case
from axla.core.dtypes import C64, F32, F64, PRED, S32, S64, U32
from axla.core.errors import InvalidArgument, ShapeError
from axla.core.literal import Literal
from axla.core.shape import Layout, Shape, TupleShape
from axla.interpreter import evaluate

# The public methods of the C++ class, in the document's order.
METHODS = [
    "client", "name", "set_die_immediately_on_error", "Parameter", "GetShape", "CheckShape",
    "CheckSameShape", "ConstantLiteral", "ConstantR0", "ConstantR1", "ConstantR2", "ConstantR2FromArray2D",
    "ConstantR3FromArray3D", "ConstantR4FromArray4D", "Broadcast", "Pad", "Reshape", "Collapse", "Slice",
    "ConcatInDim", "Trace", "Select", "Tuple", "GetTupleElement", "Eq", "Ne", "Ge", "Gt", "Lt", "Le", "Dot",
    "CreateDefaultConvDimensionNumbers", "CreateConvDimensionNumbers", "Conv", "ConvWithGeneralPadding",
    "ConvWithGeneralDimensions", "ConvGeneral", "Infeed", "CustomCallOp", "Add", "Sub", "Mul", "Div", "Rem",
    "Max", "Min", "Reduce", "ReduceWindow", "ReduceWindowWithGeneralPadding", "SelectAndScatter",
    "SelectAndScatterWithGeneralPadding", "Exp", "Floor", "Ceil", "Log", "Tanh", "SqrtF32", "SquareF32",
    "Pow", "ConvertElementType", "ReciprocalF32", "Neg", "Trans", "Rev", "Sort", "Clamp", "Map",
    "RngNormal", "RngUniform", "RngBernoulli", "While", "ComputeConstant", "CreateSubBuilder",
    "SetReturnValue", "Build", "BuildAndNoteError",
]  # fmt: skip
SPEC = Path(__file__).parents[2].parent / "shared" / "spec" / "xla_prerelease.md"


def builder() -> ComputationBuilder:
    return ComputationBuilder(None, "f")


def run(c, handle) -> np.ndarray:
    return c.ComputeConstant(handle).array


def scalar_function(c, *names):
    sub = c.CreateSubBuilder("scalars")
    x, y = sub.Parameter(0, Shape(F32), "x"), sub.Parameter(1, Shape(F32), "y")
    getattr(sub, names[0])(x, y)
    return sub.Build()


@pytest.mark.parametrize("name", METHODS)
def test_method_in_both_spellings(name):
    method = getattr(ComputationBuilder, name)
    assert method is getattr(ComputationBuilder, snake_case(name))
    assert method.__doc__


@pytest.mark.skipif(not SPEC.exists(), reason="the document is not beside the repository")
def test_the_list_is_the_documents():
    fragment = SPEC.read_text().split("class ComputationBuilder {")[1].split("\n};")[0]
    code = "\n".join(line for line in fragment.splitlines() if not line.strip().startswith("//"))
    declared = re.findall(r"(\w+)\((?=[^)]*\)\s*[;{])", code.replace("~ComputationBuilder();", ""))
    declared = [n for n in dict.fromkeys(declared) if n != "ComputationBuilder"]
    assert sorted(declared) == sorted(METHODS)


def test_snake_case():
    names = ["GetTupleElement", "ConstantR2FromArray2D", "SqrtF32", "RngUniform", "ConcatInDim", "ConstantR0"]
    assert [snake_case(n) for n in names] == [
        "get_tuple_element", "constant_r2_from_array2d", "sqrt_f32", "rng_uniform", "concat_in_dim",
        "constant_r0",
    ]  # fmt: skip


# Mistakes.


def test_mistakes_wait_for_build():
    c = builder()
    x, y = c.Parameter(0, Shape(F32, (2,)), "x"), c.Parameter(1, Shape(F32, (3,)), "y")
    bad = c.Add(x, y)
    worse = c.Mul(c.Neg(bad), c.Parameter(0, Shape(F32), "again"))
    assert c.first_error() is not None
    with pytest.raises(ShapeError, match=r"add\(f32\[2\] %x, f32\[3\] %y\)") as caught:
        c.Build()
    assert f"{__file__}:" in str(caught.value)
    with pytest.raises(ShapeError):
        _ = worse.shape
    assert c.first_error() is None, "the builder starts afresh"
    c.Parameter(0, Shape(F32), "x")
    assert c.Build().program_shape.result is Shape(F32)


def test_questions_raise_the_noted_mistake():
    c = builder()
    bad = c.GetTupleElement(c.ConstantR0(1.0), 0)
    for ask in (
        lambda: c.GetShape(bad),
        lambda: c.ComputeConstant(bad),
        lambda: c.SetReturnValue(bad),
        lambda: -bad,
    ):
        with pytest.raises(ShapeError, match="get-tuple-element takes a tuple"):
            ask()
    assert c.CheckShape(bad, Shape(F32)) is bad
    c.CheckSameShape(bad, bad)


def test_mistakes_raise_at_once_on_request():
    c = builder()
    c.set_die_immediately_on_error(True)
    x = c.Parameter(0, Shape(F32, (2,)), "x")
    with pytest.raises(ShapeError):
        c.Add(x, c.ConstantR1([1.0, 2.0, 3.0]))
    with pytest.raises(InvalidArgument):
        c.Parameter(0, Shape(F32), "x")
    c.SetReturnValue(x)
    assert c.Build().program_shape.result is Shape(F32, (2,))


def test_sub_builders_die_as_their_parent_does():
    parent = builder()
    parent.set_die_immediately_on_error(True)
    sub = parent.CreateSubBuilder("sub")
    with pytest.raises(ShapeError):
        sub.Trans(sub.ConstantR0(1.0))


def test_build_and_note_error():
    parent = builder()
    sub = parent.CreateSubBuilder("sub")
    sub.Trans(sub.ConstantR0(1.0))
    computation = sub.BuildAndNoteError()
    assert computation.is_null
    parent.Map([parent.ConstantR1([1.0])], computation)
    with pytest.raises(ShapeError, match="trans_rank"):
        parent.Build()
    good = parent.CreateSubBuilder("good")
    good.ConstantR0(1.0)
    assert not good.BuildAndNoteError().is_null
    with pytest.raises(InvalidArgument, match="no parent"):
        parent.BuildAndNoteError()


def test_check_shape_fails_at_once():
    c = builder()
    x, y = c.ConstantR0(1.0), c.ConstantR0(1)
    assert c.CheckShape(x, Shape(F32)) is x
    with pytest.raises(ShapeError, match=r"CheckShape: .* wanted f32\[2\]"):
        c.CheckShape(x, Shape(F32, (2,)))
    with pytest.raises(ShapeError, match="CheckSameShape"):
        c.CheckSameShape(x, y)


# Constants.


@pytest.mark.parametrize(
    "value, dtype",
    [
        (True, PRED),
        (7, S32),
        (1.5, F32),
        (1j, C64),
        (np.int64(7), S64),
        (np.float64(1.5), F64),
        (np.uint32(7), U32),
    ],
)
def test_native_types(value, dtype):
    c = builder()
    assert c.ConstantR0(value).dtype is dtype
    assert c.ConstantR1([value, value]).dtype is dtype
    assert c.ConstantR2([[value]]).shape is Shape(dtype, (1, 1))
    assert c.ConstantR1(3, value).shape is Shape(dtype, (3,))


def test_native_types_by_request():
    c = builder()
    assert c.ConstantR0(7, np.int64).dtype is S64
    assert c.ConstantR1([1, 2], native_type=float).dtype is F32
    assert c.ConstantR1([1, 2], native_type=U32).dtype is U32


def test_constant_ranks():
    c = builder()
    cube = np.arange(24, dtype=np.float32)
    assert c.ConstantR2FromArray2D(cube.reshape(6, 4)).dims == (6, 4)
    assert c.ConstantR3FromArray3D(cube.reshape(2, 3, 4)).dims == (2, 3, 4)
    assert c.ConstantR4FromArray4D(cube.reshape(2, 3, 2, 2)).dims == (2, 3, 2, 2)
    assert run(c, c.ConstantLiteral(Literal.of(cube))).tolist() == cube.tolist()
    c.ConstantR1(cube.reshape(6, 4))
    with pytest.raises(ShapeError, match="ConstantR1: found 2 dimensions, wanted 1"):
        c.Build()
    c.ConstantR0(2**40)
    with pytest.raises(InvalidArgument, match="do not fit in s32"):
        c.Build()
    c.ConstantR1([[1.0], [1.0, 2.0]])
    with pytest.raises(InvalidArgument, match="constant: "):
        c.Build()
    c.ConstantR0("one")
    with pytest.raises(InvalidArgument, match="wanted bool, int, float or complex"):
        c.Build()


# Ops, with the examples of the document.

V = np.array([[[10, 11, 12], [15, 16, 17]], [[20, 21, 22], [25, 26, 27]],
              [[30, 31, 32], [35, 36, 37]], [[40, 41, 42], [45, 46, 47]]], np.float32)  # fmt: skip


def test_broadcast():
    c = builder()
    assert run(c, c.Broadcast(c.ConstantR0(2.0), [2, 3])).tolist() == [[2, 2, 2]] * 2


def test_collapse():
    c = builder()
    v = c.ConstantR3FromArray3D(V)
    assert run(c, c.Collapse(v, [0, 1, 2])).tolist() == V.ravel().tolist()
    assert run(c, c.Collapse(v, [0, 1])).tolist() == V.reshape(8, 3).tolist()
    assert run(c, c.Collapse(v, [1, 2])).tolist() == V.reshape(4, 6).tolist()


def test_concatenate():
    c = builder()
    found = c.ConcatInDim([c.ConstantR2([[1, 2], [3, 4], [5, 6]]), c.ConstantR2([[7, 8]])], 0)
    assert run(c, found).tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_convert_element_type():
    c = builder()
    found = run(c, c.ConvertElementType(c.ConstantR1([0, 1, 2]), F32))
    assert found.dtype == np.float32 and found.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "lhs, rhs, dims",
    [
        ((), (), ()),
        ((3,), (3,), ()),
        ((2, 3), (3,), (2,)),
        ((2, 3), (3, 4), (2, 4)),
        ((2, 3, 4), (5, 4, 6), (2, 3, 5, 6)),
    ],
)
def test_dot(lhs, rhs, dims):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, lhs).astype(np.float32), rng.integers(-9, 9, rhs).astype(np.float32)
    c = builder()
    found = c.Dot(c.ConstantLiteral(a), c.ConstantLiteral(b))
    assert found.dims == dims
    assert np.array_equal(run(c, found), np.dot(a, b))


def test_pad():
    from axla.builder.records import make_padding_config

    c = builder()
    found = c.Pad(c.ConstantR1([1.0, 2.0]), c.ConstantR0(0.0), make_padding_config([(1, 2, 1)]))
    assert run(c, found).tolist() == [0, 1, 0, 2, 0, 0]


def test_reduce():
    c = builder()
    array = c.Broadcast(c.ConstantR2([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), [4])
    add, zero = scalar_function(c, "Add"), c.ConstantR0(0.0)
    assert run(c, c.Reduce(array, zero, add, [0])).tolist() == [[4, 8, 12], [16, 20, 24]]
    assert run(c, c.Reduce(array, zero, add, [2])).tolist() == [[6, 15]] * 4
    assert run(c, c.Reduce(array, zero, add, [0, 1])).tolist() == [20, 28, 36]
    assert run(c, c.Reduce(array, zero, add, [0, 1, 2])) == 84


def test_reshape():
    c = builder()
    v = c.ConstantR3FromArray3D(V)
    assert run(c, c.Reshape(v, [0, 1, 2], [8, 3])).tolist() == V.reshape(8, 3).tolist()
    out_of_order = V.transpose(1, 2, 0)
    assert run(c, c.Reshape(v, [1, 2, 0], [24]))[:6].tolist() == [10, 20, 30, 40, 11, 21]
    assert np.array_equal(run(c, c.Reshape(v, [1, 2, 0], [2, 6, 2])), out_of_order.reshape(2, 6, 2))
    assert run(c, c.Reshape(c.ConstantR2([[5.0]]), [0, 1], [])) == 5
    assert run(c, c.Reshape(c.ConstantR0(5.0), [], [1, 1])).tolist() == [[5]]
    assert np.array_equal(run(c, c.Reshape(v, [24])), V.ravel())


def test_select():
    c = builder()
    v1, v2 = c.ConstantR1([1, 2, 3, 4]), c.ConstantR1([100, 200, 300, 400])
    pred = c.ConstantR1([True, False, False, True])
    assert run(c, c.Select(pred, v1, v2)).tolist() == [1, 200, 300, 4]
    assert run(c, c.Select(c.ConstantR0(True), v1, v2)).tolist() == [1, 2, 3, 4]


def test_slice():
    c = builder()
    a = c.ConstantR1([0.0, 1.0, 2.0, 3.0, 4.0])
    assert run(c, c.Slice(a, [2], [4])).tolist() == [2, 3]
    b = c.ConstantR2FromArray2D(np.arange(12, dtype=np.float32).reshape(4, 3))
    assert run(c, c.Slice(b, [2, 1], [4, 3])).tolist() == [[7, 8], [10, 11]]


def test_sort_trans_rev_clamp():
    c = builder()
    assert run(c, c.Sort(c.ConstantR1([3.0, 1.0, 2.0]))).tolist() == [1, 2, 3]
    assert run(c, c.Trans(c.ConstantR2([[1, 2], [3, 4]]))).tolist() == [[1, 3], [2, 4]]
    assert run(c, c.Rev(c.ConstantR2([[1, 2], [3, 4]]), [0])).tolist() == [[3, 4], [1, 2]]
    assert run(c, c.Clamp(c.ConstantR0(0), c.ConstantR1([-1, 5, 9]), c.ConstantR0(6))).tolist() == [0, 5, 6]


def test_f32_functions():
    c = builder()
    x = c.ConstantR1([0.25, 4.0])
    assert run(c, c.SqrtF32(x)).tolist() == [0.5, 2]
    assert run(c, c.SquareF32(x)).tolist() == [0.0625, 16]
    assert run(c, c.ReciprocalF32(x)).tolist() == [4, 0.25]
    c.SqrtF32(c.ConstantR0(4))
    with pytest.raises(ShapeError, match="f32_only"):
        c.Build()


def test_map_with_static_operands():
    c = builder()
    found = c.Map([c.ConstantR1([1.0, 2.0])], scalar_function(c, "Mul"), [c.ConstantR0(5.0)])
    assert run(c, found).tolist() == [5, 10]


def test_map_with_static_arrays():
    """x[i] + table[i mod 2], by a computation that takes the whole table."""
    c = builder()
    sub = c.CreateSubBuilder("look_up")
    x, table = sub.Parameter(0, Shape(F32), "x"), sub.Parameter(1, Shape(F32, (2,)), "table")
    sub.Add(x, sub.Reshape(sub.Slice(table, [1], [2], [1]), []))
    found = c.Map(
        [c.ConstantR2([[1.0, 2.0], [3.0, 4.0]])], sub.BuildAndNoteError(), [c.ConstantR1([10.0, 20.0])]
    )
    assert run(c, found).tolist() == [[21, 22], [23, 24]]
    c.Map([c.ConstantR0(1.0), c.ConstantR1([1.0])], scalar_function(c, "Mul"), [c.ConstantR1([5.0])])
    with pytest.raises(ShapeError, match="map_c2"):
        c.Build()


def test_trace_logs_the_value(caplog, capfd):
    c = builder()
    x = c.Parameter(0, Shape(F32, (2,)), "x")
    twice = c.Add(x, x)
    c.Trace("twice", twice)
    module = c.Build().module
    assert module.entry.root.opcode == "add"
    with caplog.at_level(logging.INFO, "axla.trace"):
        for backend in ("interpreter", "cpu", "one-lane"):
            result = axla.compile(module, backend=backend)(np.float32([1, 2]))
            assert np.asarray(result).tolist() == [2, 4]
    assert [r.getMessage() for r in caplog.records] == ["twice: [2. 4.]"] * 3


def test_while_of_the_document():
    c = builder()
    state = TupleShape((Shape(S32), Shape(F32, (10,))))
    condition = c.CreateSubBuilder("condition")
    condition.Lt(condition.GetTupleElement(condition.Parameter(0, state, "t"), 0), condition.ConstantR0(1000))
    body = c.CreateSubBuilder("body")
    t = body.Parameter(0, state, "t")
    iteration = body.Add(body.GetTupleElement(t, 0), body.ConstantR0(1))
    body.Tuple([iteration, body.Add(body.GetTupleElement(t, 1), body.ConstantR1(10, 0.5))])
    init = c.Tuple([c.ConstantR0(0), c.ConstantR1(10, 0.0)])
    c.While(condition.BuildAndNoteError(), body.BuildAndNoteError(), init)
    count, total = evaluate(c.Build().module, []).elements
    assert count.array == 1000 and total.array.tolist() == [500.0] * 10


def test_tuples_and_custom_calls():
    c = builder()
    pair = c.Tuple([c.ConstantR0(1.0), c.ConstantR0(2)])
    assert run(c, c.GetTupleElement(pair, 1)) == 2
    call = c.CustomCallOp("myfunc", [c.ConstantR0(1.0)], Shape(F32, (3, 3)))
    assert call.shape is Shape(F32, (3, 3)) and call.instruction.op.custom_call_target == "myfunc"


def test_comparisons_and_arithmetic_with_broadcast_dimensions():
    c = builder()
    matrix, vector = c.ConstantR2([[1.0, 2.0], [3.0, 4.0]]), c.ConstantR1([2.0, 3.0])
    assert run(c, c.Ge(matrix, vector, [1])).tolist() == [[False, False], [True, True]]
    assert run(c, c.Sub(matrix, vector, broadcast_dimensions=[0])).tolist() == [[-1, 0], [0, 1]]


# Convolution dimension numbers.


def test_conv_dimension_numbers():
    numbers = ComputationBuilder.CreateDefaultConvDimensionNumbers()
    assert numbers.input_batch_dimension == ComputationBuilder.kConvBatchDimension
    assert numbers.input_spatial_dimensions == numbers.kernel_spatial_dimensions == [2, 3]
    with pytest.raises(InvalidArgument, match="the kernel dimensions"):
        ComputationBuilder.CreateConvDimensionNumbers(0, 1, 2, 3, 0, 0, 2, 3)


# The end.


def test_compute_constant_refuses_parameters():
    c = builder()
    x = c.Parameter(0, Shape(F32), "x")
    with pytest.raises(InvalidArgument, match="depends on %x"):
        c.ComputeConstant(c.Add(x, c.ConstantR0(1.0)))
    assert not c.IsConstant(x) and c.IsConstant(c.ConstantR0(1.0))


def test_compute_constant_in_a_layout():
    c = builder()
    literal = c.ComputeConstant(c.ConstantR2([[1, 2, 3]]), Layout((0, 1)))
    assert literal.shape.layout.minor_to_major == (0, 1)


def test_set_return_value():
    c = builder()
    first = c.ConstantR0(1.0)
    c.Add(first, c.ConstantR0(2.0))
    c.SetReturnValue(first)
    assert c.name() == "f" and c.client() is None
    assert evaluate(c.Build().module, []).array == 1
    with pytest.raises(InvalidArgument, match="another builder"):
        c.SetReturnValue(builder().ConstantR0(1.0))


# What the documents of 2017 have.


def test_logical_operations_take_pred_only():
    c = builder()
    x, y = c.ConstantR1([True, True, False]), c.ConstantR1([True, False, False])
    assert run(c, c.LogicalAnd(x, y)).tolist() == [True, False, False]
    assert run(c, c.LogicalOr(x, c.ConstantR2([[False] * 3, [True] * 3]), [1])).tolist() == [
        [True, True, False], [True] * 3,
    ]  # fmt: skip
    assert run(c, c.logical_not(y)).tolist() == [False, True, True]
    assert c.first_error() is None
    c.LogicalAnd(c.ConstantR0(3), c.ConstantR0(1))
    with pytest.raises(ShapeError, match="the operands must be pred"):
        c.Build()


def test_concatenate_and_custom_call():
    c = builder()
    a, b = c.ConstantR2([[1, 2], [3, 4], [5, 6]]), c.ConstantR2([[7, 8]])
    assert run(c, c.Concatenate([a, b], 0)).tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    op = c.CustomCall("myfunc", [a, b], Shape(F32, (3, 3))).instruction.op
    assert op.custom_call_target == "myfunc" and op.shape is Shape(F32, (3, 3))


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_random_numbers_are_constants(backend):
    c = ComputationBuilder(Client(backend), "f")
    drawn = c.RngUniform(c.ConstantR0(2.0), c.ConstantR0(3.0), Shape(F32, (100,)))
    largest = c.ReduceAll(drawn, c.ConstantR0(0.0), scalar_function(c, "Max"))
    assert c.IsConstant(largest)
    found = c.client().Transfer(c.ComputeConstant(largest)).array
    assert 2 < found < 3
    parameter = c.Parameter(0, Shape(F32), "x")
    assert not c.IsConstant(c.Add(largest, parameter))
    assert not drawn.builder.is_constant(drawn), "to XlaBuilder they are none"


def test_constants_keep_the_layout_asked_for():
    c = ComputationBuilder(Client("cpu"), "f")
    data = c.ComputeConstant(c.ConstantR2([[1, 2, 3], [4, 5, 6]]), Layout((0, 1)))
    literal = c.client().Transfer(data)
    assert str(c.client().GetShape(data)) == str(literal.shape) == "s32[2,3]{0,1}"
    assert literal.array.tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(InvalidArgument, match="wanted an array"):
        c.ComputeConstant(c.Tuple([]), Layout(()))
