"""Windows, scans, transforms, factorisations, batch normalisation: against plain definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import axla
import axla.hlo as hlo
from axla.core.dtypes import C64, F32, F64, S32, U32
from axla.core.errors import ShapeError
from axla.core.shape import Shape, TupleShape
from axla.hlo.signature import sample_comparison, sample_reducer
from axla.interpreter import evaluate
from axla.ir.attributes import ConvDims, FftType, SourceTargetPairs, TransposeA, Window
from axla.ir.devices import ReplicaGroups
from axla.text import parse_hlo


def convolved(x, k, window, groups):
    """The definition, one product after the other: x[batch, spatial, feature], k[spatial, input, output]."""
    size, stride, low, base, dilation = (
        window.size[0], window.stride[0], window.low[0], window.base_dilation[0], window.window_dilation[0],
    )  # fmt: skip
    spread = (x.shape[1] - 1) * base + 1
    places = (low + spread + window.high[0] - ((size - 1) * dilation + 1)) // stride + 1
    inputs, outputs = k.shape[1], k.shape[2] // groups
    result = np.zeros((x.shape[0], places, k.shape[2]))
    for b, p, o, tap, i in itertools.product(
        range(x.shape[0]), range(places), range(k.shape[2]), range(size), range(inputs)
    ):
        at = p * stride + tap * dilation - low
        if 0 <= at < spread and at % base == 0:
            group = o // outputs
            weight = k[size - 1 - tap if window.reversal[0] else tap, i, o]
            result[b, p, o] += x[b, at // base, group * inputs + i] * weight
    return result


@pytest.mark.parametrize(
    ("window", "groups"),
    [
        (Window((3,)), 1),
        (Window((2,), (2,), (1,), (2,)), 2),
        (Window((3,), (1,), (-1,), (3,), (2,), (2,), (True,)), 1),
        (Window((2,), (3,), (2,), (-1,), (3,), (1,)), 2),
    ],
)
def test_convolution(window, groups):
    rng = np.random.default_rng(0)
    x, k = rng.random((2, 6, 4)), rng.random((window.size[0], 4 // groups, 4))
    labels = ConvDims("b0f", "0io", "b0f")
    shapes = Shape(F64, x.shape), Shape(F64, k.shape)
    op = hlo.Convolution.of(*shapes, window=window, dim_labels=labels, feature_group_count=groups)
    wanted = convolved(x, k, window, groups)
    assert op.shape.dims == wanted.shape
    assert np.allclose(op.evaluate(x, k), wanted)
    # The same with all dimensions elsewhere.
    moved = ConvDims("fb0", "o0i", "0fb")
    op = hlo.Convolution.of(
        Shape(F64, (4, 2, 6)), Shape(F64, (4, window.size[0], 4 // groups)), window=window, dim_labels=moved,
        feature_group_count=groups,
    )  # fmt: skip
    assert np.allclose(op.evaluate(x.transpose(2, 0, 1), k.transpose(2, 0, 1)), wanted.transpose(1, 2, 0))


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("rows", [2, 3])
def test_factors_of_a_convolution_are_converted_to_its_type(rows, backend):
    """They saturate, and NaN is 0."""
    text = f"""
