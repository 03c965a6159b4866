"""The linear algebra targets that JAX emits for CPUs, `lapack_<type><routine>_ffi`, as plans.

Matrices are always passed as column-major, as LAPACK requires; the layouts declared by the call put them into
this order. An operand that a routine overwrites is first copied into the result. `info` results are those of
the routine. Results that a routine may leave undefined are set to zero.
"""

from __future__ import annotations

import ctypes as c
import struct
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache
from math import prod
from typing import Any, NoReturn

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.dtypes import C64, C128, F32, F64, S32, DType
from axla.core.errors import AxlaError, UnsupportedError
from axla.core.shape import Shape, show
from axla.custom import lapack
from axla.custom.attributes import parse_attributes
from axla.custom.plan import NULL, OPERAND, RESULT, SCRATCH, CallPlan, LeafAddress, Vectors
from axla.custom.site import CallSite

_TYPES: dict[str, DType] = {"s": F32, "d": F64, "c": C64, "z": C128}
_LARGEST = (1 << 31) - 1


@lru_cache(maxsize=256)
def plan_of(site: CallSite) -> CallPlan:
    """The plan of a call. UnsupportedError if the target does not support its shapes, types or attributes."""
    return _built(site, _Builder).plan()


@dataclass(frozen=True, slots=True)
class RoutineCall:
    """A valid call of a LAPACK routine: the routine's name without the type's letter, the batch sizes, and
    the attributes.
    """

    routine: str
    batch: tuple[int, ...]
    attributes: dict[str, Any]


def request_of(site: CallSite) -> RoutineCall:
    """The LAPACK routine, batch sizes and attributes of a call. It is checked as `plan_of` does, but the
    library is not needed.
    """
    build = _built(site, _Checker)
    values = {k: chr(v) if type(v) is np.uint8 else int(v) for k, v in build.attributes.items()}
    return RoutineCall(build.name, build.batch_dims, values)


def _built(site: CallSite, kind: type[_Builder]) -> _Builder:
    letter, name = TARGETS[site.target]
    if site.version != "API_VERSION_TYPED_FFI":
        raise UnsupportedError(f"{site}: the call is of {site.version}, wanted API_VERSION_TYPED_FFI")
    try:
        attributes = parse_attributes(site.config)
    except AxlaError as error:
        raise UnsupportedError(f"{site}: {error}") from error
    build = kind(site, letter, name, attributes)
    _ROUTINES[name](build)
    return build


