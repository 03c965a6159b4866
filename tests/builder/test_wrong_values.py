"""Wrong Python values in every argument of every public function: an AxlaError each, and no wrong program."""

import inspect
import itertools

import numpy as np
import pytest
from test_ops_table import BINARY_FLOAT, BINARY_INT, CALLS, COMPARE, FUNCTIONS, UNARY_FLOAT, F, I, c

import axla
from axla import xla_client as xc
from axla.builder import ComputationBuilder, OpMetadata, XlaBuilder, ops
from axla.core.dtypes import F32, S32
from axla.core.errors import AxlaError, InvalidArgument, ShapeError
from axla.core.shape import Layout, Shape, TupleShape

SCALAR, ROW = Shape(F32), Shape(F32, (3,))


class Odd:
    """Nothing that any argument could be."""

    def __repr__(self) -> str:
        return "Odd()"


OPERANDS = {"init_value", "padding_value", "rhs", "min", "max", "sigma"}  # which may be Python numbers
WRONG_LIST = [1.7]
NEVER = [Odd(), Odd, {1: 2}, {1, 0}, {1.5}]
WRONG = [
    *NEVER, WRONG_LIST, [(1, 1.9)], None, True, 1.7, -5, 2**70, "XX", b"", [None], [[1]], [[1, 2]],
    [(1, "x")], (1, 2, 3), range(9), Shape(F32), F32, np.float32([1, 2]), np.array(["a"]), np.array(None),
    lambda: 0,
]  # fmt: skip

GOOD = {name: call for name, (call, _) in CALLS.items()}
GOOD |= {name: (lambda b, name=name: getattr(ops, name)(c(b, F))) for name in UNARY_FLOAT}
GOOD |= {name: (lambda b, name=name: getattr(ops, name)(c(b, F), F)) for name in BINARY_FLOAT}
GOOD |= {name: (lambda b, name=name: getattr(ops, name)(c(b, F), F, [])) for name in COMPARE}
GOOD |= {name: (lambda b, name=name: getattr(ops, name)(c(b, I), 1, [])) for name in BINARY_INT}
GOOD |= {
    "Compare": lambda b: ops.Compare(c(b, F), F, [], "LT", "FLOAT"),
    "DynamicSliceInDim": lambda b: ops.DynamicSliceInDim(c(b, F), 1, 2, 1),
    "Index": lambda b: ops.Index(c(b, F), (0, slice(0, 2))),
    "One": lambda b: ops.One(b, F32),
    "ShiftRight": lambda b: ops.ShiftRight(c(b, I), 1),
    "ApproxTopKReductionOutputSize": lambda b: ops.ApproxTopKReductionOutputSize(9, 1, 2, 0.5, True, -1),
    "Trace": lambda b: ops.Trace("tag", c(b, F)),
    "Zero": lambda b: ops.Zero(b, F32),
    "ZerosLike": lambda b: ops.ZerosLike(c(b, F)),
}