ENTRY e {{ x = s32[1,{rows},1] parameter(0) k = f64[2,1,3] parameter(1)
  ROOT y = s32[1,{rows - 1},3] convolution(x, k), window={{size=2}}, dim_labels=b0f_0io->b0f }}"""
    x = np.array([1, 1, 2][:rows], np.int32).reshape(1, rows, 1)
    k = np.array([[-np.inf, np.inf, np.nan], [1.5, -0.5, 2.9]]).reshape(2, 1, 3)
    (found,) = axla.compile(axla.parse(text), backend=backend).execute([x, k])
    wanted = [[-(2**31) + 1, 2**31 - 1, 2], [-(2**31) + 2, 2**31 - 1, 4]]
    assert np.asarray(found)[0].tolist() == wanted[: rows - 1]


def test_convolution_by_batch_groups():
    rng = np.random.default_rng(1)
    x, k = rng.random((4, 5, 3)), rng.random((2, 3, 6))
    labels, window = ConvDims("b0f", "0io", "b0f"), Window((2,))
    op = hlo.Convolution.of(
        Shape(F64, x.shape), Shape(F64, k.shape), window=window, dim_labels=labels, batch_group_count=2
    )
    halves = [convolved(x[2 * g : 2 * g + 2], k[:, :, 3 * g : 3 * g + 3], window, 1) for g in range(2)]
    assert np.allclose(op.evaluate(x, k), np.concatenate(halves, -1))


def run(text, *arguments):
    result = evaluate(parse_hlo(text), [np.asarray(a) for a in arguments])
    return result.array if result.shape.is_array else [leaf.array for leaf in result.leaves()]


MAX = "m { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"


@pytest.mark.parametrize(
    ("low", "high", "stride", "base", "dilation"),
    list(itertools.product((0, 2, -1), (0, 1), (1, 2), (1, 2), (1, 2))),
)
def test_reduce_window(low, high, stride, base, dilation):
    spread = 4 * base + 1
    places = (low + spread + high - (dilation + 1)) // stride + 1
    window = f"window={{size=2 stride={stride} pad={low}_{high} lhs_dilate={base} rhs_dilate={dilation}}}"
    text = MAX + (
        f"ENTRY e {{ x = f32[5] parameter(0) z = f32[] constant(-9) "
        f"ROOT r = f32[{places}] reduce-window(x, z), {window}, to_apply=m }}"
    )
    x = np.array([3, 1, 4, 1, 5], np.float32)
    wanted = []
    for p in range(places):
        seen = [p * stride + tap * dilation - low for tap in range(2)]
        wanted.append(max([-9, *[float(x[s // base]) for s in seen if 0 <= s < spread and s % base == 0]]))
    assert run(text, x).tolist() == wanted


def test_select_and_scatter():
    text = (
        MAX
        + """
    ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
    ENTRY e { x = f32[5] parameter(0) s = f32[4] parameter(1) z = f32[] constant(0)
      ROOT r = f32[5] select-and-scatter(x, s, z), window={size=2}, select=ge, scatter=add }"""
    )
    # The largest of each pair; of equals the first.
    x, source = np.array([1, 3, 3, 0, 2], np.float32), np.array([1, 10, 100, 1000], np.float32)
    assert run(text, x, source).tolist() == [0, 11, 100, 0, 1000]


def test_scan_runs_forwards_and_backwards():
    text = """
    step {{ x = f32[] parameter(0) c = f32[] parameter(1) n = f32[] add(x, c) ROOT t = (f32[], f32[]) tuple(c,
    n) }}
    ENTRY e {{ x = f32[4] parameter(0) z = f32[] constant(0)
      ROOT r = (f32[4], f32[]) scan(x, z), dimensions={{0}}, num_carries=1, is_reverse={reverse},
      to_apply=step }}"""
    x = np.array([1, 2, 3, 4], np.float32)
    sums, last = run(text.format(reverse="false"), x)
    assert sums.tolist() == [0, 1, 3, 6] and last == 10
    sums, last = run(text.format(reverse="true"), x)
    assert sums.tolist() == [9, 7, 4, 0] and last == 10


def test_fft():
    rng = np.random.default_rng(2)
    x = (rng.random((3, 5)) + 1j * rng.random((3, 5))).astype(np.complex64)
    n = np.arange(5)
    wanted = x @ np.exp(-2j * np.pi * np.outer(n, n) / 5)
    assert np.allclose(hlo.Fft(FftType.FFT, (5,)).evaluate(x), wanted, atol=1e-5)
    real = rng.random((2, 6)).astype(np.float32)
    half = hlo.Fft(FftType.RFFT, (6,)).evaluate(real)
    assert half.shape == (2, 4) and half.dtype == np.complex64
    assert np.allclose(hlo.Fft(FftType.IRFFT, (6,)).evaluate(half), real, atol=1e-6)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(lower):
    a = np.array([[[4, 2], [2, 3]], [[1, 2], [2, 1]]], np.float64)
    factor = hlo.Cholesky(lower).evaluate(a)
    product = factor[0] @ factor[0].T if lower else factor[0].T @ factor[0]
    assert np.allclose(product, a[0]) and np.isnan(factor[1]).all()
    nothing = np.array([[np.inf, np.nan], [np.nan, 1]])  # NumPy alone gives numbers
    assert np.isnan(hlo.Cholesky(lower).evaluate(nothing)).all()


@pytest.mark.parametrize(
    ("left", "lower", "unit", "transpose"),
    list(itertools.product((True, False), (True, False), (True, False), TransposeA)),
)
def test_triangular_solve(left, lower, unit, transpose):
    rng = np.random.default_rng(3)
    a = rng.random((4, 4)) + 1j * rng.random((4, 4)) + 2 * np.eye(4)
    b = rng.random((4, 4)) + 0j
    x = hlo.TriangularSolve(left, lower, unit, transpose).evaluate(a, b)
    matrix = np.tril(a) if lower else np.triu(a)
    if unit:
        np.fill_diagonal(matrix, 1)
    matrix = {
        TransposeA.NO_TRANSPOSE: matrix,
        TransposeA.TRANSPOSE: matrix.T,
        TransposeA.ADJOINT: matrix.conj().T,
    }[transpose]
    assert np.allclose(matrix @ x if left else x @ matrix, b)


def test_batch_norm_gradient_is_the_derivative():
    rng = np.random.default_rng(4)
    x, scale, grad = rng.random((5, 3)), rng.random(3), rng.random((5, 3))
    training = hlo.BatchNormTraining(0.01, 1)

    def loss(x, scale, offset):
        return float((training.evaluate(x, scale, offset)[0] * grad).sum())

    offset = np.zeros(3)
    _, mean, variance = training.evaluate(x, scale, offset)
    found = hlo.BatchNormGrad(0.01, 1).evaluate(x, scale, mean, variance, grad)
    for number, value in enumerate((x, scale, offset)):
        for at in np.ndindex(*value.shape):
            arguments = [[x.copy(), scale.copy(), offset.copy()] for _ in range(2)]
            for sign, changed in zip((1, -1), arguments, strict=True):
                changed[number][at] += sign * 1e-6
            slope = (loss(*arguments[0]) - loss(*arguments[1])) / 2e-6
            assert abs(slope - found[number][at]) < 1e-6


def test_batch_norm_gradient_of_no_elements():
    """The sum of nothing times the inverse deviation, as in XLA: NaN for a negative variance."""
    nothing, three = np.zeros((2, 3, 0), np.float32), np.ones(3, np.float32)
    variance = np.array([1, -1, np.nan], np.float32)
    with np.errstate(all="ignore"):
        found = hlo.BatchNormGrad(0.01, 1).evaluate(nothing, three, three, variance, nothing)
    np.testing.assert_array_equal(found[1], [0, np.nan, np.nan])
    np.testing.assert_array_equal(found[2], [0, 0, 0])


def test_dynamic_sizes():
    text = """
    add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
    ENTRY e { x = s32[4] parameter(0) n = s32[] parameter(1) z = s32[] constant(0)
      d = s32[<=4] set-dimension-size(x, n), dimensions={0}  y = s32[<=4] add(d, d)
      total = s32[] reduce(y, z), dimensions={0}, to_apply=add  size = s32[] get-dimension-size(y),
      dimensions={0}
      ROOT t = (s32[], s32[], s32[<=4]) tuple(total, size, y) }"""
    total, size, y = run(text, np.array([1, 2, 3, 4], np.int32), np.int32(3))
    assert (total, size, y.tolist()) == (12, 3, [2, 4, 6])


X, PAIR = Shape(F32, (4, 2)), ReplicaGroups(((0, 1), (2, 3)))
ADD, ONE_TARGET = sample_reducer("add", F32), SourceTargetPairs(((0, 1), (2, 1)))


@pytest.mark.parametrize(
    ("op", "shapes", "label"),
    [
        (hlo.AllGather(Shape(F32, (6, 2)), replica_groups=PAIR), (X,), "all_gather_c3"),
        (hlo.AllGather(X, replica_groups=ReplicaGroups(((0, 1), (2,)))), (X,), "all_gather_groups"),
        (hlo.AllGather(X, replica_groups=ReplicaGroups(((0, 1), (1, 2)))), (X,), "all_gather_groups"),
        (hlo.AllGather(X, use_global_device_ids=True), (X,), "all_gather_ids"),
        (hlo.ReduceScatter(X, dimensions=(2,), to_apply=ADD), (X,), "reduce_scatter_c2"),
        (hlo.ReduceScatter(X, to_apply=ADD), (Shape(F32, (0, 2)),), "reduce_scatter_c3"),
        (hlo.AllToAll(replica_groups=ReplicaGroups(((0, 1, 2),)), dimensions=(0,)), (X,), "all_to_all_c2"),
        (hlo.AllReduce(to_apply=sample_reducer("add", S32)), (X,), "all_reduce_called"),
        (hlo.CollectivePermute(source_target_pairs=ONE_TARGET), (X,), "collective_permute_c1"),
        (hlo.AllGatherDone(), (X,), "all_gather_done_c1"),
        (hlo.CopyDone(), (X,), "copy_done_c1"),
        (hlo.Send(TupleShape((X, Shape(S32)))), (X, X), "send_c1"),
        (hlo.ReduceWindow(Window((2,)), sample_reducer("add", F32)), (X, Shape(F32)), "reduce_window_w1"),
        (hlo.ReduceWindow(Window((0, 2)), sample_reducer("add", F32)), (X, Shape(F32)), "reduce_window_w2"),
        (
            hlo.SelectAndScatter(Window((2, 2)), sample_comparison("GE", F32), sample_reducer("add", F32)),
            (X, X, Shape(F32)), "select_and_scatter_c1",
        ),
        (hlo.Fft(FftType.FFT, (3,)), (Shape(C64, (4,)),), "fft_c3"),
        (hlo.Fft(FftType.FFT, (4,)), (Shape(F32, (4,)),), "fft_c2"),
        (hlo.Cholesky(), (X,), "cholesky_square"),
        (hlo.TriangularSolve(True), (Shape(F32, (3, 3)), X), "triangular_solve_c2"),
        (hlo.BatchNormInference(0.1, 1), (X, *[Shape(F32, (4,))] * 4), "batch_norm_inference_c2"),
        (hlo.GetDimensionSize((2,)), (X,), "get_dimension_size_c1"),
        (hlo.SetDimensionSize(X, (0,)), (X, Shape(U32)), "set_dimension_size_c2"),
        (hlo.Rng(X), (Shape(S32), Shape(F32)), "rng_c1"),
        (hlo.TopK(5), (X,), "topk_c1"),
    ],
)  # fmt: skip
def test_rejects(op, shapes, label):
    with pytest.raises(ShapeError, match=rf"\[{label}\]$"):
        op.infer(*shapes)
