"""Windows, linear algebra, random bits and collectives from the builder: the values, and the mistakes."""

import numpy as np
import pytest

import axla
from axla.builder import XlaBuilder, ops
from axla.builder.records import ConvolutionDimensionNumbers, PaddingType
from axla.core.dtypes import F32, U32
from axla.core.errors import InvalidArgument, ShapeError, UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.interpreter import evaluate
from axla.ir.structure import Constant


def scalars(b, function, dtype=F32):
    sub = b.sub_builder("scalars")
    return sub.build(function(*[ops.Parameter(sub, n, Shape(dtype)) for n in range(2)]))


def parameter(b, value, number=0):
    from axla.core.dtypes import from_numpy

    return ops.Parameter(b, number, Shape(from_numpy(value.dtype), value.shape))


def leaves(literal):
    return literal.elements if isinstance(literal.shape, TupleShape) else [literal]


def both(op, *arguments) -> list[np.ndarray]:
    """The leaves by the interpreter, which the CPU must agree with."""
    module = op.builder.build(op).module
    expected = [leaf.array for leaf in leaves(evaluate(module, list(arguments)))]
    found = axla.compile(module).execute(list(arguments))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(np.asarray(other), one, rtol=2e-5, atol=2e-5)
    return expected


def random(*dims: int) -> np.ndarray:
    return np.random.default_rng(len(dims)).standard_normal(dims, np.float32)


def test_convolution(b):
    x, kernel = random(1, 2, 5, 6), random(3, 2, 3, 3)
    (found,) = both(ops.Conv(parameter(b, x), kernel, [1, 2], PaddingType.SAME), x)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 1)])
    expected = np.zeros((1, 3, 5, 3), np.float32)
    for y in range(5):
        for z in range(3):
            window = padded[:, :, y : y + 3, 2 * z : 2 * z + 3]
            expected[:, :, y, z] = np.einsum("biyx,oiyx->bo", window, kernel)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_reduce_window(b):
    x = random(4, 6)
    op = ops.ReduceWindow(parameter(b, x), -np.inf, scalars(b, ops.Max), [2, 3], [2, 3], PaddingType.VALID)
    assert np.array_equal(both(op, x)[0], x.reshape(2, 2, 2, 3).max((1, 3)))


def test_select_and_scatter(b):
    x, source = random(4, 6), np.ones((2, 3), np.float32)
    ge, add = scalars(b, ops.Ge), scalars(b, ops.Add)
    (found,) = both(
        ops.SelectAndScatter(parameter(b, x), ge, [2, 2], [2, 2], PaddingType.VALID, source, 0, add), x
    )
    tiles = x.reshape(2, 2, 3, 2)
    assert np.array_equal(found.reshape(2, 2, 3, 2) != 0, tiles == tiles.max((1, 3), keepdims=True))


def test_fft(b):
    x = random(2, 8)
    (found,) = both(ops.Fft(parameter(b, x), ops.FftType.RFFT, [8]), x)
    np.testing.assert_allclose(found, np.fft.rfft(x), rtol=1e-5, atol=1e-5)


def test_cholesky_and_triangular_solve(b):
    root = np.tril(random(4, 4)) + 4 * np.eye(4, dtype=np.float32)
    a, right = root @ root.T, random(4, 2)
    factor = ops.Cholesky(parameter(b, a))
    plain, transposed = (ops.TriangularSolveOptions_Transpose[n] for n in ("NO_TRANSPOSE", "TRANSPOSE"))
    half = ops.TriangularSolve(factor, right, True, True, False, plain)
    (found,) = both(ops.TriangularSolve(factor, half, True, True, False, transposed), a)
    np.testing.assert_allclose(a @ found, right, rtol=1e-3, atol=1e-3)


def test_batch_norm(b):
    x, scale, offset = random(5, 3), np.float32([1, 2, 3]), np.float32([0, 1, 0])
    result, mean, variance = both(ops.BatchNormTraining(parameter(b, x), scale, offset, 0.01, 1), x)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result, (x - mean) / np.sqrt(variance + 0.01) * scale + offset, atol=1e-5)
    (again,) = both(ops.BatchNormInference(parameter(b, x), scale, offset, mean, variance, 0.01, 1), x)
    np.testing.assert_allclose(again, result, atol=1e-5)
    of_x, _, of_offset = both(ops.BatchNormGrad(parameter(b, x), scale, mean, variance, x, 0.01, 1), x)
    np.testing.assert_allclose(of_offset, x.sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_x.sum(0), np.zeros(3), atol=1e-4)


