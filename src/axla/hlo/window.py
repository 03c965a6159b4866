"""Ops that move a window over an array: reduce-window, select-and-scatter, convolution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from axla.core.dtypes import BF16, F32, PRED, S32, DType
from axla.core.errors import UnsupportedError
from axla.core.regex import regex
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo.casting import keeps_values
from axla.hlo.contraction import factor
from axla.hlo.family import arrays, same_dtype, show
from axla.hlo.reduction import data_and_inits
from axla.hlo.signature import accepts, accepts_scalars, returns, sample_comparison, sample_reducer
from axla.hlo.slicing import Pad
from axla.ir.attributes import ConvDims, PaddingConfig, Precision, RawText, Window, Word
from axla.ir.families import Applying
from axla.ir.graph import Computation
from axla.ir.op import Op, attr, op


def _places(size: int, window: Window, d: int) -> int:
    """The number of window positions along a dimension of `size` elements."""
    spread = (size - 1) * window.base_dilation[d] + 1 if size else 0
    padded = spread + window.low[d] + window.high[d]
    reach = window.dilated_size[d]
    return (padded - reach) // window.stride[d] + 1 if padded >= reach and padded > 0 else 0


def places(self: Op, dims: Sequence[int], window: Window) -> tuple[int, ...]:
    """The number of window positions in each dimension of an array of sizes `dims`; rejects an invalid
    window.
    """
    if window.rank != len(dims):
        self.reject("w1", f"a window of {window.rank} dimensions does not fit an array of {len(dims)}")
    for name in ("size", "stride", "base_dilation", "window_dilation"):
        if any(n < 1 for n in getattr(window, name)):
            found = getattr(window, name)
            self.reject("w2", f"{name} of a window must be at least 1, found {found}")
    sizes = [_places(n, window, d) for d, n in enumerate(dims)]
    for d, n in enumerate(dims):
        if n and (n - 1) * window.base_dilation[d] + 1 + window.low[d] + window.high[d] < 0:
            self.reject("w3", f"the negative padding of dimension {d} removes more elements than there are")
    return tuple(sizes)


_MOST_TAPS = 4096


def overlap_count(window: Window, k: int, size: int, made: int) -> int:
    """The number of pairs of a window position and an offset within the window that read an element of the
    operand, not padding, in window dimension `k`. The operand has `size` elements and the result `made`. Very
    large windows are sampled: every n-th offset counts n times.
    """
    stride, low, base = window.stride[k], window.low[k], window.base_dilation[k]
    common = gcd(stride, base)
    period = base // common  # positions with this distance both read an element, or both read a gap
    inverse = pow(stride // common, -1, period)
    every = -(-window.size[k] // _MOST_TAPS)
    taps = range(0, window.size[k], every)
    count = 0
    for tap in taps:
        start = tap * window.window_dilation[k] - low
        if start % common:
            continue
        first = max(0, -(start // stride))
        first += (-start // common * inverse - first) % period
        stop = min(made - 1, ((size - 1) * base - start) // stride)
        count += max(0, (stop - first) // period + 1)
    return count * window.size[k] // max(1, len(taps))


def padded(x: np.ndarray, window: Window, fill: Any) -> np.ndarray:
    """The array with edge padding, and with interior padding for the window's base dilation, all of the value
    `fill`.
    """
    config = PaddingConfig(window.low, window.high, tuple(d - 1 for d in window.base_dilation))
    return Pad(config).evaluate(x, np.asarray(fill, x.dtype))


def offsets(window: Window, dims: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yields each offset within the window, and the slice of the padded array that the window positions read
    at it. `dims` are the numbers of window positions.
    """
    for at in np.ndindex(*window.size):
        where = []
        for d, k in enumerate(at):
            start = k * window.window_dilation[d]
            where.append(
                slice(
                    start,
                    start + (dims[d] - 1) * window.stride[d] + 1 if dims[d] else start,
                    window.stride[d],
                )
            )
        yield at, tuple(where)


