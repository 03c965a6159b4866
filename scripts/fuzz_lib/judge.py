"""What makes two results the same: the tolerances of the conformance code, bits where nothing is rounded.

A difference counts only where the program is stable: the interpreter runs it again with the approximations in
it shaken by some units in the last place, and elements that this changes by an eighth of the tolerance say
nothing. Nor do results that depend on the signs of NaN that arithmetic gives: -1 * x may be -x.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import axla
from axla.comparison import BITS, DEFAULT_TOLERANCE, array_leaves, compare_output
from axla.core.dtypes import BF16, F16, F32, F64, from_numpy
from axla.core.errors import AxlaError
from axla.core.shape import Shape
from axla.hlo import Broadcast, Compare, Multiply, Negate, Reduce, Reverse, Select
from axla.ir.attributes import Direction
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.structure import Constant
from axla.ir.traverse import post_order

from .cases import Case, Found, is_rough_op, rough_leaves

SHAKES = 3
INSIDE = frozenset({"while", "conditional", "call", "fusion", "map", "async-start", "async-done"})


def differs(case: Case, found: Found, wanted: Found | None = None, *, bits: bool = False) -> str:
    """How a run differs from what is wanted, or nothing. `bits`: in any bit, NaN being NaN."""
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
    return heard_differently(found[1], wanted[1])


def unlike(found: np.ndarray, wanted: np.ndarray) -> str:
    """The first place where bits differ; NaN is NaN."""
    shape = Shape(from_numpy(wanted.dtype), wanted.shape)
    problem = compare_output(0, shape, found, wanted, BITS).problem
    return f"in bits, {problem}" if problem else ""


def heard_differently(found: list[Any], wanted: list[Any]) -> str:
    """How what the host got differs."""
    a, e = flat(found), flat(wanted)
    if len(a) != len(e):
        return f"the host got {len(a)} values, wanted {len(e)}"
    for number, (x, y) in enumerate(zip(a, e, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"value {number} for the host is {x.dtype}{list(x.shape)}, wanted {y.dtype}{list(y.shape)}"
        with np.errstate(all="ignore"):
            if not np.allclose(x.astype(complex), y.astype(complex), 1e-2, 1e-2, equal_nan=True):
                return f"value {number} for the host is {x.tolist()}, wanted {y.tolist()}"[:300]
    return ""


def flat(values: Any) -> list[np.ndarray]:
    if isinstance(values, list | tuple):
        return [leaf for value in values for leaf in flat(value)]
    return [np.asarray(values)]


def shaky(case: Case, number: int, found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether all elements in which a result differs are at the mercy of rounding."""
    shape = array_leaves(case.module.entry.root.shape)[number]
    moved = np.zeros(wanted.shape, bool)
    if (
        "convolution" in case.opcodes and shape.dtype.is_inexact
    ):  # of padding times an infinity XLA, too, makes either
        moved |= np.isnan(found) | np.isnan(wanted)
    if shape.dtype.is_complex:  # parts of complex infinities depend on the order of sums and on the formula
        moved |= ~np.isfinite(found) & ~np.isfinite(wanted)
    for shake in range(SHAKES):
        try:
            other = case.run(axla.compile(shaken(case.module, shake), backend="interpreter"), case.inputs)[0][
                number
            ]
        except (AxlaError, MemoryError):
            return True
        moved |= ~near(shape, far(other, wanted), wanted)
    return bool((moved | near(shape, found, wanted)).all())


def shows_signs(case: Case, number: int) -> bool:
    """Whether a result depends on the signs of NaN."""
    for seed in range(1 + SHAKES):
        try:
            executable = axla.compile(turned(case.module, seed), backend="interpreter")
            other = case.run(executable, case.inputs)[0][number]
        except (AxlaError, MemoryError):
            continue
        if unlike(other, case.wanted[0][number]):
            return True
    return False


