"""`check`: whether a backend gives what a program says, or else what the reference interpreter gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from axla.api import compile, contents, parse, stablehlo
from axla.backends.prepare import specialized
from axla.core.dataclass import dataclass
from axla.core.dtypes import DType, from_numpy
from axla.core.errors import InvalidArgument, Mismatch, UnsupportedError, choices
from axla.core.literal import why_no_array
from axla.core.shape import AnyShape, Shape
from axla.ir.graph import Module
from axla.ir.verify import verify_sizes

if TYPE_CHECKING:
    from axla.stablehlo.mlir import Source

# (relative, absolute) tolerance of an element type. The absolute one counts in units of the largest finite
# element of the output, and at least 1: what is left after large terms cancel has their error, not its own.
# f32 and f64 leave room for another order of summation, the narrow types for one rounding more or less.
TOLERANCES: dict[str, tuple[float, float]] = {
    "f64": (1e-9, 1e-10),
    "f32": (1e-4, 1e-5),
    "f16": (5e-3, 2e-3),
    "bf16": (2e-2, 1e-2),
}
NARROW = (0.13, 0.07)  # 8 bits and less: a unit in the last place of a 3-bit mantissa is an eighth

SHAKES = 3  # runs that tell what is unstable

KINDS = {
    "ordinary": "floats in [-2, 2), small integers",
    "special": "every second element NaN, an infinity, a zero of either sign, a denormal or a limit",
    "nan": "every fourth element NaN", "infinite": "every fourth an infinity",
    "zeros": "zeros of both signs", "denormal": "numbers below the smallest normal one",
    "limits": "the largest and smallest numbers of the type", "wide": "all magnitudes",
    "ties": "0 and 1 only", "ones": "1 only",
}  # fmt: skip
"""The kinds of random inputs. Integer scalars, mostly trip counts and offsets, are small in all of them."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far results may be apart. None: as TOLERANCES says of the element type. `signed_zeros`: -0.0 and
    0.0 differ.
    """

    relative: float | None = None
    absolute: float | None = None
    signed_zeros: bool = False

    def of(self, dtype: str) -> tuple[float, float]:
        """(relative, absolute) for an element type."""
        relative, absolute = TOLERANCES.get(dtype, NARROW)
        return (
            relative if self.relative is None else self.relative,
            absolute if self.absolute is None else self.absolute,
        )


DEFAULT_TOLERANCE = Tolerance()
BITS = Tolerance(0.0, 0.0, signed_zeros=True)
"""Equal bits; NaN is NaN."""


@dataclass(frozen=True, slots=True)
class OutputReport:
    """One output: its shape, the largest absolute difference found, and why it differs ("" if it agrees).
    `unstable` elements were left out.
    """

    number: int
    shape: Shape
    largest: float
    problem: str
    unstable: int = 0

    def __str__(self) -> str:
        name = f"output {self.number}, {self.shape.to_string(layout=False)}"
        left_out = f"; {self.unstable} of {self.shape.size} elements left out, as rounding moves them"
        what = self.problem or f"agrees, largest difference {self.largest:.3g}"
        return f"{name}: {what}{left_out if self.unstable else ''}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of `check`: one entry per output leaf."""

    name: str
    backend: str
    reference: str
    outputs: tuple[OutputReport, ...]

    @property
    def ok(self) -> bool:
        """Whether all outputs agree within the tolerance."""
        return not any(output.problem for output in self.outputs)

    def raise_if_different(self) -> None:
        """Mismatch for the first output that differs."""
        for output in self.outputs:
            if output.problem:
                raise Mismatch(f"{self.name}: {self.backend} and {self.reference} differ: {output}")

    def __str__(self) -> str:
        head = f"{self.name}: {self.backend} {'agrees' if self.ok else 'DISAGREES'} with {self.reference}"
        return "\n".join([head, *(f"  {output}" for output in self.outputs)])