@op("reduce-window", operands="*operands", expensive=True, mixes_floats=True, reads_alike=True, in_line=True)
class ReduceWindow(Applying):
    """Combines the elements in the window by `to_apply`, for each position of the window. The operands are n
    arrays, then n initial values.

    The window moves by `stride`. `pad` adds initial values at the edges, or removes elements where it is
    negative; `lhs_dilate` puts initial values between the elements; `rhs_dilate` puts gaps between the
    elements that the window reads. `to_apply` must be associative, as in reduce.
    """

    window: Window
    to_apply: Computation

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns, for each array, the shape whose sizes are the numbers of positions of the window."""
        data, inits = data_and_inits(self, operands)
        dims = places(self, data[0].dims, self.window)
        kinds = accepts_scalars(
            self, self.to_apply, [s.dtype for s in (*inits, *data)], [s.dtype for s in inits]
        )
        results = [Shape(dtype, dims, data[0].dynamic) for dtype in kinds]
        return TupleShape(results) if self.to_apply.root.shape.is_tuple else results[0]

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts how many times `to_apply` is applied: once for each element of a window but the first."""
        return (prod(self.window.size) - 1) * next(result.arrays()).size

    @classmethod
    def samples(cls):
        """A window with strides and padding, and one with dilation and negative padding."""
        add = sample_reducer("add", F32)
        return [
            (cls(Window((2, 2), (1, 2), (0, 1), (1, 0)), add), (Shape(F32, (4, 6)), Shape(F32))),
            (cls(Window((3,), (1,), (-1,), (2,), (2,), (2,)), add), (Shape(F32, (5,)), Shape(F32))),
        ]