def turned(module: Module, seed: int) -> Module:
    """The module with the other sign for NaN that arithmetic gives: for all, or behind some instructions."""
    made, draw = clone_module(module), random.Random(seed)
    for computation in list(made.computations):
        for inst in post_order(computation):
            op, shape = inst.op, inst.shape
            moved = op.structural or op.moves or op.passes_on or op.computation_fields or op.free
            if moved or inst.opcode in _KEEPS_SIGNS or not isinstance(shape, Shape) or shape.is_dynamic:
                continue
            if shape.dtype in (F16, BF16, F32, F64) and (not seed or draw.random() < 0.5):
                users = list(inst.users)
                is_nan = Compare(Direction.NE)(inst, inst)
                new = Select()(is_nan, Negate()(inst), inst)
                computation.set_shape(new, shape)
                computation.replace(inst, new, users)
    return made


_KEEPS_SIGNS = frozenset({"constant", "parameter", "select", "abs", "bitcast-convert", "copy"})


def far(other: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Eight times as far off."""
    if wanted.dtype.kind not in "fcV":
        return other
    with np.errstate(all="ignore"):
        kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
        a, e = other.astype(kind), wanted.astype(kind)
        return np.where(np.isfinite(a) & np.isfinite(e), e + 8 * (a - e), a).astype(wanted.dtype)


def near(shape: Shape, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which elements agree within the tolerance of the type, as `compare_output` has it."""
    if not shape.dtype.is_inexact:
        return np.asarray(found == wanted)
    relative, absolute = DEFAULT_TOLERANCE.of(shape.dtype.real.name)
    same = np.ones(wanted.shape, bool)
    for part in (np.real, np.imag) if shape.dtype.is_complex else (np.asarray,):
        with np.errstate(all="ignore"):
            a, e = part(found).astype(np.float64), part(wanted).astype(np.float64)
            finite = np.isfinite(e)
            scale = max(1.0, float(np.abs(e[finite]).max(initial=0.0)))
            close = np.isfinite(a) & finite & (np.abs(a - e) <= absolute * scale + relative * np.abs(e))
            same &= (a == e) | (np.isnan(a) & np.isnan(e)) | close
    return same


def shaken(module: Module, seed: int) -> Module:
    """The module with what is approximate in it, and what is summed, multiplied by numbers near 1; of odd
    seeds with sums in the other order, too: one may overflow where the other does not.
    """
    made, draw = clone_module(module), random.Random(seed)
    rng = np.random.default_rng(seed)
    for computation in list(made.computations):
        for inst in post_order(computation):
            if inst.opcode in INSIDE or not is_rough_op(inst):
                continue
            if isinstance(inst.op, Reduce) and len(inst.operands) == 2 and seed % 2:
                computation.set_operand(inst, 0, Reverse(inst.op.dimensions)(inst.operands[0]))
            for n, operand in enumerate(inst.operands if inst.opcode not in _ELEMENTWISE else ()):
                if (factor := _factor(computation, operand, rng, draw)) is not None:
                    product = computation.add(Multiply(), [operand, factor], operand.shape)
                    computation.set_operand(inst, n, product)
            factor = _factor(computation, inst, rng, draw)
            if factor is not None:
                users = list(inst.users)
                product = computation.add(Multiply(), [inst, factor], inst.shape)
                for user in users:
                    for n, operand in enumerate(user.operands):
                        if operand is inst:
                            computation.set_operand(user, n, product)
                if computation.root is inst:
                    computation.set_root(product)
    return made


_ELEMENTWISE = frozenset({"multiply", "divide", "custom-call"})


def _factor(computation: Any, value: Any, rng: Any, draw: random.Random) -> Any:
    """Numbers beside 1, of the shape of a value of floats; None for others."""
    shape = value.shape
    if not isinstance(shape, Shape) or not shape.dtype.is_inexact or shape.is_dynamic:
        return None
    real = shape.dtype.real
    eps, near = float(real.finfo.eps), (-3, 4) if real.bits >= 16 else (0, 2)
    if shape.size <= 4096:
        steps = 1 + eps * rng.integers(*near, shape.dims)
        return computation.add(Constant.of(steps.astype(shape.dtype.numpy), shape.dtype), (), shape)
    one = computation.add(
        Constant.of(np.asarray(1 + eps * draw.choice((near[0], 1))).astype(shape.dtype.numpy), shape.dtype)
    )
    return computation.add(Broadcast(shape, ()), [one], shape)