def check(
    source: Module | str | bytes | os.PathLike[str], backend: str = "cpu", *, reference: str = "interpreter",
    inputs: Sequence[Any] | None = None, seed: int = 0, deadline: float | None = None,
    arg_types: Sequence[Any] | None = None, dim_args: Sequence[int] | None = None,
    replicas: str | None = None, before_run: Callable[[Module], object] = lambda _: None,
    kinds: Sequence[str] = ("ordinary",), tolerance: Tolerance = DEFAULT_TOLERANCE,
    skip_unstable: bool = False,
) -> CheckReport:  # fmt: skip
    """Runs a program on a backend. StableHLO with `check` operations says itself what it expects; other
    programs run on `reference` too, with `inputs` or random ones of each of the `kinds` (KINDS), and all
    outputs are compared, by `tolerance`. `arg_types` and `dim_args` give the sizes of a program with `?`, as
    in `parse`, `replicas` who runs, as in `compile`.
    `before_run(module)` is called before each run; it may fill the infeed.

    `skip_unstable`: of outputs that differ, elements that `unstable` names are left out, and counted in the
    report.

    Raises Mismatch where they differ; otherwise the report says how close they are.
    """
    if not isinstance(source, Module):
        content = contents(source)
        program = stablehlo(content)
        if program is not None:
            from axla.stablehlo.checks import has_checks
            from axla.stablehlo.modules import import_source

            if has_checks(program) and arg_types is None and dim_args is None:
                report = check_itself(program, backend, deadline, replicas, before_run)
                report.raise_if_different()
                return report
            source = import_source(program, arg_types=arg_types, dim_args=dim_args)
        else:
            source = parse(content, arg_types=arg_types, dim_args=dim_args)
    else:
        source = specialized(source, arg_types, dim_args)
    rows = [random_inputs(source, seed, kind) for kind in kinds] if inputs is None else [list(inputs)]
    outputs: tuple[OutputReport, ...] = ()
    for values in rows:
        run = partial(run_flat, inputs=values, deadline=deadline, replicas=replicas, before_run=before_run)
        found, wanted = run(source, backend=backend), run(source, backend=reference)
        report = compare(source, found, wanted, backend, reference, tolerance)
        if skip_unstable and not report.ok:
            moved = unstable(source, wanted, partial(run, backend=reference), tolerance)
            report = compare(source, found, wanted, backend, reference, tolerance, moved)
        report.raise_if_different()
        pairs = zip(outputs or report.outputs, report.outputs, strict=True)
        outputs = tuple(
            replace(max(pair, key=lambda output: output.largest), unstable=max(o.unstable for o in pair))
            for pair in pairs
        )
    return CheckReport(source.name, backend, reference, outputs)


def check_itself(
    program: Source, backend: str, deadline: float | None = None, replicas: str | None = None,
    before_run: Callable[[Module], object] = lambda _: None,
) -> CheckReport:  # fmt: skip
    """Runs the functions of a program that check something; an output of the report is a check.

    The program is taken apart by it.
    """
    from axla.custom.probes import record_probes
    from axla.stablehlo.checks import cases
    from axla.stablehlo.modules import import_source

    outputs: list[OutputReport] = []
    for part, case in ((p, c) for p in program.parts() for c in cases(p)):
        given, expected = (
            run_flat(import_source(part, name), (), "interpreter", deadline, "first") if name else []
            for name in (case.inputs, case.expected)
        )
        with record_probes() as probes:
            found = run_flat(import_source(part, case.body), given, backend, deadline, replicas, before_run)
        for check_ in case.checks:
            actual = found[check_.actual]
            wanted = expected[check_.expected] if check_.from_function else found[check_.expected]
            shape = Shape(from_numpy(actual.dtype), actual.shape)
            if check_.probe:
                seen = probes.values.get(check_.probe, [])[check_.iteration : check_.iteration + 1]
                missing = f"probe {check_.probe} was not reached {check_.iteration + 1} times"
                problem = check_.problem(actual, seen[0]) if seen else missing
            else:
                problem = check_.problem(actual, wanted)
            if problem:
                problem = f"{check_.kind}, {problem}"
            outputs.append(OutputReport(len(outputs), shape, 0.0, problem))
    name = program.module.attributes.get("sym_name")
    return CheckReport(name if isinstance(name, str) else "main", backend, "its checks", tuple(outputs))


def run_flat(
    module: Module, inputs: Sequence[Any], backend: str, deadline: float | None = None,
    replicas: str | None = None, before_run: Callable[[Module], object] = lambda _: None,
) -> list[np.ndarray]:  # fmt: skip
    """The result leaves of a module as NumPy arrays. `before_run` may feed what it reads while it runs."""
    for shape in array_leaves(module.entry.root.shape):
        _check_array("result", shape)
    program = compile(module, backend=backend, replicas=replicas)
    before_run(module)
    return [np.asarray(a) for a in program.execute(inputs, deadline=deadline)]


def _check_array(what: str, shape: Shape) -> None:
    """Raises UnsupportedError for values that cannot be shown or made here."""
    why = why_no_array(shape)
    if why is not None:
        raise UnsupportedError(f"{what} of {shape.to_string(layout=False)}: {why}")


def parameter_leaves(module: Module) -> list[tuple[str, Shape]]:
    """Name and shape of each array among the parameters, in order; tuples are taken apart."""
    leaves: list[tuple[str, Shape]] = []
    for parameter in module.entry.parameters:
        arrays = array_leaves(parameter.shape)
        for number, shape in enumerate(arrays):
            leaves.append(
                (parameter.name if shape is parameter.shape else f"{parameter.name}.{number}", shape)
            )
    return leaves