@pytest.mark.parametrize("algorithm", ops.RandomAlgorithm)
def test_random_bits(b, algorithm):
    state = np.uint64([1, 2])
    after, bits = both(ops.RngBitGenerator(algorithm, parameter(b, state), Shape(U32, (64,))), state)
    assert after[0] == 1 and after[1] > 2 and len(set(bits.tolist())) > 60


def test_random_numbers(b, value):
    drawn = value(ops.RngBernoulli(ops.Constant(b, np.float32(0.25)), Shape(U32, (4000,))))
    assert drawn.dtype == np.uint32 and set(drawn.tolist()) == {0, 1} and 0.2 < drawn.mean() < 0.3
    drawn = value(ops.RngUniform(ops.Constant(b, np.float32(2)), 3, Shape(F32, (4000,))))
    assert drawn.min() >= 2 and drawn.max() < 3 and 2.45 < drawn.mean() < 2.55
    drawn = value(ops.RngNormal(ops.Constant(b, np.float32(2)), 3, Shape(F32, (4000,))))
    assert 1.7 < drawn.mean() < 2.3 and 2.8 < drawn.std() < 3.2
    with pytest.raises(ShapeError, match="rng_bernoulli_mean"):
        ops.RngBernoulli(ops.Constant(b, np.int32(1)), Shape(U32, (4,)))


def test_collectives_of_one_replica(b, value):
    x = random(4, 2)
    for make in (
        lambda c: ops.CrossReplicaSum(c, [[0]]),
        lambda c: ops.AllGather(c, 0, 1, [[0]]),
        lambda c: ops.AllToAll(c, 0, 1, 1, [[0]]),
        lambda c: ops.CollectivePermute(c, [(0, 0)]),
    ):
        assert np.array_equal(value(make(ops.Constant(b, x))), x)
    c = ops.Constant(b, x)
    with pytest.raises(ShapeError, match="all_to_all_count"):
        ops.AllToAll(c, 0, 1, 2, [[0, 1, 2]])
    assert value(ops.ReplicaId(b)) == 0 and value(ops.PartitionId(b)) == 0


def test_all_to_all_joins_the_parts_in_the_order_of_their_senders(b):
    """Checks the result of participant 0 of two, which receives rows 0 and 1 of both."""
    senders = [np.arange(8).reshape(4, 2), 100 + np.arange(8).reshape(4, 2)]
    op = ops.AllToAll(parameter(b, senders[0]), 0, 1, 2, [[0, 1]])
    exchanged = next(i for i in b._entry.instructions if i.op.opcode == "all-to-all")
    received = b.constant(np.concatenate([s[:2] for s in senders]))
    b._entry.replace(exchanged, received.instruction)
    if exchanged.computation is not None:
        b._entry.remove(exchanged)
    found = evaluate(b.build(op).module, [senders[0]]).array
    assert np.array_equal(found, np.concatenate([s[:2] for s in senders], 1))


def test_dimension_sizes(b, value):
    x = np.arange(6, dtype=np.float32)
    static = ops.GetDimensionSize(ops.Constant(b, x), 0)
    assert isinstance(static.instruction.op, Constant)
    short = ops.SetDimensionSize(ops.Constant(b, x), 4, 0)
    assert value(ops.Reduce(short, 0, scalars(b, ops.Add), [0])) == 6
    assert value(ops.GetDimensionSize(ops.SetDimensionSize(ops.Constant(b, x), 4, 0), 0)) == 4
    assert not ops.SetDimensionSize(ops.Constant(b, x), 6, 0).shape.is_dynamic
    with pytest.raises(ShapeError):
        ops.GetDimensionSize(ops.Constant(b, x), 1)


