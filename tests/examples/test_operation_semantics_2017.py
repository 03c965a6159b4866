"""The worked examples of XLA's page on operation semantics of 2017; one test per example, named after its
section.

Every example is built with `ComputationBuilder`, in the forms of that time, and run by the interpreter and
as compiled code. Examples that are the same in the page of today are tested in its form there as well.
"""

import ctypes

import numpy as np
import pytest
from worked import on_both_backends

import axla
from axla.builder import ComputationBuilder
from axla.builder.records import PaddingConfig, PaddingConfigDimension, PaddingType
from axla.core.dtypes import F32, S32, U32
from axla.core.errors import ShapeError
from axla.core.shape import Shape, TupleShape

V = [[[10, 11, 12], [15, 16, 17]], [[20, 21, 22], [25, 26, 27]],
     [[30, 31, 32], [35, 36, 37]], [[40, 41, 42], [45, 46, 47]]]  # fmt: skip
FLAT = sum(sum(V, []), [])
ORDERED = [10, 20, 30, 40, 11, 21, 31, 41, 12, 22, 32, 42, 15, 25, 35, 45, 16, 26, 36, 46, 17, 27, 37, 47]
B = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
SCALAR = Shape(F32)
MATRIX = [[1, 2, 3], [4, 5, 6]]


class Page:
    """A builder whose parameters have values."""

    def __init__(self) -> None:
        self.c = ComputationBuilder(None, "example")
        self.c.set_die_immediately_on_error(True)
        self.values: list[np.ndarray] = []

    def given(self, values, dtype=np.float32):
        array = np.asarray(values, dtype)
        self.values.append(array)
        shape = Shape(axla.dtypes.from_numpy(array.dtype), array.shape)
        return self.c.Parameter(len(self.values) - 1, shape)

    def function(self, make, *shapes):
        sub = self.c.CreateSubBuilder("f")
        make(sub, *[sub.Parameter(n, shape) for n, shape in enumerate(shapes)])
        return sub.Build()

    def binary(self, name):
        return self.function(lambda c, x, y: getattr(c, name)(x, y), SCALAR, SCALAR)

    def results(self, root):
        self.c.SetReturnValue(root)
        return on_both_backends(self.c.Build().module, self.values)

    def value(self, root):
        (result,) = self.results(root)
        return result.tolist()


@pytest.fixture
def page() -> Page:
    return Page()


def test_broadcast(page):
    assert page.value(page.c.Broadcast(page.given(2.0), [2, 3])) == [[2.0] * 3] * 2


def test_call(page):
    f = page.function(lambda c, x, y: c.Add(c.Mul(x, y), y), SCALAR, SCALAR)
    assert page.value(page.c.Call(f, [page.given(3), page.given(4)])) == 16


def test_clamp(page):
    """Clamp(operand, min, max) of the document; the method keeps the order of its C++ declaration."""
    low, operand, high = page.given(0, np.int32), page.given([-1, 5, 9], np.int32), page.given(6, np.int32)
    assert page.value(page.c.Clamp(low, operand, high)) == [0, 5, 6]


@pytest.mark.parametrize(
    ("dimensions", "dims"), [((0, 1, 2), (24,)), ((0, 1), (8, 3)), ((1, 2), (4, 6))], ids=str
)
def test_collapse(page, dimensions, dims):
    assert page.value(page.c.Collapse(page.given(V), dimensions)) == np.reshape(V, dims).tolist()


def test_concatenate_1_dimensional(page):
    parts = [page.given(p, np.int32) for p in ([2, 3], [4, 5], [6, 7])]
    assert page.value(page.c.ConcatInDim(parts, 0)) == [2, 3, 4, 5, 6, 7]


def test_concatenate_2_dimensional(page):
    parts = [page.given([[1, 2], [3, 4], [5, 6]]), page.given([[7, 8]])]
    assert page.value(page.c.ConcatInDim(parts, 0)) == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_convert_element_type(page):
    assert page.value(page.c.ConvertElementType(page.given([0, 1, 2], np.int32), F32)) == [0.0, 1.0, 2.0]


def test_conv_same(page):
    result = page.c.Conv(
        page.given([[[[1, 2, 3]]]]), page.given([[[[1, 10, 100]]]]), [1, 1], PaddingType.SAME
    )
    assert page.value(result) == [[[[210, 321, 32]]]]


def test_conv_valid(page):
    result = page.c.Conv(
        page.given([[[[1, 2, 3]]]]), page.given([[[[1, 10, 100]]]]), [1, 1], PaddingType.VALID
    )
    assert page.value(result) == [[[[321]]]]