def array_leaves(shape: AnyShape) -> list[Shape]:
    """The arrays of a shape, depth first, without tokens."""
    return list(shape.arrays())


def random_inputs(module: Module, seed: int = 0, kind: str = "ordinary") -> list[np.ndarray]:
    """An array for each parameter leaf; the same for the same seed, kind, leaf number and shape."""
    if seed < 0:
        raise InvalidArgument(f"random inputs: seed={seed}, wanted a number of at least 0")
    if kind not in KINDS:
        raise InvalidArgument(f"random inputs: there is no kind {kind!r}; {choices(KINDS, kind)}")
    verify_sizes(module)
    return [random_array(shape, seed, k, kind) for k, (_, shape) in enumerate(parameter_leaves(module))]


def random_array(shape: Shape, seed: int, leaf: int = 0, kind: str = "ordinary") -> np.ndarray:
    """Numbers of a kind (KINDS). Ordinary ones: floats in [-2, 2), integers in [-2, 8) or [0, 10), scalars in
    [0, 4).
    """
    ordinary = _ordinary_array(shape, seed, leaf)
    if kind == "ordinary" or shape.dtype.is_pred or (shape.dtype.is_integer and not shape.dims):
        return ordinary
    rng = np.random.Generator(np.random.PCG64([seed, leaf, 1 + list(KINDS).index(kind)]))
    if shape.dtype.is_complex:
        pick = _special(kind, shape.dtype.real, shape.dims, rng)
        found = ordinary.copy()
        if pick is not None:
            np.real(found)[...] = np.where(pick[1], pick[0], np.real(ordinary))
        return found
    pick = _special(kind, shape.dtype, shape.dims, rng)
    return ordinary if pick is None else np.where(pick[1], pick[0], ordinary).astype(shape.dtype.numpy)


