"""Compares two results: by the tolerances of the conformance code, or bit by bit if the program does not
round.

A difference counts only in stable elements. To find them, the interpreter runs the program again with
approximations that are off by a few units in the last place. An element that this moves by an eighth of the
tolerance or more is unstable: it does not count, unless the result is much further away than in all of these
runs. Results that depend on the signs of NaNs do not count either, as -1 * x may be computed as -x.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

import numpy as np

import axla
from axla.analysis.rounding import SUMS, shaken
from axla.comparison import BITS, SHAKES, agreement, array_leaves, compare_output
from axla.core.dtypes import BF16, F8E3M4, F8E4M3, F8E4M3FN, F8E5M2, F16, F32, F64, PRED, from_numpy
from axla.core.errors import AxlaError
from axla.core.shape import Shape
from axla.hlo import Broadcast, Compare, Multiply, Negate, Select
from axla.ir.attributes import Direction
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.structure import Constant
from axla.ir.traverse import post_order

from .cases import Case, Found
from .roundings import reduced_otherwise, rough_leaves


def differs(case: Case, found: Found, wanted: Found | None = None, *, bits: bool = False) -> str:
    """The difference between the results of a run and the expected ones; "" if they agree.

    With `bits`, all bits must be equal, except those of NaNs.
    """
    wanted = wanted or case.wanted
    shapes = array_leaves(case.module.entry.root.shape)
    rough = [False] * len(shapes) if bits else rough_leaves(case.module)
    if len(found[0]) != len(wanted[0]):
        return f"{len(found[0])} results, wanted {len(wanted[0])}"
    rows = []
    for number, (shape, a, e) in enumerate(zip(shapes, found[0], wanted[0], strict=True)):
        problem = compare_output(number, shape, a, e).problem
        if not problem and not rough[number]:
            problem = unlike(a, e)
        if problem:
            rows.append((number, problem))
    if rows and any(rough[n] for n, _ in rows):
        rows = [(n, p) for n, p in rows if not rough[n] or not shaky(case, n, found[0][n], wanted[0][n])]
    if rows and not bits:
        rows = [(n, p) for n, p in rows if not shows_signs(case, n)]
    if rows:
        return f"result {rows[0][0]}: {rows[0][1]}"
    why = heard_differently(found[1], wanted[1])
    return heard_differently(found[1], wanted[1], heard_unsteadily(case)) if why and not bits else why


def unlike(found: np.ndarray, wanted: np.ndarray) -> str:
    """The first position where bits differ; "" if there is none. All NaNs are equal."""
    shape = Shape(from_numpy(wanted.dtype), wanted.shape)
    problem = compare_output(0, shape, found, wanted, BITS).problem
    return f"in bits, {problem}" if problem else ""


def heard_unsteadily(case: Case) -> set[int]:
    """The numbers of the values from the outfeed that depend on rounding."""
    wanted, numbers = flat(case.wanted[1]), set()
    other = [shaken(case.module, seed) for seed in range(SHAKES)]
    for module in (*other, *reduced_otherwise(case.module)):
        found = flat(case.run(axla.compile(module, backend="interpreter"), case.inputs)[1])
        pairs = enumerate(zip(found, wanted, strict=False))
        numbers |= {n for n, (x, y) in pairs if heard_differently([x], [y])}
    return numbers


def heard_differently(found: list[Any], wanted: list[Any], but: Collection[int] = ()) -> str:
    """The difference between the values that the host received and the expected ones; "" if there is none.
    Values whose numbers are in `but` may differ.
    """
    a, e = flat(found), flat(wanted)
    if len(a) != len(e):
        return f"the host got {len(a)} values, wanted {len(e)}"
    for number, (x, y) in enumerate(zip(a, e, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"value {number} for the host is {x.dtype}{list(x.shape)}, wanted {y.dtype}{list(y.shape)}"
        with np.errstate(all="ignore"):
            if number not in but and not np.allclose(
                x.astype(complex), y.astype(complex), 1e-2, 1e-2, equal_nan=True
            ):
                return f"value {number} for the host is {x.tolist()}, wanted {y.tolist()}"[:300]
    return ""


def flat(values: Any) -> list[np.ndarray]:
    if isinstance(values, list | tuple):
        return [leaf for value in values for leaf in flat(value)]
    return [np.asarray(values)]


def shaky(case: Case, number: int, found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether all elements in which a result differs depend on rounding."""
    shape = array_leaves(case.module.entry.root.shape)[number]
    moved = np.zeros(wanted.shape, bool)
    if (
        "convolution" in case.opcodes and shape.dtype.is_inexact
    ):  # padding times an infinity may be 0 or NaN, as in XLA
        moved |= np.isnan(found) | np.isnan(wanted)
    products = case.opcodes & {"dot", "ragged-dot", "scaled-dot", "convolution"} or multiplies(case.module)
    # The parts of complex infinities depend on the formula. Whether partial sums of products reach infinities
    # of one or of both signs depends on the order; so does whether partial products reach zeros, which an
    # infinity among the factors makes NaN.
    if shape.dtype.is_inexact and (shape.dtype.is_complex or "fft" in case.opcodes or products):
        moved |= huge(found) & huge(wanted) & ~(np.isfinite(found) & np.isfinite(wanted))
    if "triangular-solve" in case.opcodes and shape.dtype.is_inexact:  # with an inverse, NaN * 0 is NaN
        moved |= np.isnan(found)
    moved |= agreement(shape, found, wanted)[0]
    try:
        return bool((moved | (case.unstable[number] & ~far(case, number, found, wanted))).all())
    except (AxlaError, MemoryError):
        return True