class _Builder:
    """Collects the parts of a plan in attributes named like the fields of `CallPlan`. UnsupportedError for an
    invalid call.
    """

    def __init__(self, site: CallSite, letter: str, name: str, attributes: dict[str, Any]) -> None:
        self.site, self.name, self.attributes = site, name, attributes
        self.symbol, self.dtype, self.real = letter + name, _TYPES[letter], _TYPES[letter].real
        self.operands, self.results = site.operand_leaves, site.result_leaves
        self.arguments: list[LeafAddress] = []
        self.copies: list[tuple[int, int]] = []
        self.copied: list[tuple[LeafAddress, LeafAddress, int]] = []
        self.zeroed: list[int] = []
        self.stores: list[tuple[int, bytes]] = []
        self.vectors: list[Vectors] = []
        self.finite: tuple[LeafAddress, int] | None = None
        self.info: LeafAddress | None = None
        self.scratch_bytes = self.order = 0
        self.batch_dims: tuple[int, ...] = ()

    @property
    def batch(self) -> int:
        return prod(self.batch_dims)

    def plan(self) -> CallPlan:
        parts = {part.name: getattr(self, part.name) for part in fields(CallPlan)}
        made: dict[str, Any] = {n: tuple(p) if isinstance(p, list) else p for n, p in parts.items()}
        return CallPlan(**made)

    # -- operands, results and attributes of the call --------------------------------------------------

    def fail(self, message: str) -> NoReturn:
        raise UnsupportedError(f"{self.site}: {message}")

    def count(self, operands: int, results: int) -> None:
        if len(self.operands) != operands or len(self.results) != results:
            self.fail(
                f"found {len(self.operands)} operands and {len(self.results)} results, wanted {operands} and "
                f"{results}"
            )

    def matrix(self, number: int = 0) -> tuple[int, int]:
        """The numbers of (rows, columns) of the matrices in operand `number`. The dimensions before the last
        two are the batch.
        """
        shape = self.operands[number]
        if not isinstance(shape, Shape) or shape.rank < 2 or shape.dtype is not self.dtype:
            found = show(shape)
            self.fail(f"operand {number} is {found}, wanted matrices of {self.dtype.name}")
        if number == 0:
            self.batch_dims = shape.dims[:-2]
        self.expect(f"operand {number}", shape, self.dtype, shape.dims[-2:])
        return shape.dims[-2], shape.dims[-1]

    def square(self, number: int = 0) -> int:
        rows, columns = self.matrix(number)
        if rows != columns:
            self.fail(f"operand {number} has matrices of {rows} x {columns}, wanted square ones")
        return rows

    def expect(self, what: str, shape: Any, dtype: DType, dims: Sequence[int]) -> None:
        wanted = Shape(dtype, (*self.batch_dims, *dims))
        if not isinstance(shape, Shape) or shape.logical is not wanted:
            self.fail(f"{what} is {show(shape)}, wanted {show(wanted)}")
        if any(size > _LARGEST for size in dims):
            self.fail(f"{what} has more than {_LARGEST} rows or columns, the limit of LAPACK")

    def letters(self, name: str, wanted: str) -> str:
        """The value of the attribute `name`, which must be one of the characters in `wanted`. JAX writes it
        as the character's code.
        """
        value = self.attributes.get(name)
        found = chr(value) if isinstance(value, np.integer) and 0 < value < 128 else ""
        if not found or found not in wanted:
            choices = ", ".join(f"{ord(w)} ({w})" for w in wanted)
            self.fail(f"attribute {name} is {value!r}, wanted {choices}")
        return found

    def number(self, name: str) -> int:
        value = self.attributes.get(name)
        if not isinstance(value, bool | np.integer):
            self.fail(f"attribute {name} is {value!r}, wanted a number")
        return int(value)

    # -- addresses -------------------------------------------------------------------------------------

    def operand(self, number: int, dtype: DType, *dims: int) -> LeafAddress:
        self.expect(f"operand {number}", self.operands[number], dtype, dims)
        return LeafAddress(OPERAND, number, stride=prod(dims) * dtype.itemsize)

    def result(self, number: int, dtype: DType, *dims: int) -> LeafAddress:
        self.expect(f"result {number}", self.results[number], dtype, dims)
        return LeafAddress(RESULT, number, stride=prod(dims) * dtype.itemsize)

    def over(self, operand: int, number: int, dtype: DType, *dims: int) -> LeafAddress:
        """Returns the address of result `number`, and records that the result is first set to a copy of the
        operand. Both must have the element type `dtype` and, after the batch dimensions, the sizes `dims`.
        """
        self.operand(operand, dtype, *dims)
        self.copies.append((operand, number))
        return self.result(number, dtype, *dims)

    def cleared(self, number: int, dtype: DType, *dims: int) -> LeafAddress:
        """The address of result `number`, which is first set to zero, as the routine may leave it undefined.
        `dtype` and `dims` are the element type and the sizes that it must have in each matrix of the batch.
        """
        self.zeroed.append(number)
        return self.result(number, dtype, *dims)

    def scratch(self, size: int) -> LeafAddress:
        place = LeafAddress(SCRATCH, 0, self.scratch_bytes)
        self.scratch_bytes += -(-max(size, 1) // 16) * 16
        return place

    def stored(self, data: bytes) -> LeafAddress:
        place = self.scratch(len(data))
        self.stores.append((place.offset, data))
        return place

    def int(self, value: int) -> LeafAddress:
        if not -_LARGEST <= value <= _LARGEST:
            self.fail(f"{value} does not fit the 32-bit integers of LAPACK")
        return self.stored(struct.pack("<i", value))

    def leading(self, rows: int) -> LeafAddress:
        """The address of a leading dimension, for matrices of `rows` rows. LAPACK requires it to be
        positive.
        """
        return self.int(max(rows, 1))

    def text(self, letter: str) -> LeafAddress:
        return self.stored(letter.encode() + b"\0")

    def letter(self, name: str, wanted: str) -> LeafAddress:
        return self.text(self.letters(name, wanted))

    def reals(self, count: int) -> list[LeafAddress]:
        """The workspace of `count` real numbers that routines for complex matrices need, as a list of one
        address; an empty list for real matrices. The routine cannot be asked for the size.
        """
        return [self.scratch(count * self.real.itemsize)] if self.dtype.is_complex else []

    def status(self, number: int) -> LeafAddress:
        self.info = self.result(number, S32)
        return self.info

    # -- the call of the routine -----------------------------------------------------------------------

    def call(self, *arguments: LeafAddress | str) -> None:
        """Sets the arguments of the routine. The texts "work", "rwork" and "iwork" stand for workspaces,
        whose sizes the routine is asked for; "size" stands for the size of the workspace before it.
        """
        kinds = {"work": self.dtype, "rwork": self.real, "iwork": S32}
        asked = [kinds[a] for a in arguments if isinstance(a, str) and a != "size"]
        sizes = iter(self._sizes(arguments, asked) if asked else [])
        made: list[LeafAddress] = []
        pending = 0
        for argument in arguments:
            if isinstance(argument, LeafAddress):
                made.append(argument)
            elif argument == "size":
                made.append(self.int(pending))
            else:
                pending = next(sizes)
                made.append(self.scratch(pending * kinds[argument].itemsize))
        self.arguments = made

    def _sizes(self, arguments: Sequence[LeafAddress | str], kinds: Sequence[DType]) -> list[int]:
        """The sizes of the workspaces. The routine is called with -1 as sizes, and then writes the sizes it
        needs.
        """
        # In such a call the routine only reads the sizes. Still, each argument points to a small buffer of
        # its own.
        buffers = [c.create_string_buffer(64) for _ in arguments]
        stored = dict(self.stores)
        for buffer, argument in zip(buffers, arguments, strict=True):
            if isinstance(argument, LeafAddress) and argument.base == SCRATCH and argument.offset in stored:
                data = stored[argument.offset]
            else:
                data = struct.pack("<i", -1) if argument == "size" else b""
            buffer[: len(data)] = data
        null = [isinstance(a, LeafAddress) and a.base == NULL for a in arguments]
        routine = lapack.routine(self.symbol, len(buffers))
        routine(*(None if none else c.addressof(b) for none, b in zip(null, buffers, strict=True)))
        found = []
        spaces = [b for b, a in zip(buffers, arguments, strict=True) if isinstance(a, str) and a != "size"]
        for buffer, kind in zip(spaces, kinds, strict=True):
            format_ = {F32: "<f", C64: "<f", S32: "<i"}.get(kind, "<d")
            found.append(max(int(struct.unpack_from(format_, buffer)[0]), 1))
        return found


class _Checker(_Builder):
    """Checks a call without asking the library for the sizes of workspaces."""

    def call(self, *arguments: LeafAddress | str) -> None:
        pass


NOTHING = LeafAddress(NULL)


def _potrf(b: _Builder) -> None:
    b.count(1, 2)
    n = b.square()
    a, uplo = b.over(0, 0, b.dtype, n, n), b.letter("uplo", "LU")
    b.call(uplo, b.int(n), a, b.leading(n), b.status(1))


def _trsm(b: _Builder) -> None:
    b.count(2, 1)
    rows = b.square()
    m, n = b.matrix(1)
    side = b.letters("side", "LR")
    if rows != (m if side == "L" else n):
        b.fail(f"operand 0 ({rows} x {rows}) does not fit operand 1 ({m} x {n}) with side {side}")
    one = {F32: "<f", F64: "<d", C64: "<2f", C128: "<2d"}[b.dtype]
    one_data = struct.pack(one, *([1.0] if one[1] != "2" else [1.0, 0.0]))
    x = b.over(1, 0, b.dtype, m, n)
    texts = [side, b.letters("uplo", "LU"), b.letters("trans_x", "NTC"), b.letters("diag", "NU")]
    b.call(
        *map(b.text, texts), b.int(m), b.int(n), b.stored(one_data), b.operand(0, b.dtype, rows, rows),
        b.leading(rows), x, b.leading(m),
    )  # fmt: skip


def _getrf(b: _Builder) -> None:
    b.count(1, 3)
    m, n = b.matrix()
    a, pivots = b.over(0, 0, b.dtype, m, n), b.result(1, S32, min(m, n))
    b.call(b.int(m), b.int(n), a, b.leading(m), pivots, b.status(2))


def _geqrf(b: _Builder) -> None:
    b.count(1, 2)
    m, n = b.matrix()
    a, tau = b.over(0, 0, b.dtype, m, n), b.result(1, b.dtype, min(m, n))
    b.call(b.int(m), b.int(n), a, b.leading(m), tau, "work", "size", b.scratch(4))


def _geqp3(b: _Builder) -> None:
    b.count(2, 3)
    m, n = b.matrix()
    a, pivots, tau = b.over(0, 0, b.dtype, m, n), b.over(1, 1, S32, n), b.result(2, b.dtype, min(m, n))
    b.call(
        b.int(m), b.int(n), a, b.leading(m), pivots, tau, "work", "size", *b.reals(2 * n), b.scratch(4),
    )  # fmt: skip


def _orgqr(b: _Builder) -> None:
    b.count(2, 1)
    m, n = b.matrix()
    k = _last_size(b, 1)
    if not m >= n >= k:
        b.fail(f"found {k} reflectors of {m} elements for {n} columns, wanted m >= n >= k")
    a, tau = b.over(0, 0, b.dtype, m, n), b.operand(1, b.dtype, k)
    b.call(b.int(m), b.int(n), b.int(k), a, b.leading(m), tau, "work", "size", b.scratch(4))


def _ormqr(b: _Builder) -> None:
    b.count(3, 1)
    rows, columns = b.matrix()
    m, n = b.matrix(2)
    k = _last_size(b, 1)
    left, transposed = bool(b.number("left")), bool(b.number("transpose"))
    if rows != (m if left else n) or not rows >= columns >= k:
        b.fail(f"{k} reflectors in {rows} x {columns} cannot be applied to {m} x {n}")
    texts = ("L" if left else "R", ("C" if b.dtype.is_complex else "T") if transposed else "N")
    product = b.over(2, 0, b.dtype, m, n)
    b.call(
        *map(b.text, texts), b.int(m), b.int(n), b.int(k), b.operand(0, b.dtype, rows, columns),
        b.leading(rows), b.operand(1, b.dtype, k), product, b.leading(m), "work", "size",
        b.scratch(4),
    )  # fmt: skip


def _last_size(b: _Builder, number: int) -> int:
    shape = b.operands[number]
    if not isinstance(shape, Shape) or not shape.rank:
        b.fail(f"operand {number} is {show(shape)}, wanted vectors")
    return shape.dims[-1]


def _evd(b: _Builder) -> None:
    """The routines syevd and heevd: eigenvalues, and eigenvectors in place of the matrix."""
    b.count(1, 3)
    n = b.square()
    a, w = b.over(0, 0, b.dtype, n, n), b.result(1, b.real, n)
    texts = (b.letters("mode", "NV"), b.letters("uplo", "LU"))
    real = ["rwork", "size"] if b.dtype.is_complex else []
    b.call(
        *map(b.text, texts), b.int(n), a, b.leading(n), w, "work", "size", *real, "iwork", "size",
        b.status(2),
    )  # fmt: skip


def _svd_places(b: _Builder) -> tuple[str, int, int, tuple[LeafAddress | str, ...]]:
    """The common arguments of gesdd and gesvd: (mode, rows, columns, the arguments between mode and
    workspace).
    """
    b.count(1, 5)
    m, n = b.matrix()
    mode, k = b.letters("mode", "ASN"), min(m, n)
    u, v = b.results[2], b.results[3]
    full = isinstance(u, Shape) and isinstance(v, Shape) and u.dims[-1:] == (m,) and v.dims[-2:-1] == (n,)
    columns, rows = (m, n) if mode == "A" or (mode == "N" and full) else (k, k)
    a, s = b.over(0, 0, b.dtype, m, n), b.cleared(1, b.real, k)
    left, right = b.cleared(2, b.dtype, m, columns), b.cleared(3, b.dtype, rows, n)
    places = (
        b.int(m), b.int(n), a, b.leading(m), s, left, b.leading(m), right, b.leading(rows),
    )  # fmt: skip
    return mode, m, n, places


def _gesdd(b: _Builder) -> None:
    mode, m, n, places = _svd_places(b)
    k, larger = min(m, n), max(m, n)
    # The size of the real workspace cannot be queried; this is the formula in its documentation.
    size = 7 * k if mode == "N" else max(5 * k * k + 5 * k, 2 * larger * k + 2 * k * k + k)
    b.call(b.text(mode), *places, "work", "size", *b.reals(size), b.scratch(8 * k * 4), b.status(4))


def _gesvd(b: _Builder) -> None:
    mode, m, n, places = _svd_places(b)
    real = b.reals(5 * min(m, n))
    b.call(b.text(mode), b.text(mode), *places, "work", "size", *real, b.status(4))


def _geev(b: _Builder) -> None:
    """The routine geev. For a real matrix the eigenvalues are two vectors, and the eigenvectors are
    packed.
    """
    complex_ = b.dtype.is_complex
    b.count(1, 4 if complex_ else 5)
    n = b.square()
    modes = [b.letters("compute_left", "NV"), b.letters("compute_right", "NV")]
    first = 1 if complex_ else 2
    values = [b.cleared(k, b.dtype, n) for k in range(first)]
    results = [b.cleared(first + k, b.dtype if complex_ else _complex(b.dtype), n, n) for k in range(2)]
    size = n * n * b.dtype.itemsize
    given, a = b.operand(0, b.dtype, n, n), b.scratch(size)
    b.copied.append((given, a, size))
    b.finite = (a, n * n * (2 if complex_ else 1))
    vectors = results
    if not complex_:
        vectors = [b.scratch(size) for _ in modes]
        b.vectors = [
            Vectors(packed, values[1], result)
            for packed, result, mode in zip(vectors, results, modes, strict=True)
            if mode == "V"
        ]
        b.order = n
    real = b.reals(2 * n)
    ld = b.leading(n)
    b.call(
        *map(b.text, modes), b.int(n), a, ld, *values, vectors[0], ld, vectors[1], ld, "work", "size", *real,
        b.status(first + 2),
    )  # fmt: skip


def _complex(dtype: DType) -> DType:
    return C64 if dtype is F32 else C128


def _gees(b: _Builder) -> None:
    complex_ = b.dtype.is_complex
    count = 1 if complex_ else 2
    b.count(1, 4 + count)
    n = b.square()
    mode, sort = b.letters("mode", "NV"), b.letters("sort", "N")
    a, vectors = b.over(0, 0, b.dtype, n, n), b.cleared(1, b.dtype, n, n)
    values = [b.cleared(2 + k, b.dtype, n) for k in range(count)]
    selected = b.result(2 + count, S32)
    real = b.reals(n)
    b.call(
        b.text(mode), b.text(sort), NOTHING, b.int(n), a, b.leading(n), selected, *values, vectors,
        b.leading(n), "work", "size", *real, b.scratch(4 * n), b.status(3 + count),
    )  # fmt: skip


def _gehrd(b: _Builder) -> None:
    b.count(1, 3)
    n = b.square()
    low, high = b.number("low"), b.number("high")
    if not (1 <= low <= high <= n if n else (low, high) == (1, 0)):
        b.fail(f"attributes low = {low} and high = {high} are not valid for a matrix of {n} rows")
    a, tau = b.over(0, 0, b.dtype, n, n), b.result(1, b.dtype, max(n - 1, 0))
    b.call(b.int(n), b.int(low), b.int(high), a, b.leading(n), tau, "work", "size", b.status(2))


def _trd(b: _Builder) -> None:
    """The routines sytrd and hetrd, which transform a symmetric or Hermitian matrix to a tridiagonal one."""
    b.count(1, 5)
    n = b.square()
    less = max(n - 1, 0)
    a, d = b.over(0, 0, b.dtype, n, n), b.result(1, b.real, n)
    e, tau = b.result(2, b.real, less), b.result(3, b.dtype, less)
    uplo = b.letter("uplo", "LU")
    b.call(uplo, b.int(n), a, b.leading(n), d, e, tau, "work", "size", b.status(4))


def _gtsv(b: _Builder) -> None:
    """The routine gtsv. The first element of the lower diagonal and the last one of the upper diagonal are
    padding.
    """
    b.count(4, 5)
    shape = b.operands[3]
    if isinstance(shape, Shape):
        b.batch_dims = shape.dims[:-2]
    n, columns = b.matrix(3)
    lower, middle, upper = (b.over(k, k, b.dtype, n) for k in range(3))
    after_padding = LeafAddress(lower.base, lower.leaf, b.dtype.itemsize if n else 0, lower.stride)
    x = b.over(3, 3, b.dtype, n, columns)
    b.call(b.int(n), b.int(columns), after_padding, middle, upper, x, b.leading(n), b.status(4))


_ROUTINES: dict[str, Callable[[_Builder], None]] = {
    "potrf": _potrf, "trsm": _trsm, "getrf": _getrf, "geqrf": _geqrf, "geqp3": _geqp3,
    "orgqr": _orgqr, "ungqr": _orgqr, "ormqr": _ormqr, "unmqr": _ormqr, "syevd": _evd, "heevd": _evd,
    "gesdd": _gesdd, "gesvd": _gesvd, "geev": _geev, "gees": _gees, "gehrd": _gehrd,
    "sytrd": _trd, "hetrd": _trd, "gtsv": _gtsv,
}  # fmt: skip
_LETTERS = {
    name: "sd" if name in ("orgqr", "ormqr", "syevd", "sytrd")
    else "cz" if name in ("ungqr", "unmqr", "heevd", "hetrd")
    else "sdcz"
    for name in _ROUTINES
}  # fmt: skip
TARGETS = {f"lapack_{letter}{name}_ffi": (letter, name) for name in _LETTERS for letter in _LETTERS[name]}
"""The linear algebra targets by name: (letter of the type, routine)."""