def test_conv_output_z_5_gives_5_values_per_position(page):
    kernel = np.arange(5, dtype=np.float32).reshape(5, 1, 1, 1)
    result = page.c.ConvWithGeneralPadding(page.given([[[[3]]]]), page.given(kernel), [1, 1], [(0, 0)] * 2)
    assert page.value(result) == [[[[0]], [[3]], [[6]], [[9]], [[12]]]]


def test_cross_replica_sum_of_one_replica(page):
    assert page.value(page.c.CrossReplicaSum(page.given([1.0, 2.5]))) == [1.0, 2.5]


def test_custom_call(page):
    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    def myfunc(out, arguments):
        x = (ctypes.c_float * 2).from_address(arguments[0])
        y = (ctypes.c_float * 6).from_address(arguments[1])
        z = (ctypes.c_float * 9).from_address(out)
        z[:] = [x[1] + y[3]] + [0] * 8

    axla.register_custom_call("test_examples_2017_myfunc", myfunc)
    operands = [page.given([1, 2]), page.given([[10, 20, 30], [40, 50, 60]])]
    page.c.CustomCallOp("test_examples_2017_myfunc", operands, Shape(F32, (3, 3)))
    (result,) = axla.compile(page.c.Build().module).execute(page.values)
    assert np.asarray(result).tolist() == [[42, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_dot_vector_vector(page):
    assert page.value(page.c.Dot(page.given([1, 2, 3]), page.given([4, 5, 6]))) == 32


def test_dot_matrix_vector(page):
    assert page.value(page.c.Dot(page.given(MATRIX), page.given([1, 10, 100]))) == [321, 654]


def test_dot_matrix_matrix(page):
    result = page.c.Dot(page.given(MATRIX), page.given([[1, 2], [3, 4], [5, 6]]))
    assert page.value(result) == [[22, 28], [49, 64]]


def test_element_wise_binary_rem(page):
    assert page.value(page.c.Rem(page.given([7, -7]), page.given([-3, 3]))) == [1, -1]


def test_element_wise_binary_logical(page):
    x, y = page.given([True, True, False], np.bool_), page.given([True, False, False], np.bool_)
    found = page.results(page.c.Tuple([page.c.And(x, y), page.c.Or(x, y), page.c.Not(x)]))
    assert [f.tolist() for f in found] == [[True, False, False], [True, True, False], [False, False, True]]


def test_element_wise_binary_matrix_and_vector(page):
    result = page.c.Add(page.given(MATRIX), page.given([1, 2, 3]), [1])
    assert page.value(result) == [[2, 4, 6], [5, 7, 9]]


def test_element_wise_comparison(page):
    x, y = page.given([1, 2, 3]), page.given([2, 2, 2])
    methods = (page.c.Eq, page.c.Ne, page.c.Ge, page.c.Gt, page.c.Le, page.c.Lt)
    found = page.results(page.c.Tuple([method(x, y) for method in methods]))
    assert [f.tolist() for f in found] == [
        [False, True, False], [True, False, True], [False, True, True], [False, False, True],
        [True, True, False], [True, False, False],
    ]  # fmt: skip


def test_element_wise_unary_sign(page):
    assert page.value(page.c.Sign(page.given([-2, 0, 2]))) == [-1, 0, 1]


def test_element_wise_unary_is_finite(page):
    result = page.c.IsFinite(page.given([1, np.inf, -np.inf, np.nan]))
    assert page.value(result) == [True, False, False, False]


def test_batch_norm_training(page):
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 2)).astype(np.float32)
    result = page.c.BatchNormTraining(page.given(x), page.given([2, 3]), page.given([0, 1]), 0.01, 3)
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
    wanted = [2, 3] * (wide - mean) / np.sqrt(variance + 0.01) + [0, 1]
    for found, exact in zip(page.results(result), (wanted, mean, variance), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_batch_norm_training_invalid_feature_index(page):
    with pytest.raises(ShapeError):
        page.c.BatchNormTraining(page.given(MATRIX), page.given([1, 1]), page.given([0, 0]), 0.01, 2)


def test_get_tuple_element(page):
    t = page.c.Tuple([page.given(range(10)), page.given(5, np.int32)])
    element = page.c.GetTupleElement(t, 1)
    assert page.c.GetShape(element) is Shape(S32)
    assert page.value(element) == 5


def test_map(page):
    f = page.function(lambda c, x, y, z: c.Add(c.Mul(x, y), z), SCALAR, SCALAR, SCALAR)
    arrays = [page.given(a) for a in ([1, 2], [3, 4], [5, 6])]
    assert page.value(page.c.Map(arrays, f)) == [8, 14]


def test_map_with_a_static_operand(page):
    """elem_out <- computation(elem1, elem2, elem3, par1)."""
    f = page.function(lambda c, x, y, z, p: c.Mul(c.Add(c.Mul(x, y), z), p), *[SCALAR] * 4)
    arrays = [page.given(a) for a in ([1, 2], [3, 4], [5, 6])]
    assert page.value(page.c.Map(arrays, f, [page.given(10)])) == [80, 140]


def test_pad(page):
    config = PaddingConfig([PaddingConfigDimension(0, 1, 0), PaddingConfigDimension(-1, 2, 1)])
    result = page.c.Pad(page.given(MATRIX), page.given(9), config)
    assert page.value(result) == [[9, 2, 9, 3, 9, 9], [9, 5, 9, 6, 9, 9], [9] * 6]


@pytest.mark.parametrize(
    ("x", "dimensions", "wanted"),
    [
        ([10, 11, 12, 13], [0], 46),
        (MATRIX, [0], [5, 7, 9]),
        (MATRIX, [1], [6, 15]),
        ([MATRIX] * 4, [0], [[4, 8, 12], [16, 20, 24]]),
        ([MATRIX] * 4, [2], [[6, 15]] * 4),
        ([MATRIX] * 4, [0, 1], [20, 28, 36]),
        ([MATRIX] * 4, [0, 1, 2], 84),
    ],
    ids=["1d", "2d-0", "2d-1", "3d-0", "3d-2", "3d-0-1", "3d-all"],
)
def test_reduce(page, x, dimensions, wanted):
    result = page.c.Reduce(page.given(x), page.given(0), page.binary("Add"), dimensions)
    assert page.value(result) == wanted


def test_reduce_precision(page):
    result = page.c.ReducePrecision(page.given([1 / 3, 1e10, -1e10]), exponent_bits=5, mantissa_bits=10)
    assert page.value(result) == [float(np.float16(1 / 3)), np.inf, -np.inf]


def test_reduce_window_2_by_3_maximum(page):
    x = np.random.default_rng(1).integers(0, 50, (4, 6)).astype(np.float32)
    smallest = page.c.ConstantR0(np.finfo(np.float32).min)
    result = page.c.ReduceWindow(
        page.given(x), smallest, page.binary("Max"), [2, 3], [2, 3], PaddingType.VALID
    )
    assert page.value(result) == x.reshape(2, 2, 2, 3).max((1, 3)).tolist()


def test_reduce_window_two_strides(page):
    x = np.arange(6, dtype=np.float32)
    zero = page.c.ConstantR0(0.0)
    add, given = page.binary("Add"), page.given(x)
    windows = [page.c.ReduceWindow(given, zero, add, [3], [s], PaddingType.VALID) for s in (1, 3)]
    assert [f.tolist() for f in page.results(page.c.Tuple(windows))] == [[3, 6, 9, 12], [3, 12]]


@pytest.mark.parametrize("sizes", [(24,), (8, 3)], ids=str)
def test_reshape_in_order(page, sizes):
    result = page.c.Reshape(page.given(V), [0, 1, 2], sizes)
    assert page.value(result) == np.reshape(FLAT, sizes).tolist()


@pytest.mark.parametrize("sizes", [(24,), (8, 3), (2, 6, 2)], ids=str)
def test_reshape_out_of_order(page, sizes):
    result = page.c.Reshape(page.given(V), [1, 2, 0], sizes)
    assert page.value(result) == np.reshape(ORDERED, sizes).tolist()


def test_reshape_single_element(page):
    found = page.results(
        page.c.Tuple(
            [
                page.c.Reshape(page.given([[5]]), [0, 1], []),
                page.c.Reshape(page.given(5), [], [1, 1]),
            ]
        )
    )
    assert [f.tolist() for f in found] == [5, [[5]]]


def test_rev(page):
    assert page.value(page.c.Rev(page.given(B), [0])) == B[::-1]


def drawn(page, root):
    page.c.SetReturnValue(root)
    module = page.c.Build().module
    return [
        np.asarray(axla.compile(module, backend=backend).execute(page.values)[0])
        for backend in ("interpreter", "cpu")
    ]


def test_rng_bernoulli(page):
    for found in drawn(page, page.c.RngBernoulli(page.given(0.25), Shape(U32, (4000,)))):
        assert found.dtype == np.uint32 and set(found.tolist()) == {0, 1}
        assert 0.2 < found.mean() < 0.3


def test_rng_normal(page):
    for found in drawn(page, page.c.RngNormal(page.given(1), page.given(3), Shape(F32, (4000,)))):
        assert abs(found.mean() - 1) < 0.5 and 2.5 < found.std() < 3.5


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_rng_uniform(page, dtype):
    shape = Shape(axla.dtypes.from_numpy(np.dtype(dtype)), (1000,))
    for found in drawn(page, page.c.RngUniform(page.given(3, dtype), page.given(9, dtype), shape)):
        assert found.dtype == dtype and found.min() >= 3 and found.max() < 9


def test_select_and_scatter_element_chosen_twice(page):
    """The 9 is chosen by two windows: 2 + 6."""
    x, ge = [1, 2, 9, 4, 3], page.function(lambda c, a, b: c.Ge(a, b), SCALAR, SCALAR)
    result = page.c.SelectAndScatter(
        page.given(x), ge, [3], [2], PaddingType.VALID, page.given([2, 6]), page.c.ConstantR0(0.0),
        page.binary("Add"),
    )  # fmt: skip
    assert page.value(result) == [0, 0, 8, 0, 0]


V1, V2 = [1, 2, 3, 4], [100, 200, 300, 400]


def test_select_non_scalar_pred(page):
    pred = page.given([True, False, False, True], np.bool_)
    result = page.c.Select(pred, page.given(V1, np.int32), page.given(V2, np.int32))
    assert page.value(result) == [1, 200, 300, 4]


def test_select_scalar_pred(page):
    result = page.c.Select(page.given(True, np.bool_), page.given(V1, np.int32), page.given(V2, np.int32))
    assert page.value(result) == V1


def test_select_tuples(page):
    pairs = [page.c.Tuple([page.given(v), page.given(v[:2])]) for v in (V1, V2)]
    result = page.c.Select(page.given(False, np.bool_), *pairs)
    assert [f.tolist() for f in page.results(result)] == [V2, V2[:2]]


def test_slice_1_dimensional(page):
    assert page.value(page.c.Slice(page.given(range(5)), [2], [4])) == [2, 3]


def test_slice_2_dimensional(page):
    assert page.value(page.c.Slice(page.given(B), [2, 1], [4, 3])) == [[7, 8], [10, 11]]


def test_dynamic_slice_1_dimensional(page):
    """The start indices are one array."""
    assert page.value(page.c.DynamicSlice(page.given(range(5)), page.given([2], np.int32), [2])) == [2, 3]


def test_dynamic_slice_2_dimensional(page):
    result = page.c.DynamicSlice(page.given(B), page.given([2, 1], np.int32), [2, 2])
    assert page.value(result) == [[7, 8], [10, 11]]


def test_dynamic_update_slice_1_dimensional(page):
    result = page.c.DynamicUpdateSlice(page.given(range(5)), page.given([5, 6]), page.given([2], np.int32))
    assert page.value(result) == [0, 1, 5, 6, 4]


def test_dynamic_update_slice_2_dimensional(page):
    update = [[12, 13], [14, 15], [16, 17]]
    result = page.c.DynamicUpdateSlice(page.given(B), page.given(update), page.given([1, 1], np.int32))
    assert page.value(result) == [[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]]


def test_sort(page):
    assert page.value(page.c.Sort(page.given([3, 1, 2]))) == [1, 2, 3]


def test_transpose_is_a_reshape(page):
    x = page.given(V)
    pair = [page.c.Transpose(x, [2, 0, 1]), page.c.Reshape(x, [2, 0, 1], [3, 4, 2])]
    found = page.results(page.c.Tuple(pair))
    assert (found[0] == found[1]).all() and (found[0] == np.transpose(V, (2, 0, 1))).all()


def test_tuple(page):
    t = page.c.Tuple([page.given(range(10)), page.given(5, np.int32)])
    assert page.c.GetShape(t).to_string(layout=False) == "(f32[10], s32[])"
    assert [f.tolist() for f in page.results(t)] == [list(range(10)), 5]


def test_while(page):
    state = TupleShape((Shape(S32), Shape(F32, (10,))))
    condition = page.function(lambda c, t: c.Lt(c.GetTupleElement(t, 0), c.ConstantR0(np.int32(1000))), state)

    def body(c, t):
        count = c.Add(c.GetTupleElement(t, 0), c.ConstantR0(np.int32(1)))
        vector = c.Add(c.GetTupleElement(t, 1), c.ConstantR1(np.arange(10, dtype=np.float32)))
        c.Tuple([count, vector])

    init = page.c.Tuple([page.c.ConstantR0(np.int32(0)), page.c.ConstantR1(np.zeros(10, np.float32))])
    count, vector = page.results(page.c.While(condition, page.function(body, state), init))
    assert count == 1000 and vector.tolist() == [1000 * n for n in range(10)]