def huge(array: np.ndarray) -> np.ndarray:
    """A mask of the elements that are not finite or so large that a partial sum may have overflowed."""
    most = float(from_numpy(array.dtype).real.finfo.max)
    with np.errstate(all="ignore"):
        return ~(np.abs(array.astype(complex if array.dtype.kind == "c" else float)) < most / 16)


def multiplies(module: Module) -> bool:
    """Whether a reduction of the module multiplies floats."""
    calls = (i.op for s in module.computations for i in s.instructions if i.opcode in SUMS)
    inside = (i for op in calls for c in op.computations() for i in c.instructions)
    return any(isinstance(i.op, Multiply) and i.shape.dtype.is_inexact for i in inside)


def far(case: Case, number: int, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """A mask of the elements of a result whose difference cannot be explained by rounding: it is much larger
    than in all runs with other roundings. Without this bound, all results of short floats would pass, since
    any other rounding changes them.
    """
    others = [run[number] for run in case.shaken if run[number].shape == wanted.shape]
    if not others or wanted.dtype.kind not in "fcV" or from_numpy(wanted.dtype).is_integer:
        return np.zeros(wanted.shape, bool)
    kind = complex if wanted.dtype.kind == "c" else float
    most = float(from_numpy(wanted.dtype).real.finfo.max)

    def off(array: np.ndarray) -> np.ndarray:
        """The distances from the expected numbers; infinities count as the largest numbers."""
        parts = [np.clip(np.ravel(a.astype(kind)).view(float), -most, most) for a in (array, wanted)]
        return np.abs((parts[0] - parts[1]).view(kind))

    with np.errstate(all="ignore"):
        drift = np.max([off(array) for array in others], axis=0)
        return np.reshape(off(found) > DRIFTS * drift, wanted.shape)  # False if one of them is NaN


DRIFTS = 16
"""The factor by which a difference may exceed those of the runs with other roundings."""


def shows_signs(case: Case, number: int) -> bool:
    """Whether a result depends on the signs of NaNs."""
    for seed in range(2 + 8 * SHAKES):
        try:
            executable = axla.compile(turned(case.module, seed), backend="interpreter")
            other = case.run(executable, case.inputs)[0][number]
        except (AxlaError, MemoryError):
            continue
        if unlike(other, case.wanted[0][number]):
            return True
    return False


def turned(module: Module, seed: int) -> Module:
    """The module in which all NaNs that arithmetic computes are positive (seed 0) or negative (seed 1), or
    have random signs after some instructions (other seeds).
    """
    made, draw = clone_module(module), random.Random(seed)
    for computation in list(made.computations):
        for inst in post_order(computation):
            op, shape = inst.op, inst.shape
            moved = op.structural or op.moves or op.passes_on or op.computation_fields or op.free
            if moved or inst.opcode in _KEEPS_SIGNS or not isinstance(shape, Shape) or shape.is_dynamic:
                continue
            if shape.dtype in _WITH_SIGNS and (seed < 2 or draw.random() < 0.5):
                users = list(inst.users)
                number = computation.add(Constant.of(np.array(np.nan, shape.dtype.numpy), shape.dtype))
                nan = Broadcast(shape.logical, ())(number)
                if seed:
                    share = 1 if seed == 1 else draw.choice((0, 0.5, 1))
                    signs = np.random.default_rng(draw.randrange(1 << 32)).random(shape.dims) < share
                    nan = Select()(computation.add(Constant.of(signs, PRED)), Negate()(nan), nan)
                new = Select()(Compare(Direction.NE)(inst, inst), nan, inst)
                computation.set_shape(new, shape)
                computation.replace(inst, new, users)
    return made


_WITH_SIGNS = frozenset({F8E3M4, F8E4M3, F8E4M3FN, F8E5M2, F16, BF16, F32, F64})
"""The types that have NaNs of both signs."""
_KEEPS_SIGNS = frozenset({"constant", "parameter", "select", "abs", "bitcast-convert", "copy"})
