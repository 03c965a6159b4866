"""gather and scatter, which read and write windows of an array at indices that are data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeVar

import numpy as np

from axla.core.dtypes import F32, S32
from axla.core.shape import AnyShape, Shape
from axla.hlo.family import PartOfOperand, are_different, are_increasing, arrays, fits_in, joined, show
from axla.hlo.signature import accepts_scalars, sample_reducer
from axla.ir.graph import Computation
from axla.ir.op import Op, attr, example, op

T = TypeVar("T")

_SOMEWHERE_OUTSIDE = 1 << 62

Places = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The dimensions of the operand that the components of index vectors index, its batching dimensions, and the
batching dimensions of the indices.
"""


@op("gather", operands="operand start_indices", moves=True, message="gather_dimension_numbers", in_line=True)
class Gather(PartOfOperand):
    """Reads one window of `slice_sizes` of the operand for each index vector of `start_indices`.

    Dimension `index_vector_dim` of the indices holds the components of the index vectors. If it equals the
    rank of the indices, each index is a vector of one component. Component k is the start of the window in
    dimension `start_index_map[k]` of the operand. In the batching dimension `operand_batching_dims[k]` the
    start is the position of the index vector along dimension `start_indices_batching_dims[k]` of the indices.
    In other dimensions the start is 0. Starts are clamped so that the window lies within the operand.

    The result dimensions `offset_dims` are those of the window, without `collapsed_slice_dims` and
    `operand_batching_dims`, in which the window has size 1. The other result dimensions are those of the
    indices without `index_vector_dim`. `indices_are_sorted` is a promise of the program that does not change
    the result.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    index_vector_dim: int = attr(required=True, default=0)
    slice_sizes: tuple[int, ...] = attr(required=True, default=(), proto="gather_slice_sizes")
    indices_are_sorted: bool = False

    @property
    def places(self) -> Places:
        """The dimensions that connect operand and indices: `start_index_map` and the batching dimensions of
        both.
        """
        return self.start_index_map, self.operand_batching_dims, self.start_indices_batching_dims

    @property
    def dropped(self) -> tuple[int, ...]:
        """The dimensions of the operand that the windows in the result do not have."""
        return (*self.collapsed_slice_dims, *self.operand_batching_dims)

    def arranged(self, inner: Sequence[T], outer: Sequence[T]) -> list[T]:
        """Merges a list with one entry per dimension of the window in the result (`inner`) and one with an
        entry per dimension of the index vectors (`outer`) into the order of the result's dimensions.
        """
        found = list(outer)
        for at, value in zip(self.offset_dims, inner, strict=True):
            found.insert(at, value)
        return found

    def infer(self, operand: AnyShape, start_indices: AnyShape) -> Shape:
        """Returns the shape of the index vectors, with the dimensions of the window inserted at
        `offset_dims`.
        """
        source, indices = arrays(self, operand, start_indices)
        dropped = self.dropped
        batch = _check_indices(self, source, indices, self.places)
        sizes = self.slice_sizes
        if not fits_in(sizes, source.dims):
            self.reject("c1", f"slice_sizes={sizes} do not lie within {show(source)}")
        if not are_different(dropped, source.rank):
            message = f"collapsed_slice_dims and operand_batching_dims {dropped} are not different dimensions"
            self.reject("c2", message)
        if any(sizes[d] > 1 for d in dropped):
            message = f"slice_sizes={sizes} must be 1 in the collapsed and batching dimensions {dropped}"
            self.reject("c3", message)
        if list(self.collapsed_slice_dims) != sorted(self.collapsed_slice_dims):
            self.reject("c4", f"collapsed_slice_dims={self.collapsed_slice_dims} must be sorted")
        window = [d for d in range(source.rank) if d not in dropped]
        rank = len(batch) + len(window)
        offsets = self.offset_dims
        if len(offsets) != len(window) or not are_increasing(offsets, rank):
            wanted = f"{len(window)} increasing dimensions of the {rank} of the result"
            self.reject("c5", f"offset_dims={offsets} must be {wanted}")
        inner = [(sizes[d], source.dynamic[d] and sizes[d] == source.dims[d]) for d in window]
        result = self.arranged(inner, [(indices.dims[d], indices.dynamic[d]) for d in batch])
        return source.with_dims([size for size, _ in result], [dynamic for _, dynamic in result])

    def evaluate(self, operand: np.ndarray, start_indices: np.ndarray) -> np.ndarray:
        """Reads the windows. Starts are clamped so that each window lies within the operand."""
        sizes = [min(n, d) for n, d in zip(self.slice_sizes, operand.shape, strict=True)]
        starts = window_starts(start_indices, self.index_vector_dim, operand.ndim, self.places)
        batch, last = starts.shape[:-1], np.array(operand.shape, np.int64) - np.array(sizes, np.int64)
        places = window_places(np.clip(starts, 0, last), sizes)
        taken = operand[places] if places else np.broadcast_to(operand, batch)
        taken = taken.reshape([*batch, *[n for d, n in enumerate(sizes) if d not in self.dropped]])
        return np.moveaxis(taken, range(len(batch), taken.ndim), self.offset_dims)

    examples = [
        example(Shape(F32, (5, 4)), Shape(S32, (3, 1)), offset_dims=(1,), collapsed_slice_dims=(0,),
                start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, 4)),
        example(Shape(F32, (5, 4)), Shape(S32, (3,)), offset_dims=(0,), collapsed_slice_dims=(0,),
                start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, 4)),
        example(Shape(F32, (5, 4)), Shape(S32, (2, 7)), offset_dims=(1, 2), collapsed_slice_dims=(),
                start_index_map=(0, 1), index_vector_dim=0, slice_sizes=(2, 3)),
        example(Shape(F32, (2, 5, 3)), Shape(S32, (2, 4, 1)), offset_dims=(2,), collapsed_slice_dims=(1,),
                start_index_map=(1,), operand_batching_dims=(0,), start_indices_batching_dims=(0,),
                index_vector_dim=2, slice_sizes=(1, 1, 3)),
    ]  # fmt: skip


@op("scatter", operands="*operands", expensive=True, message="scatter_dimension_numbers", updates=True)
class Scatter(Op):
    """Combines `updates` with windows of the operands by `to_apply`, at positions that the indices determine.

    The operands are n arrays, the indices, and n updates; the result is the n arrays, changed. The dimensions
    `update_window_dims` of an update are those of the window; its other dimensions are those of the indices
    without `index_vector_dim`. The remaining attributes correspond to those of gather. Windows are applied in
    row-major order of index vectors. `to_apply` takes n elements of the arrays and n elements of the updates.
    `unique_indices` and `indices_are_sorted` are promises of the program.

    A window that does not lie within the operand is skipped as a whole. All backends of XLA do the same,
    although its page on operation semantics and StableHLO's specification say that each update whose own
    index is valid is applied.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    index_vector_dim: int = attr(required=True, default=0)
    indices_are_sorted: bool = False
    unique_indices: bool = False
    to_apply: Computation = attr(always=True, default=None)

    @property
    def places(self) -> Places:
        """The dimensions that connect operands and indices: `scatter_dims_to_operand_dims` and the batching
        dimensions of both.
        """
        return self.scatter_dims_to_operand_dims, self.input_batching_dims, self.scatter_indices_batching_dims

    @property
    def dropped(self) -> tuple[int, ...]:
        """The dimensions of the operands that updates do not have."""
        return (*self.inserted_window_dims, *self.input_batching_dims)

    def window_sizes(self, rank: int, update: Sequence[int]) -> tuple[int, ...]:
        """The size of a window in each dimension of an operand of this rank, for updates of sizes `update`; 1
        in the dimensions that updates do not have.
        """
        sizes = iter([update[d] for d in self.update_window_dims])
        return tuple(1 if d in self.dropped else next(sizes) for d in range(rank))

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the shapes of the arrays. The updates must fit the arrays, and `to_apply` must combine
        scalars of their element types.
        """
        shapes = arrays(self, *operands)
        count = len(shapes) // 2
        if len(shapes) % 2 == 0 or not count:
            self.reject("c1", f"n arrays, indices and n updates are wanted, found {len(shapes)} operands")
        sources, indices, updates = shapes[:count], shapes[count], shapes[count + 1 :]
        for source, update in zip(sources, updates, strict=True):
            self._check_update(source, indices, update)
            if source.dims != sources[0].dims or update.dims != updates[0].dims:
                message = f"all arrays must have the same dims, and all updates, found {show(shapes)}"
                self.reject("c2", message)
        accepts_scalars(
            self, self.to_apply, [s.dtype for s in (*sources, *updates)], [s.dtype for s in sources]
        )
        return joined(sources)

    def _check_update(self, source: Shape, indices: Shape, update: Shape) -> None:
        dropped = self.dropped
        batch = _check_indices(self, source, indices, self.places)
        window = [d for d in range(source.rank) if d not in dropped]
        if not are_different(dropped, source.rank):
            message = f"inserted_window_dims and input_batching_dims {dropped} are not different dimensions"
            self.reject("c3", message)
        if list(self.inserted_window_dims) != sorted(self.inserted_window_dims):
            self.reject("c4", f"inserted_window_dims={self.inserted_window_dims} must be sorted")
        numbers = self.update_window_dims
        if len(numbers) != len(window) or not are_increasing(numbers, update.rank):
            wanted = f"{len(window)} increasing dimensions of {show(update)}"
            self.reject("c5", f"update_window_dims={numbers} must be {wanted}")
        if update.rank != len(window) + len(batch):
            self.reject("c6", f"updates {show(update)} must have {len(window) + len(batch)} dimensions")
        for number, d in zip(numbers, window, strict=True):
            if update.dims[number] > source.dims[d]:
                self.reject("c7", f"the window of updates {show(update)} does not fit in {show(source)}")
        outer = [n for d, n in enumerate(update.dims) if d not in numbers]
        if outer != [indices.dims[d] for d in batch]:
            message = f"updates {show(update)} must have the batch dimensions of indices {show(indices)}"
            self.reject("c8", message)

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts one operation for each element of an update."""
        return operands[-1].size

    def accessed(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts the bytes of the indices, and those of the updates three times: updates are read, and as
        many elements of the operands are read and written.
        """
        indices, *updates = operands[len(operands) // 2 :]
        return indices.byte_size + 3 * sum(shape.byte_size for shape in updates)

    def windows(
        self, dims: Sequence[int], indices: np.ndarray, update: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
        """For an operand of sizes `dims`: the start of each window, in row-major order of index vectors; the
        update of each window, in the same order; and the size of a window in each dimension.
        """
        starts = window_starts(indices, self.index_vector_dim, len(dims), self.places)
        outer = [d for d in range(update.ndim) if d not in self.update_window_dims]
        sizes = self.window_sizes(len(dims), update.shape)
        count = prod(starts.shape[:-1])
        ordered = update.transpose([*outer, *self.update_window_dims]).reshape(count, *sizes)
        return starts.reshape(count, len(dims)), ordered, sizes

    @classmethod
    def samples(cls):
        """Updates of rows, an update of a single window, and updates with a batching dimension."""
        add = sample_reducer("add", F32)
        rows = cls((1,), (0,), (0,), index_vector_dim=1, to_apply=add)
        whole = cls((0, 1), (), (0, 1), index_vector_dim=0, to_apply=add)
        batched = cls((2,), (1,), (1,), (0,), (0,), index_vector_dim=2, to_apply=add)
        return [
            (rows, (Shape(F32, (5, 4)), Shape(S32, (3, 1)), Shape(F32, (3, 4)))),
            (whole, (Shape(F32, (5, 4)), Shape(S32, (2,)), Shape(F32, (2, 3)))),
            (batched, (Shape(F32, (2, 5, 3)), Shape(S32, (2, 4, 1)), Shape(F32, (2, 4, 3)))),
        ]


def _check_indices(self: Gather | Scatter, source: Shape, indices: Shape, places: Places) -> list[int]:
    """The dimensions of the indices without the index vector dimension. Rejects attributes that do not fit
    the shapes of operand (`source`) and indices; `places` are those of the op.
    """
    at, (index_map, source_batch, indices_batch) = self.index_vector_dim, places
    if not indices.dtype.is_integer:
        self.reject("i1", f"indices must be integers, found {show(indices)}")
    if not 0 <= at <= indices.rank:
        self.reject("i2", f"index_vector_dim={at} must be 0 to {indices.rank} for indices {show(indices)}")
    length = indices.dims[at] if at < indices.rank else 1
    if len(index_map) != length:
        vectors = f"index vectors of {show(indices)} have {length} components"
        self.reject("i3", f"{vectors}, but are mapped to dimensions {index_map}")
    mapped = (*index_map, *source_batch)
    if not are_different(mapped, source.rank):
        self.reject("i4", f"indexed dimensions {mapped} are not different dimensions of {show(source)}")
    if len(source_batch) != len(indices_batch) or len(set(indices_batch)) != len(indices_batch):
        self.reject("i5", f"batching dimensions {source_batch} and {indices_batch} must pair up")
    for a, b in zip(source_batch, indices_batch, strict=True):
        if not 0 <= b < indices.rank or b == at or source.dims[a] != indices.dims[b]:
            both = f"batching dimension {a} of {show(source)} and {b} of {show(indices)}"
            self.reject("i6", f"{both} must have the same size")
    return [d for d in range(indices.rank) if d != at]


def window_starts(indices: np.ndarray, vector_dim: int, rank: int, places: Places) -> np.ndarray:
    """The start of each window in each dimension of the operand, not clamped: an array of the shape of the
    index vectors with one more dimension of size `rank`. `places` are those of the op.
    """
    index_map, source_batch, indices_batch = places
    wide = np.minimum(indices.astype(np.uint64), _SOMEWHERE_OUTSIDE) if indices.dtype.kind == "u" else indices
    vectors = np.minimum(np.asarray(wide).astype(np.int64), _SOMEWHERE_OUTSIDE)
    vectors = np.moveaxis(vectors, vector_dim, -1) if vector_dim < indices.ndim else vectors[..., None]
    batch = vectors.shape[:-1]
    starts = np.zeros((*batch, rank), np.int64)
    for component, d in enumerate(index_map):
        starts[..., d] = vectors[..., component]
    for d, of_indices in zip(source_batch, indices_batch, strict=True):
        axis = of_indices - (of_indices > vector_dim)
        starts[..., d] = np.arange(batch[axis]).reshape([-1 if k == axis else 1 for k in range(len(batch))])
    return starts


def window_places(starts: np.ndarray, sizes: Sequence[int]) -> tuple[np.ndarray, ...]:
    """For each dimension of the operand, an array of the positions of all elements of all windows, which have
    `sizes`. Its dimensions are those of `starts` without the last one, then those of a window.
    """
    rank, batch = len(sizes), starts.shape[:-1]
    return tuple(
        starts[..., d].reshape([*batch, *[1] * rank])
        + np.arange(size).reshape([-1 if k == d else 1 for k in range(rank)])
        for d, size in enumerate(sizes)
    )
