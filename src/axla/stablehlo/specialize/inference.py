"""The sizes of results from those of operands, operation by operation.

Only what can stand between tensors with `?` has a rule; whether operands fit is for verification to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from axla.core.errors import UnsupportedError, VerifyError
from axla.ir.attributes import Window
from axla.stablehlo import mlir
from axla.stablehlo.importer import attributes as attr
from axla.stablehlo.importer.elementwise import RULES as ELEMENTWISE
from axla.stablehlo.importer.reduction import window_of
from axla.stablehlo.specialize.sizes import Bounded, Sizes, refined, sizes_of
from axla.stablehlo.tables import by_name

Rule = Callable[[mlir.Operation, Sequence[Sizes]], "Sizes | list[Sizes]"]
"""Sizes of all results, or of each one, from the sizes of the operands."""


def result_types(operation: mlir.Operation, operands: Sequence[mlir.Type]) -> list[mlir.Type]:
    """The types of an operation's results where its operands have these types."""
    written = [r.type for r in operation.results]
    if operation.name in _OF_TYPES:
        return _OF_TYPES[operation.name](operation, operands)
    rule = RULES.get(operation.name)
    if rule is None and operation.name.startswith("chlo."):
        rule = _broadcasting
    if rule is None:
        raise UnsupportedError("which sizes its result has does not follow from those of its operands")
    try:
        found = rule(operation, [sizes_of(t) for t in operands])
    except (IndexError, TypeError) as error:
        raise VerifyError(f"its attributes do not fit its operands ({error})") from None
    sizes = found if isinstance(found, list) else [found] * len(written)
    if len(sizes) != len(written):
        raise VerifyError(f"{len(sizes)} results follow, {len(written)} are written")
    return [refined(t, s) for t, s in zip(written, sizes, strict=True)]


# Rules


def _operand(number: int) -> Rule:
    return lambda operation, sizes: sizes[number]


def _each(operation: mlir.Operation, sizes: Sequence[Sizes]) -> list[Sizes]:
    return list(sizes[: len(operation.results)])