@op("select-and-scatter", operands="operand source init", expensive=True)
class SelectAndScatter(Op):
    """Chooses one element of the operand for each position of the window. At the index of the chosen element,
    `scatter` combines the result with the element of `source` for that position. All other elements of the
    result are `init`.

    `select` compares the element chosen so far with a later element of the window: if it is false, the later
    one is chosen instead.
    """

    window: Window
    select: Computation
    scatter: Computation

    def infer(self, operand: AnyShape, source: AnyShape, init: AnyShape) -> Shape:
        """Returns the operand's shape. The source must have one element for each position of the window."""
        data, values, start = arrays(self, operand, source, init)
        dims = places(self, data.dims, self.window)
        if values.dims != dims:
            wanted = show(values.with_dims(dims))
            self.reject("c1", f"the source must be {wanted}, found {show(values)}")
        same_dtype(self, (values, start))
        scalar = Shape(data.dtype)
        returns(self, accepts(self, self.select, [scalar, scalar], "select"), Shape(PRED), "select")
        accepts_scalars(self, self.scatter, [values.dtype] * 2, [values.dtype])
        return data.logical

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts how many times `select` is applied: once for each element of each window."""
        return prod(self.window.size) * operands[1].size

    @classmethod
    def samples(cls):
        """The gradient of max-pooling with windows of 2 x 2 elements."""
        greater, add = sample_comparison("GE", F32), sample_reducer("add", F32)
        op_value = cls(Window((2, 2), (2, 2)), greater, add)
        return [(op_value, (Shape(F32, (4, 6)), Shape(F32, (2, 3)), Shape(F32)))]


def _reached(window: Window, d: int, size: int, places: int) -> list[tuple[slice, slice]]:
    """For each offset within the window along dimension `d`: the slice of the window positions at which it
    reads an element of the operand, not padding, and the slice of those elements. The operand has `size`
    elements, and there are `places` positions.
    """
    found = []
    for tap in range(window.size[d]):
        place = np.arange(places)
        at = place * window.stride[d] + tap * window.window_dilation[d] - window.low[d]
        seen = (at >= 0) & (at % window.base_dilation[d] == 0) & (at // window.base_dilation[d] < size)
        found.append((_run(place[seen]), _run(at[seen] // window.base_dilation[d])))
    return found


def _run(numbers: np.ndarray) -> slice:
    """The slice that selects the evenly spaced positions `numbers`."""
    if not len(numbers):
        return slice(0, 0)
    step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    return slice(int(numbers[0]), int(numbers[-1]) + 1, step)


_STORED = r"={sparsity=\d+x\d+ dimension=\d+ stride=\d+}"
SPARSE = regex(rf"\{{(lhs{_STORED}( rhs{_STORED})?|rhs{_STORED})?\}}")


@op("convolution", operands="lhs rhs", expensive=True, mixes_floats=True)
class Convolution(Op):
    """Sums products of the kernel `rhs` with the elements of `lhs` in a window, over the window and over
    input features, for each position of the window.

    `dim_labels` names the dimensions: b batch, f feature, 0, 1... spatial; in the kernel, i input and o
    output features. There may be any number of spatial dimensions, also none. The window has strides, padding
    (negative removes elements), dilation of the input (`lhs_dilate`) and of the kernel (`rhs_dilate`), and
    may be reversed (`rhs_reversal`). The features, or the batch, may be divided into groups that are
    convolved independently. Floats of less than 32 bits are summed in f32 and rounded once. `sparsity_config`
    describes sparse operands, which no backend supports.
    """

    shape: Shape
    window: Window = Window(())
    dim_labels: ConvDims = attr(
        required=True, default=ConvDims("", "", ""), proto="convolution_dimension_numbers"
    )
    feature_group_count: int = 1
    batch_group_count: int = 1
    operand_precision: tuple[Precision, ...] = attr(default=(), proto="precision_config.operand_precision")
    convolution_kind: Word | None = attr(default=None, proto="conv_kind")
    sparsity_config: RawText | None = None

    def infer(self, lhs: AnyShape, rhs: AnyShape) -> Shape:
        """Returns the dimensions of batch, output features and window positions, in the order of
        `dim_labels`.
        """
        left, right = arrays(self, lhs, rhs)
        if self.sparsity_config is not None and not SPARSE.fullmatch(self.sparsity_config):
            wanted = "{lhs={sparsity=2x4 dimension=1 stride=1} rhs={...}}"
            self.reject("c9", f"sparsity_config must be like {wanted}, found {self.sparsity_config}")
        return self._result(left, right, self.shape.dtype)

    @classmethod
    def of(cls, lhs: Shape, rhs: Shape, dtype: DType | None = None, **attributes: Any) -> Convolution:
        """A convolution of operands with these shapes, with the result shape inferred."""
        draft = cls(lhs, **attributes)
        return cls(draft._result(lhs, rhs, dtype or lhs.dtype), **attributes)

    def _result(self, lhs: Shape, rhs: Shape, dtype: DType) -> Shape:
        dims, labels = self._dims(lhs, rhs), self.dim_labels
        if not (keeps_values(lhs.dtype, rhs.dtype) or keeps_values(rhs.dtype, lhs.dtype)):
            message = f"one operand's element type must hold the other's values, found {show((lhs, rhs))}"
            self.reject("c6", message)
        if len({lhs.dtype.is_complex, rhs.dtype.is_complex, dtype.is_complex}) > 1:
            self.reject("c8", f"complex and other element types cannot be mixed: {show((lhs, rhs))}, {dtype}")
        if rhs.dynamic[labels.kernel_output]:
            self.reject("c7", f"the kernel's output features must not be dynamic, found {show(rhs)}")
        dynamic = [False] * len(dims)
        dynamic[labels.output_batch] = lhs.dynamic[labels.input_batch]
        for source, target in zip(labels.input_spatial, labels.output_spatial, strict=True):
            dynamic[target] = lhs.dynamic[source]
        return Shape(dtype, dims, dynamic)

    def _dims(self, lhs: Shape, rhs: Shape) -> list[int]:
        labels, window = self.dim_labels, self.window
        if (
            not len(labels.input)
            == len(labels.kernel)
            == len(labels.output)
            == lhs.rank
            == rhs.rank
            == window.rank + 2
        ):
            found = f"{labels.input}_{labels.kernel}->{labels.output} and {window.rank} window dimensions"
            self.reject("c1", f"dim_labels={found} do not fit {show((lhs, rhs))}")
        try:
            spatial = [lhs.dims[d] for d in labels.input_spatial]
            kernel = tuple(rhs.dims[d] for d in labels.kernel_spatial)
            batch, features = lhs.dims[labels.input_batch], lhs.dims[labels.input_feature]
            inputs, outputs = rhs.dims[labels.kernel_input], rhs.dims[labels.kernel_output]
        except ValueError:
            self.reject("c1", f"dim_labels={labels} do not name every dimension")
        if kernel != window.size:
            self.reject("c2", f"the kernel {show(rhs)} must have the window's size {window.size}")
        groups, batches = self.feature_group_count, self.batch_group_count
        if groups < 1 or batches < 1 or groups > 1 and batches > 1:
            found = f"feature_group_count={groups}, batch_group_count={batches}"
            self.reject("c3", f"{found}; both must be at least 1, and one of them 1")
        if features != inputs * groups:
            self.reject("c4", f"{groups} times {inputs} input features are wanted, found {features}")
        if outputs % groups or outputs % batches or batch % batches:
            found = f"{outputs} output features and batch {batch}"
            self.reject("c5", f"{found} do not divide into {groups} feature and {batches} batch groups")
        dims = [0] * lhs.rank
        dims[labels.output_batch], dims[labels.output_feature] = batch // batches, outputs
        for d, n in zip(labels.output_spatial, places(self, spatial, window), strict=True):
            dims[d] = n
        return dims

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts two operations for each product with an element of the operand, not with padding or a gap of
        dilation.
        """
        (lhs, rhs), labels = operands, self.dim_labels
        met = prod(
            overlap_count(self.window, k, lhs.dims[d], result.dims[labels.output_spatial[k]])
            for k, d in enumerate(labels.input_spatial)
        )
        batch = lhs.dims[labels.input_batch] // self.batch_group_count
        return 2 * met * batch * rhs.dims[labels.kernel_input] * rhs.dims[labels.kernel_output]

    def check_dense(self) -> None:
        """Raises UnsupportedError if the convolution has sparse operands."""
        if self.sparsity_config:
            message = f"convolution with sparsity_config={self.sparsity_config} is not supported"
            raise UnsupportedError(message)

    def evaluate(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Sums the products in the type of `accumulator`, for one offset within the kernel after the
        other.
        """
        self.check_dense()
        labels, window = self.dim_labels, self.window
        x, k = factor(lhs, self.shape.dtype), factor(rhs, self.shape.dtype)
        x = x.transpose(labels.input_batch, *labels.input_spatial, labels.input_feature)
        k = k.transpose(*labels.kernel_spatial, labels.kernel_input, labels.kernel_output)
        k = np.flip(k, tuple(d for d in range(window.rank) if window.reversal[d]))
        groups = self.feature_group_count
        if self.batch_group_count > 1:
            # A batch of g groups becomes a batch of one g-th of the size, with g groups of features.
            groups = self.batch_group_count
            x = np.concatenate(np.split(x, groups), axis=-1)
        dims = tuple(_places(lhs.shape[d], window, n) for n, d in enumerate(labels.input_spatial))
        batch, inputs, outputs = x.shape[0], k.shape[-2], k.shape[-1]
        x = np.stack(np.split(x, groups, axis=-1))
        k = np.moveaxis(k.reshape(*k.shape[:-1], groups, outputs // groups), -2, 0)
        total = np.zeros((groups, batch, *dims, outputs // groups), x.dtype)
        reached = [_reached(window, d, x.shape[d + 2], n) for d, n in enumerate(dims)]
        for at in np.ndindex(*window.size):
            seen = x[(slice(None), slice(None), *[reached[d][tap][1] for d, tap in enumerate(at)])]
            if seen.size:
                product = np.matmul(seen.reshape(groups, -1, inputs), k[(slice(None), *at)])
                where = (slice(None), slice(None), *[reached[d][tap][0] for d, tap in enumerate(at)])
                total[where] += product.reshape(*seen.shape[:-1], outputs // groups)
        result = np.moveaxis(total, 0, -2).reshape(batch, *dims, outputs)
        order = [labels.output_batch, *labels.output_spatial, labels.output_feature]
        return result.transpose(np.argsort(order)).astype(self.shape.dtype.numpy)

    @classmethod
    def samples(cls):
        """Convolutions with strides, groups, dilation and reversal, and one without spatial dimensions."""

        def made(lhs: Shape, rhs: Shape, labels: tuple[str, str, str], window: Window, **more: Any):
            return (cls.of(lhs, rhs, window=window, dim_labels=ConvDims(*labels), **more), (lhs, rhs))

        plain, one = ("b01f", "01io", "b01f"), ("b0f", "0io", "b0f")
        return [
            made(
                Shape(F32, (2, 5, 6, 3)),
                Shape(F32, (3, 3, 3, 4)),
                plain,
                Window((3, 3), (2, 1), (1, 1), (1, 1)),
            ),
            made(Shape(F32, (2, 7, 4)), Shape(F32, (3, 2, 6)), one, Window((3,)), feature_group_count=2),
            made(Shape(F32, (4, 7, 2)), Shape(F32, (3, 2, 6)), one, Window((3,)), batch_group_count=2),
            made(
                Shape(BF16, (1, 5, 2)),
                Shape(BF16, (2, 2, 3)),
                one,
                Window((2,), (1,), (-1,), (2,), (2,), (3,), (True,)),
            ),
            made(Shape(S32, (2, 3)), Shape(S32, (3, 4)), ("bf", "io", "bf"), Window(())),
        ]
