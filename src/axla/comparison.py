"""`check`: compares the results of a backend with those that the program states or the reference interpreter
returns.
"""

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

# The (relative, absolute) tolerance of each element type. The absolute tolerance is multiplied by the largest
# finite element of the output, if that is more than 1: where large terms cancel, the rest has the rounding
# error of those terms. f32 and f64 allow another order of summation, the narrow types one more rounding.
TOLERANCES: dict[str, tuple[float, float]] = {
    "f64": (1e-9, 1e-10),
    "f32": (1e-4, 1e-5),
    "f16": (5e-3, 2e-3),
    "bf16": (2e-2, 1e-2),
}
# For types of at most 8 bits: a unit in the last place of a 3-bit mantissa is an eighth.
NARROW = (0.13, 0.07)

SHAKES = 3  # the number of perturbed runs by which `unstable` finds unstable elements

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
    """The largest differences between results that agree. None stands for the tolerance of the element type
    (TOLERANCES). If `signed_zeros`, -0.0 differs from 0.0.
    """

    relative: float | None = None
    absolute: float | None = None
    signed_zeros: bool = False

    def of(self, dtype: str) -> tuple[float, float]:
        """The (relative, absolute) tolerance for an element type."""
        relative, absolute = TOLERANCES.get(dtype, NARROW)
        return (
            relative if self.relative is None else self.relative,
            absolute if self.absolute is None else self.absolute,
        )


DEFAULT_TOLERANCE = Tolerance()
BITS = Tolerance(0.0, 0.0, signed_zeros=True)
"""Bits must be equal, except that all NaNs are equal."""


@dataclass(frozen=True, slots=True)
class OutputReport:
    """The comparison of one output. `largest` is the largest absolute difference, `problem` says how the
    output differs ("" if it agrees), `unstable` is the number of elements that were left out.
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
    """The result of `check`: a report for each output leaf."""

    name: str
    backend: str
    reference: str
    outputs: tuple[OutputReport, ...]

    @property
    def ok(self) -> bool:
        """Whether all outputs agree within the tolerance."""
        return not any(output.problem for output in self.outputs)

    def raise_if_different(self) -> None:
        """Raises Mismatch for the first output that differs."""
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
    """Runs a program on a backend and checks its results.

    StableHLO with `check` operations contains the expected results. Any other program also runs on
    `reference`, with `inputs` or with random inputs of each of the `kinds` (KINDS), and all outputs are
    compared with `tolerance`. `arg_types` and `dim_args` are the sizes of a program with `?`, as in `parse`;
    `replicas` selects the participants, as in `compile`; `deadline` limits the time of each run, in seconds.
    `before_run(module)` is called before each run; it may fill the infeed.

    If `skip_unstable`, elements that `unstable` finds are left out of outputs that differ, and counted in the
    report.

    Raises Mismatch if results differ; otherwise the report has the largest differences.
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
    """Runs the functions of a StableHLO program that contain `check` operations. Each output of the report is
    one check. `deadline` is the limit of each run in seconds; the other arguments are those of `check`.
    `program` is taken apart and cannot be used afterwards.
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
    """Compiles and runs a module on a backend. Returns the arrays of the result, depth first, as NumPy
    arrays. `deadline` limits the time of the run, in seconds. With replicas="first" only the first
    participant runs. `before_run(module)` is called before the run; it may fill the infeed.
    """
    for shape in array_leaves(module.entry.root.shape):
        _check_array("result", shape)
    program = compile(module, backend=backend, replicas=replicas)
    before_run(module)
    return [np.asarray(a) for a in program.execute(inputs, deadline=deadline)]


def _check_array(what: str, shape: Shape) -> None:
    """Raises UnsupportedError if no NumPy array has this shape; `what` names the value in the message."""
    why = why_no_array(shape)
    if why is not None:
        raise UnsupportedError(f"{what} of {shape.to_string(layout=False)}: {why}")


def parameter_leaves(module: Module) -> list[tuple[str, Shape]]:
    """The name and shape of each array among the parameters, in order. Each array in a tuple has an entry of
    its own.
    """
    leaves: list[tuple[str, Shape]] = []
    for parameter in module.entry.parameters:
        arrays = array_leaves(parameter.shape)
        for number, shape in enumerate(arrays):
            leaves.append(
                (parameter.name if shape is parameter.shape else f"{parameter.name}.{number}", shape)
            )
    return leaves


def array_leaves(shape: AnyShape) -> list[Shape]:
    """The array shapes in a shape, depth first; tokens are left out."""
    return list(shape.arrays())


def random_inputs(module: Module, seed: int = 0, kind: str = "ordinary") -> list[np.ndarray]:
    """A random array for each parameter leaf, with numbers of a kind (KINDS). `seed`, `kind`, the number of
    the leaf and its shape determine the elements.
    """
    if seed < 0:
        raise InvalidArgument(f"random inputs: seed={seed}, wanted a number of at least 0")
    if kind not in KINDS:
        raise InvalidArgument(f"random inputs: there is no kind {kind!r}; {choices(KINDS, kind)}")
    verify_sizes(module)
    return [random_array(shape, seed, k, kind) for k, (_, shape) in enumerate(parameter_leaves(module))]


def random_array(shape: Shape, seed: int, leaf: int = 0, kind: str = "ordinary") -> np.ndarray:
    """An array of a shape with random numbers of a kind (KINDS). Ordinary floats are in [-2, 2), ordinary
    integers in [-2, 8) if signed, else in [0, 10), ordinary integer scalars in [0, 4). `leaf` is the number
    of the parameter leaf, for which other numbers are drawn than for other leaves.
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
    """Returns an array with random numbers of a kind, and a mask of the elements where they are to replace
    ordinary numbers; None if the kind has no numbers of this type.
    """
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
    """An array of small random numbers, which `seed` and the number `leaf` of a parameter leaf determine.
    Integer scalars are never negative, since they are mostly trip counts and offsets.
    """
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
    """Compares the outputs `found` of a backend with the outputs `wanted` of another one; `backend` and
    `reference` are their names, for the report. `moved` has a mask of unstable elements for each output: if
    an output differs, its masked elements are left out.
    """
    shapes = array_leaves(module.entry.root.shape)
    if not len(found) == len(wanted) == len(shapes):
        raise Mismatch(
            f"{module.name}: {len(shapes)} outputs are declared, "
            f"{backend} returns {len(found)}, {reference} {len(wanted)}"
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
    """Compares output `number` of a program with the wanted array. Integers and pred must be equal. NaN
    agrees with NaN, an infinity with itself; 0.0 and -0.0 agree unless the tolerance has `signed_zeros`.
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
    """Returns a mask of the elements in which `found` and `wanted`, arrays of a shape, agree within `share`
    of the tolerance, and the largest absolute difference of finite elements.
    """
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
    """Finds unstable elements: those that move by an eighth of the tolerance, or more, in a module with small
    changes. There sums, products and functions are off by some units in the last place, and sums have another
    order. A difference in an unstable element does not show an error. Returns a mask for each output. `run`
    returns the outputs of a module; `wanted` are the outputs of the unchanged module; `shakes` is the number
    of changed modules that are run.
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
    """Returns a mask of the elements in which `found` and `wanted` agree within the (relative, absolute)
    tolerance, and the largest absolute difference of finite elements. If `signed_zeros`, -0.0 differs from
    0.0.
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