def _same(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    """Elementwise: operands agree, or are scalars."""
    rank = max(len(s) for s in sizes)
    found: list[int | None] = [None] * rank
    for other in sizes:
        if len(other) not in (rank, 0):
            raise VerifyError(f"operands of ranks {rank} and {len(other)}")
        for at, size in enumerate(other):
            known = found[at]
            exact = not isinstance(known, Bounded) and not isinstance(size, Bounded)
            if known is not None and size is not None and known != size and exact:
                raise VerifyError(f"operands with sizes {known} and {size} in dimension {at}")
            if known is None or (isinstance(known, Bounded) and size is not None):
                found[at] = size
    return tuple(found)


def _broadcasting(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    """CHLO: the last dimensions agree or are 1, unless it is said which ones they are."""
    rank = max(len(s) for s in sizes)
    said = attr.integers(operation, "broadcast_dimensions", None)
    found: list[int | None] = [1] * rank
    for other in sizes:
        places = said if said is not None and len(said) == len(other) != rank else None
        for at, size in zip(places or range(rank - len(other), rank), other, strict=True):
            if size is not None and found[at] not in (1, size) and size != 1:
                raise VerifyError(f"operands with sizes {found[at]} and {size} in dimension {at}")
            found[at] = size if found[at] == 1 else found[at]
    return tuple(found)


def _transpose(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    return tuple(sizes[0][d] for d in attr.integers(operation, "permutation"))


def _concatenate(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    at = attr.integer(operation, "dimension")
    total = sum((s[at] for s in sizes), 0)  # type: ignore[misc]
    return (*sizes[0][:at], total, *sizes[0][at + 1 :])


def _slice(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    names = ("start_indices", "limit_indices", "strides")
    rows = zip(*[attr.integers(operation, name) for name in names], strict=False)
    return tuple(-((start - limit) // max(stride, 1)) for start, limit, stride in rows)


def _pad(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    rows = zip(sizes[0], *[attr.integers(operation, name) for name in names], strict=False)
    return tuple(
        d + low + high + (d - 1) * inside if d else low + high  # type: ignore[operator]
        for d, low, high, inside in rows
    )


def _dynamic_slice(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    return attr.integers(operation, "slice_sizes")


def _gather(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    numbers = attr.structure(operation, "dimension_numbers", "gather")
    vector = attr.field_integer(numbers, "index_vector_dim")
    dropped = {
        *attr.field_integers(numbers, "collapsed_slice_dims"),
        *attr.field_integers(numbers, "operand_batching_dims"),
    }
    batch = iter([d for at, d in enumerate(sizes[1]) if at != vector])
    inside = iter([d for at, d in enumerate(attr.integers(operation, "slice_sizes")) if at not in dropped])
    offset = set(attr.field_integers(numbers, "offset_dims"))
    rank = len(sizes[1]) - (vector < len(sizes[1])) + len(offset)
    return tuple(next(inside if at in offset else batch, None) for at in range(rank))


def _reduce(operation: mlir.Operation, sizes: Sequence[Sizes]) -> list[Sizes]:
    gone = attr.integers(operation, "dimensions")
    return [tuple(d for at, d in enumerate(s) if at not in gone) for s in sizes[: len(operation.results)]]


def _positions(window: Window, sizes: Iterable[int | None]) -> list[int]:
    """How many positions a window has along each dimension."""
    fields = (
        window.low, window.high, window.base_dilation, window.size, window.window_dilation, window.stride,
    )  # fmt: skip
    return [_windows(size, *row) for size, *row in zip(sizes, *fields, strict=False)]


def _windows(size: int | None, low: int, high: int, base: int, window: int, holes: int, stride: int) -> int:
    """How many positions a window has along a dimension."""
    if size is None:
        raise UnsupportedError("a window over a size that is not known")
    whole = low + high + ((size - 1) * base + 1 if size else 0)
    covered = (window - 1) * holes + 1 if window else 0
    count = (whole - covered) // max(stride, 1) + 1 if 0 < whole >= covered else 0
    return Bounded(count) if isinstance(size, Bounded) else count


def _reduce_window(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    window = window_of(
        operation, attr.integers(operation, "window_dimensions"), "base_dilations", "window_dilations"
    )
    return tuple(_positions(window, sizes[0]))


def _dot_general(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    numbers = attr.structure(operation, "dot_dimension_numbers", "dot")
    lists = {
        key: attr.field_integers(numbers, f"{key[0]}_{key[1]}_dimensions")
        for key in ((side, kind) for side in ("lhs", "rhs") for kind in ("batching", "contracting"))
    }
    free = [
        d
        for side, operand in zip(("lhs", "rhs"), sizes, strict=False)
        for at, d in enumerate(operand)
        if at not in lists[side, "batching"] and at not in lists[side, "contracting"]
    ]
    return (*[sizes[0][at] for at in lists["lhs", "batching"]], *free)


def _convolution(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    numbers = attr.structure(operation, "dimension_numbers", "conv")
    inner, kernel, outer = (
        attr.field_integers(numbers, f"{name}_spatial_dimensions") for name in ("input", "kernel", "output")
    )
    places = [
        attr.field_integer(numbers, name, -1)
        for name in (
            "input_batch_dimension", "kernel_output_feature_dimension", "output_batch_dimension",
            "output_feature_dimension",
        )
    ]  # fmt: skip
    window = window_of(operation, [sizes[1][d] or 0 for d in kernel], "lhs_dilation", "rhs_dilation")
    found: list[int | None] = [None] * len(sizes[0])
    for at, count in zip(outer, _positions(window, (sizes[0][d] for d in inner)), strict=False):
        found[at] = count
    found[places[2]] = (sizes[0][places[0]] or 0) // attr.integer(operation, "batch_group_count", 1)
    found[places[3]] = sizes[1][places[1]]
    return tuple(found)


def _fft(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    kind, length = attr.word(operation, "fft_type"), attr.integers(operation, "fft_length")
    last = {"RFFT": length[-1] // 2 + 1, "IRFFT": length[-1]}.get(kind, sizes[0][-1])
    return (*sizes[0][:-1], last)


def _batch_norm(operation: mlir.Operation, sizes: Sequence[Sizes]) -> list[Sizes]:
    return [sizes[0], sizes[1], sizes[1]]


def _bits(type_: mlir.Type) -> int:
    element = type_.element if isinstance(type_, mlir.TensorType) else type_
    if isinstance(element, mlir.IntegerType):
        return element.width
    return mlir.numpy_type(element).itemsize * 8


def _bitcast(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    before, after = _bits(operation.operands[0].type), _bits(operation.results[0].type)
    if before > after:
        return (*sizes[0], before // after)
    return sizes[0][:-1] if before < after else sizes[0]


def _all_gather(operation: mlir.Operation, sizes: Sequence[Sizes]) -> list[Sizes]:
    at, groups = attr.integer(operation, "all_gather_dim"), attr.matrix(operation, "replica_groups", [])
    if not groups:
        raise UnsupportedError("without replica_groups the size of its result is not known")
    return [(*s[:at], s[at] * len(groups[0]), *s[at + 1 :]) for s in sizes]  # type: ignore[operator]


def _top_k(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    return (*sizes[0][:-1], attr.integer(operation, "k"))


def _set_dimension_size(operation: mlir.Operation, sizes: Sequence[Sizes]) -> Sizes:
    at = attr.integer(operation, "dimension")
    return tuple(Bounded(d) if n == at and d is not None else d for n, d in enumerate(sizes[0]))


# Rules of types: what is no tensor.


def _types(operation: mlir.Operation, operands: Sequence[mlir.Type]) -> list[mlir.Type]:
    return list(operands)


def _tuple(operation: mlir.Operation, operands: Sequence[mlir.Type]) -> list[mlir.Type]:
    return [mlir.TupleType(tuple(operands))]


def _element(operation: mlir.Operation, operands: Sequence[mlir.Type]) -> list[mlir.Type]:
    at, whole = attr.integer(operation, "index"), operands[0]
    if not isinstance(whole, mlir.TupleType) or not 0 <= at < len(whole.elements):
        raise VerifyError(f"index={at}: there is no such element")
    return [whole.elements[at]]


_OF_TYPES: dict[str, Callable[[mlir.Operation, Sequence[mlir.Type]], list[mlir.Type]]] = {
    "stablehlo.get_tuple_element": _element,
    "stablehlo.optimization_barrier": _types,
    "stablehlo.tuple": _tuple,
}
RULES: dict[str, Rule] = {
    **by_name(
        "stablehlo.", _all_gather, _concatenate, _convolution, _dot_general, _dynamic_slice, _fft, _gather,
        _pad, _reduce, _reduce_window, _set_dimension_size, _slice, _transpose,
    ),
    **dict.fromkeys(ELEMENTWISE, _same),
    **dict.fromkeys(
        (f"stablehlo.{name}" for name in (
            "batch_norm_inference", "cholesky", "collective_broadcast", "collective_permute",
            "dynamic_update_slice", "reverse", "select_and_scatter", "uniform_dequantize", "uniform_quantize",
        )),
        _operand(0),
    ),
    "chlo.top_k": _top_k,
    "interpreter.probe": _operand(0),
    "sdy.sharding_constraint": _operand(0),
    "stablehlo.all_reduce": _each,
    "stablehlo.batch_norm_grad": _batch_norm,
    "stablehlo.batch_norm_training": _batch_norm,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.dot": lambda operation, sizes: (*sizes[0][:-1], *sizes[1][1:]),
    "stablehlo.map": _operand(0),
    "stablehlo.scatter": _each,
    "stablehlo.sort": _each,
    "stablehlo.triangular_solve": _operand(1),
}  # fmt: skip
"""`dynamic_*` operations become static ones first; operations with a state have no rule here."""