def _arguments(function, given, named):
    """(name, value, default, the arguments with another value there) of each argument, those left out too."""
    signature = inspect.signature(function)
    bound = signature.bind(*given, **named)
    for parameter in signature.parameters.values():
        found = bound.arguments.get(parameter.name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            for n, place in itertools.product(range(len(found or ())), [parameter.name]):
                yield f"{place}[{n}]", found[n], parameter.default, _placed(signature, bound, place, n)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter.name, found, parameter.default, _placed(signature, bound, parameter.name, None)


def _placed(signature, bound, name, number):
    def place(value):
        arguments = inspect.BoundArguments(signature, bound.arguments.copy())
        whole = value
        if number is not None:
            before = bound.arguments[name]
            whole = (*before[:number], value, *before[number + 1 :])
        arguments.arguments[name] = whole
        arguments.apply_defaults()
        return arguments.args, arguments.kwargs

    return place


def _is_integers(value) -> bool:
    whole = list(value) if isinstance(value, (list, tuple, range)) else [value]
    return bool(whole) and all(type(v) is int for v in whole)


def _must_fail(name, good, default, value) -> bool:
    """Whether a value can be no other spelling of what is wanted."""
    if any(value is never for never in NEVER):
        return True
    missing = value is None and default is not None
    no_integers = missing or isinstance(value, (float, str)) or value is WRONG_LIST
    return _is_integers(good) and no_integers and name not in OPERANDS


def _faults(function, given, named, raising=True):
    """Lists the wrong values that a function accepts, or refuses with a bare exception."""
    more = [v for v in given if isinstance(v, axla.builder.XlaOp)][:1]
    for name, good, default, place in _arguments(function, given, named):
        for value in [*WRONG, *more, [*more, *more, 1.5]]:
            arguments, keywords = place(value)
            try:
                function(*arguments, **keywords)
            except AxlaError:
                continue
            except Exception as error:
                yield f"{name}={value!r}: {error!r}"
                continue
            if raising and _must_fail(name, good, default, value):
                yield f"{name}={value!r} is accepted"


def recorded(monkeypatch, name, call):
    """A function, and the arguments of its one good call."""
    function, found = getattr(ops, name), []

    def recorder(*given, **named):
        found.append((given, named))
        return function(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(ops, name, recorder)
        call()
    return function, *found[-1]


def test_every_function_has_a_good_call():
    functions = {name for name in ops.__all__ if not isinstance(getattr(ops, name), type)}
    assert functions == GOOD.keys() and set(FUNCTIONS) <= GOOD.keys()


@pytest.mark.parametrize("name", sorted(GOOD))
def test_functions_of_ops(monkeypatch, name):
    b = XlaBuilder("f")
    function, given, named = recorded(monkeypatch, name, lambda: GOOD[name](b))
    assert not list(_faults(function, given, named))


def _builder_calls(b):
    x = b.parameter(0, ROW, "x")
    yield b.parameter, (1, ROW, "y"), {}
    yield b.constant, (1.5, F32), {}
    yield b.callee, (axla.XlaBuilder("g"), "what"), {}
    yield b.get_shape, (x,), {}
    yield b.get_program_shape, (x,), {}
    yield b.is_constant, (x,), {}
    yield b.build_constant_subgraph, (b.constant(1.5),), {}
    yield b.set_op_metadata, (OpMetadata(),), {}
    yield b.set_one_shot_op_metadata, (OpMetadata(),), {}
    yield b.set_instruction_frontend_attribute, (x, "key", "value"), {}
    yield b.setup_alias, ([], 0, [], "may"), {}
    yield b.add_buffer_donor, (0, []), {}
    yield b.sub_builder, ("name",), {}
    yield lambda op, operands: b.add(op, operands), (axla.hlo.Negate(), (x,)), {}
    yield b.build, (x,), {}
    yield XlaBuilder, ("name",), {}


def test_methods_of_the_builder():
    b = XlaBuilder("f")
    faults = []
    for function, given, named in _builder_calls(b):
        faults += [f"{function.__name__}: {f}" for f in _faults(function, given, named, raising=False)]
    assert not faults


def _computation_builder_calls(b, x):
    yield b.Parameter, (3, ROW, "y")
    yield b.ConstantLiteral, (F,)
    yield b.ConstantR0, (1.5, np.float32)
    yield b.ConstantR1, ([1.5], None, np.float32)
    yield b.ConstantR1, (3, 1.5, np.float32)
    yield b.ConstantR2, ([[1.5]], np.float32)
    yield b.ConstantR3FromArray3D, ([[[1.5]]], np.float32)
    yield b.ConstantR4FromArray4D, ([[[[1.5]]]], np.float32)
    yield b.Reshape, (x, [1], [3, 1])
    yield b.Dot, (x, x)
    yield b.Trans, (x,)
    for name in ("SqrtF32", "SquareF32", "ReciprocalF32", "Sort"):
        yield getattr(b, name), (x,)
    yield b.Map, ([x], None, [x])
    yield b.ReduceWindowWithGeneralPadding, (x, x, None, [1], [1], [(0, 0)])
    yield b.CustomCallOp, ("f", [x], ROW)
    yield b.Trace, ("tag", x)
    yield b.Slice, (x, [0], [1])
    yield b.Reduce, (x, x, None, [0])
    yield b.Tuple, ([x],)
    yield b.Iota, (Shape(S32, (2,)), 0)
    yield b.Add, (x, x, [0])


def test_methods_of_the_computation_builder_defer_their_mistakes():
    b = ComputationBuilder(None, "f")
    x = b.Parameter(0, ROW, "x")
    faults = []
    for method, given in _computation_builder_calls(b, x):
        for name, good, default, place in _arguments(method, given, {}):
            for value in [*WRONG, x]:
                arguments, keywords = place(value)
                try:
                    method(*arguments, **keywords)
                except Exception as error:
                    faults.append(f"{method.__name__}: {name}={value!r}: {error!r}")
                if b.first_error() is None and _must_fail(name, good, default, value):
                    faults.append(f"{method.__name__}: {name}={value!r} is accepted")
                b._error = None
    assert not faults


def test_questions_to_the_computation_builder():
    b = ComputationBuilder(None, "f")
    x = b.Parameter(0, ROW, "x")
    for method, given in (
        (b.GetShape, (x,)), (b.CheckShape, (x, ROW)), (b.CheckSameShape, (x, x)), (b.IsConstant, (x,)),
        (b.ComputeConstant, (b.ConstantR1([1.0]), Layout((0,)))), (b.CreateSubBuilder, ("g",)),
        (b.SetReturnValue, (x,)), (b.CreateConvDimensionNumbers, (0, 1, 2, 3, 0, 1, 2, 3)),
        (ComputationBuilder, (None, "name")),
    ):  # fmt: skip
        assert not list(_faults(method, given, {}, raising=False))
    assert not list(_faults(b.set_die_immediately_on_error, (False,), {}))


# What the wrong values used to give.


def test_none_is_no_element_type(b):
    for call in (
        lambda: ops.ConvertElementType(c(b, F), None),
        lambda: ops.Iota(b, None, 3),
        lambda: xc.dtype_to_etype(None),
        lambda: xc.Shape.array_shape(None, (2,)),
    ):
        with pytest.raises(InvalidArgument, match="found None, wanted an element type"):
            call()


def test_floats_are_no_dimensions(b):
    for call in (
        lambda: ops.Add(c(b, F), c(b, F[0]), [1.0]),
        lambda: ops.ConcatInDim(b, [c(b, F)], 0.9),
        lambda: ops.Pad(c(b, F), 0, [(0, 1.7, 0), (0, 0, 0)]),
        lambda: ops.BatchNormInference(c(b, F), *[F[0]] * 4, 0.5, 1.9),
        lambda: ops.AllToAll(c(b, F), 0, 1, 2.0),
        lambda: xc.Shape.array_shape("f32", (1.7,)),
    ):
        with pytest.raises(InvalidArgument, match="wanted an integer"):
            call()
    for sizes, found in (
        ((1.9,), "1.9 as a size"),
        ((1013, True), "True as a size"),
        (1013, "1013 as the sizes"),
    ):
        with pytest.raises(ShapeError, match=f"found {found}, wanted"):
            Shape(F32, sizes)
    assert type(Shape(F32, (np.int64(1013),)).dims[0]) is int


def test_one_array_is_no_sequence_of_operands(b):
    x = c(b, F)
    for call in (
        lambda: ops.Sort(b, x), lambda: ops.Tuple(b, x), lambda: ops.Call(b, None, x),
        lambda: ops.ConcatInDim(b, x, 0), lambda: ops.Map(b, x, None, []), lambda: ops.Tuple(b, F),
        lambda: ops.CustomCall(b, "f", x, SCALAR), lambda: ops.MultiCollectivePermute(x, []),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match="wanted a sequence of operands"):
            call()
    with pytest.raises(InvalidArgument, match="has no value while the program is built"):
        np.asarray(x)


def test_sets_have_no_order(b):
    with pytest.raises(InvalidArgument, match="Transpose: permutation: found {0, 1}, wanted a sequence"):
        ops.Transpose(c(b, F), {1, 0})


def test_enumerations_by_member_name_and_value(b):
    x = c(b, F)
    for spelled in ("LT", axla.ir.attributes.Direction.LT):
        assert ops.Compare(x, F, None, spelled).instruction.op.direction == "LT"
    for spelled in ("RNG_PHILOX", 2, ops.RandomAlgorithm.RNG_PHILOX):
        state = c(b, np.uint64([1, 2, 3]))
        assert ops.RngBitGenerator(spelled, state, ROW).instruction.op.algorithm == "rng_philox"
    with pytest.raises(InvalidArgument, match="Compare: direction: found 'XX', wanted one of EQ, NE, GE"):
        ops.Compare(x, F, None, "XX")


def test_numpy_integers_and_iterators_are_taken(b):
    x = c(b, F)
    assert ops.Transpose(x, np.array([1, 0])).dims == ops.Transpose(x, iter([1, 0])).dims == (3, 2)
    assert ops.Reshape(x, (np.int8(3), np.uint64(2))).dims == (3, 2)
    assert ops.Tuple(b, (v for v in [x, x])).shape is TupleShape((x.shape, x.shape))
    assert ops.Cholesky(c(b, np.eye(2)), np.bool_(False)).instruction.op.lower is False


def test_accuracies_of_composed_functions_are_checked(b):
    for function in (ops.Exp, ops.Acosh):
        assert function(c(b, F), xc.ResultAccuracy(ops.ResultAccuracy_Mode.DEFAULT)).dims == (2, 3)
        with pytest.raises(axla.UnsupportedError, match="only the default accuracy"):
            function(c(b, F), xc.ResultAccuracy("HIGHEST"))


def test_composed_functions_take_their_arguments_by_name(b):
    assert ops.Igamma(a=c(b, F), x=2.0).dims == (2, 3)


def test_operands_of_another_builder_are_a_mistake_of_this_one():
    mine, other = ComputationBuilder(None, "mine"), ComputationBuilder(None, "other")
    mine.Neg(other.ConstantR0(1.0))
    with pytest.raises(InvalidArgument, match="Neg: an operand belongs to another builder"):
        mine.Build()