MISTAKES = {
    "same_padding": lambda x: ops.ReduceWindow(
        x, 0, scalars(x.builder, ops.Add), [2, 2], [0, 1], PaddingType.SAME
    ),
    "reduce_window_w2": lambda x: ops.ReduceWindow(
        x, 0, scalars(x.builder, ops.Add), [2, 0], [1, 1], PaddingType.VALID
    ),
    "window_padding": lambda x: ops.ReduceWindowWithGeneralPadding(
        x, 0, scalars(x.builder, ops.Add), [2, 2], [1, 1], [], [], [(0, 0)]
    ),
    "stride has . entries": lambda x: ops.ConvWithGeneralPadding(
        x, random(3, 2), [1], [], preferred_element_type=F32
    ),
    "convolution_types": lambda x: ops.Conv(x, np.ones((3, 2)), [], PaddingType.VALID),
    "convolution_c1": lambda x: ops.ConvGeneral(
        x, random(3, 2), [1], [], ConvolutionDimensionNumbers(0, 2, [], 0, 1, [], 0, 1, [])
    ),
    "each dimension must have a different number": lambda x: ops.ConvGeneral(
        x, x, [], [], ConvolutionDimensionNumbers(0, 0, [], 0, 1, [], 0, 1, [])
    ),
    "fft_c2": lambda x: ops.Fft(x, ops.FftType.FFT, [3]),
    "all_gather_dimension": lambda x: ops.AllGather(x, 2, 2),
    "reduce_scatter_count": lambda x: ops.ReduceScatter(x, scalars(x.builder, ops.Add), 0, 0),
    "outfeed_c2": lambda x: ops.Outfeed(x, Shape(F32, (9,))),
}  # fmt: skip


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_of_shape(b, message):
    with pytest.raises(ShapeError, match=message):
        MISTAKES[message](ops.Constant(b, random(2, 3)))


def test_a_mistake_names_the_line_of_the_program(b):
    with pytest.raises(ShapeError, match="at .*test_numeric_ops.py"):
        ops.Conv(ops.Constant(b, random(2, 3)), np.ones((3, 2)), [], PaddingType.VALID)


def test_mistakes_of_arguments(b):
    x = ops.Constant(b, random(3, 3))
    for call in (
        lambda: ops.Fft(x, "FFFT", [3]),
        lambda: ops.RngBitGenerator(7, x, Shape(U32)),
        lambda: ops.RngUniform(x, x, F32),
        lambda: ops.TriangularSolve(x, x, True, True, False, "NONE"),
        lambda: ops.ReduceWindow([x], x, scalars(b, ops.Add), [1], [1], PaddingType.SAME),
        lambda: ops.Conv(x, x, [], "FULL"),
        lambda: ops.AllGather(x, 0, 2, replica_groups=[0, 1]),
        lambda: ops.AllGather(x, 0, 2, channel_id="one"),
        lambda: ops.CollectivePermute(x, [0, 1]),
        lambda: ops.Infeed(b, F32),
    ):
        with pytest.raises(InvalidArgument):
            call()
    for call in (
        lambda: ops.CollectivePermute(x, [(0, 1)], None, True),
        lambda: ops.AllToAll(x, 0, 1, 3, layout=x.shape.layout),
    ):
        with pytest.raises(UnsupportedError):
            call()


def test_computation_builder_methods():
    from axla.builder import ComputationBuilder

    c = ComputationBuilder(None, "pooling")
    add = scalars(XlaBuilder("add"), ops.Add)
    x = c.ConstantR2([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    zero = c.ConstantR0(0.0)
    pooled = c.ReduceWindow(x, zero, add, [2, 2], [1, 1], PaddingType.VALID)
    assert c.ComputeConstant(pooled).array.tolist() == [[12, 16]]
    pooled = c.reduce_window_with_general_padding(x, zero, add, [2, 3], [1, 1], [(1, 0), (0, 0)])
    assert c.ComputeConstant(pooled).array.tolist() == [[6], [21]]
    image, kernel = (
        c.ConstantR4FromArray4D(np.ones((1, 1, 3, 3))),
        c.ConstantR4FromArray4D(np.ones((1, 1, 2, 2))),
    )
    numbers = c.CreateDefaultConvDimensionNumbers()
    for y in (
        c.Conv(image, kernel, [1, 1], PaddingType.VALID),
        c.ConvWithGeneralPadding(image, kernel, [1, 1], [(0, 0), (0, 0)]),
        c.ConvWithGeneralDimensions(image, kernel, [1, 1], PaddingType.VALID, numbers),
        c.ConvGeneral(image, kernel, [1, 1], [(0, 0), (0, 0)], numbers),
    ):
        assert c.ComputeConstant(y).array.tolist() == [[[[4, 4], [4, 4]]]]
    c.ReduceWindow(x, zero, add, [2], [1], PaddingType.SAME)  # the mistake waits
    with pytest.raises(ShapeError, match="same_padding"):
        c.Build()