def _special(
    kind: str, dtype: DType, dims: tuple[int, ...], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Numbers of a kind, and where they take the place of ordinary ones; None where the type has none."""
    if dtype.is_integer:
        half = 1 << (dtype.bits - 1)
        ends = [-half, half - 1] if dtype.is_signed else [0, 2 * half - 1]
        integers = {
            "special": [*ends, 0, 1], "limits": ends, "zeros": [0], "ties": [0, 1], "ones": [1], "wide": ends,
        }.get(kind)  # fmt: skip
        if integers is None:
            return None
        numbers = np.array(integers, dtype.numpy)
    elif kind == "wide":
        info = ml_dtypes.finfo(dtype.numpy)
        low, high = np.log2(float(info.smallest_normal)), np.log2(float(info.max))
        values = np.exp2(rng.uniform(low, high, dims)) * rng.choice([-1.0, 1.0], dims)
        return values.astype(dtype.numpy), np.ones(dims, bool)
    else:
        info = ml_dtypes.finfo(dtype.numpy)
        least, normal, most = (
            float(x) for x in (info.smallest_subnormal, info.smallest_normal, info.max)
        )  # fmt: skip
        below = [least, -least, normal / 2, -normal / 2]
        numbers = np.array({
            "special": [np.nan, np.inf, -np.inf, 0.0, -0.0, *below, normal, most, -most, 1.0],
            "nan": [np.nan], "infinite": [np.inf, -np.inf], "zeros": [0.0, -0.0], "denormal": below,
            "limits": [most, -most, normal, -normal], "ties": [0.0, 1.0], "ones": [1.0],
        }[kind]).astype(dtype.numpy)  # fmt: skip
    every = {"special": 2, "nan": 4, "infinite": 4}.get(kind, 1)
    where = np.arange(prod(dims)).reshape(dims) % every == 0
    return numbers[rng.integers(0, len(numbers), dims)], where


def _ordinary_array(shape: Shape, seed: int, leaf: int) -> np.ndarray:
    """Small numbers. Integer scalars are mostly trip counts and offsets, hence never negative."""
    _check_array("random input", shape)
    if shape.byte_size > 1 << 33:
        raise UnsupportedError(
            f"random input of {shape.to_string(layout=False)}: {shape.byte_size} bytes are too many"
        )
    rng = np.random.Generator(np.random.PCG64([seed, leaf]))
    dtype, dims = shape.dtype, shape.dims
    if dtype.is_pred:
        return rng.random(dims) < 0.5
    if dtype.is_integer:
        low, high = (-2, 8) if dtype.is_signed else (0, 10)
        if not dims:
            low, high = 0, 4
        half = 1 << (dtype.bits - 1)
        smallest, largest = (-half, half) if dtype.is_signed else (0, 2 * half)
        return rng.integers(max(low, smallest), min(high, largest), dims).astype(dtype.numpy)
    values = rng.uniform(-2, 2, dims)
    if dtype.is_complex:
        return (values + 1j * rng.uniform(-2, 2, dims)).astype(dtype.numpy)
    if dtype.name == "f8e8m0fnu":  # powers of two only
        values = np.exp2(np.floor(values))
    return np.asarray(values).astype(dtype.numpy)


def compare(
    module: Module, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], backend: str, reference: str,
    tolerance: Tolerance = DEFAULT_TOLERANCE, moved: Sequence[np.ndarray] | None = None,
) -> CheckReport:  # fmt: skip
    """The report on the outputs of two backends; of outputs that differ, `moved` elements are left out."""
    shapes = array_leaves(module.entry.root.shape)
    if not len(found) == len(wanted) == len(shapes):
        raise Mismatch(
            f"{module.name}: {len(shapes)} outputs are declared, "
            f"{backend} gives {len(found)}, {reference} {len(wanted)}"
        )
    outputs = [
        compare_output(k, shape, a, e, tolerance)
        for k, (shape, a, e) in enumerate(zip(shapes, found, wanted, strict=True))
    ]
    for k, mask in enumerate(moved or ()):
        if outputs[k].problem and found[k].shape == wanted[k].shape:
            kept = np.where(mask, wanted[k], found[k])
            left = compare_output(k, shapes[k], kept, wanted[k], tolerance)
            outputs[k] = replace(left, unstable=int(mask.sum()))
    return CheckReport(module.name, backend, reference, tuple(outputs))


def compare_output(
    number: int, shape: Shape, found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance = DEFAULT_TOLERANCE
) -> OutputReport:
    """Integers and pred must be equal. NaN agrees with NaN, an infinity with itself; zeros of both signs
    agree, unless the tolerance says otherwise.
    """
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        problem = f"found {found.dtype}{list(found.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
        return OutputReport(number, shape, 0.0, problem)
    same, largest = agreement(shape, found, wanted, tolerance)
    if same.all():
        return OutputReport(number, shape, largest, "")
    at = tuple(map(int, np.argwhere(~same)[0]))
    counted = f"{int((~same).sum())} of {same.size} elements differ"
    problem = f"{counted}, first at {list(at)}: found {found[at]}, wanted {wanted[at]}"
    return OutputReport(number, shape, largest, problem)


def agreement(
    shape: Shape, found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance = DEFAULT_TOLERANCE,
    share: float = 1.0,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Which elements agree within a share of the tolerance, and the largest difference of finite ones."""
    dtype = shape.dtype
    with np.errstate(all="ignore"):
        if not dtype.is_inexact:
            gaps = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
            return np.asarray(found == wanted), float(gaps.max(initial=0.0))
        parts = [(found, wanted)]
        if dtype.is_complex:
            parts = [(part(found), part(wanted)) for part in (np.real, np.imag)]
        relative, absolute = tolerance.of(dtype.real.name)
        near, signs = (share * relative, share * absolute), tolerance.signed_zeros
        checked = [_close(a.astype(np.float64), e.astype(np.float64), near, signs) for a, e in parts]
        return np.logical_and.reduce([same for same, _ in checked]), max(largest for _, largest in checked)


def unstable(
    module: Module, wanted: Sequence[np.ndarray], run: Callable[[Module], Sequence[np.ndarray]],
    tolerance: Tolerance = DEFAULT_TOLERANCE, shakes: int = SHAKES,
) -> list[np.ndarray]:  # fmt: skip
    """Which elements of each output say nothing: they move by an eighth of the tolerance, or more, when sums,
    products and functions are off by some units in the last place, and sums in another order. `run` gives the
    outputs of a module.
    """
    from axla.analysis.rounding import shaken

    shapes = array_leaves(module.entry.root.shape)
    masks = [np.zeros(array.shape, bool) for array in wanted]
    for seed in range(shakes):
        for mask, shape, other, right in zip(masks, shapes, run(shaken(module, seed)), wanted, strict=True):
            if other.shape != right.shape:
                mask[...] = True
            else:
                mask |= ~agreement(shape, other, right, tolerance, 1 / 8)[0]
    return masks


def _close(
    found: np.ndarray, wanted: np.ndarray, tolerance: tuple[float, float], signed_zeros: bool
) -> tuple[np.ndarray, float]:
    """Which elements agree within (relative, absolute) tolerances, and the largest difference of finite
    ones.
    """
    relative, absolute = tolerance
    finite = np.isfinite(wanted)
    scale = max(1.0, float(np.abs(wanted[finite]).max(initial=0.0)))
    gaps = np.abs(found - wanted)
    near = np.isfinite(found) & finite & (gaps <= absolute * scale + relative * np.abs(wanted))
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted)) | near
    if signed_zeros:
        same &= (found != 0) | (wanted != 0) | (np.signbit(found) == np.signbit(wanted))
    return np.asarray(same), float(gaps[np.isfinite(found) & finite].max(initial=0.0))
