"""Collectives in all their forms, as programs of several participants, for scripts/sweep_collectives.

A case is one collective. The cases for the same participants are put into one program, whose results are
compared on two backends, leaf by leaf and bit by bit.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import axla
from axla.core import dtypes
from axla.core.dtypes import DType
from axla.core.errors import AxlaError

GRIDS = {2: [(2, 1), (1, 2)], 3: [(3, 1), (1, 3)], 4: [(4, 1), (2, 2), (1, 4)],
         8: [(8, 1), (4, 2), (2, 4), (1, 8)]}  # fmt: skip
"""The (replicas, partitions) for each number of participants."""
BLOCK = 70_001
"""A number of elements that is larger than a block of any kernel."""


@dataclass(frozen=True)
class Case:
    """A collective. `lines` has its instructions, with @0, @1... for its parameters and @r0, @r1... for the
    results to compare.
    """

    name: str
    grid: tuple[int, int]
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]
    computations: tuple[str, ...] = ()
    bounds: tuple[int, ...] = field(default=())
    """For each parameter, the bound that its integers are below; 0 for any value."""
    folds: bool = False


def program(cases: Sequence[Case]) -> str:
    """The text of a program with these cases, which are all for the same participants."""
    replicas, partitions = cases[0].grid
    computations = dict.fromkeys(text for case in cases for text in case.computations)
    numbers, lines, leaves = itertools.count(), [], []
    for number, case in enumerate(cases):
        names = []
        for kind in case.parameters:
            n = next(numbers)
            names.append(f"p{n}")
            lines.append(f"p{n} = {kind} parameter({n})")
        results = [f"r{number}_{n}" for n in range(len(case.results))]
        named = partial(_named, number=number, parameters=names)
        lines += [re.sub(r"@(r?)(\d*)", named, line) for line in case.lines]
        leaves += zip(case.results, results, strict=True)
    kinds, names = ", ".join(kind for kind, _ in leaves), ", ".join(name for _, name in leaves)
    lines.append(f"ROOT all = ({kinds}) tuple({names})")
    head = f"HloModule m, replica_count={replicas}, num_partitions={partitions}"
    return "\n".join([head, *computations, "ENTRY e {", *lines, "}"])


def _named(found: re.Match[str], number: int, parameters: Sequence[str]) -> str:
    what, place = found.groups()
    return f"r{number}_{place}" if what else parameters[int(place)]


def inputs(cases: Sequence[Case], seed: int) -> list[list[np.ndarray]]:
    """Random arguments for each participant."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(math.prod(cases[0].grid)):
        row = []
        for case in cases:
            bounds = case.bounds or (0,) * len(case.parameters)
            row += [values(rng, k, b) for k, b in zip(case.parameters, bounds, strict=True)]
        rows.append(row)
    return rows


def values(rng: np.random.Generator, kind: str, bound: int = 0) -> np.ndarray:
    """A random array of a type such as f32[2,3]. A third of the floats has random bits, a third is small; the
    others are special values.
    """
    name, _, rest = kind.partition("[")
    dims = tuple(int(d) for d in rest.partition("]")[0].split(",") if d)
    dtype = dtypes.dtype(name)
    if bound:
        return rng.integers(0, bound, dims).astype(dtype.numpy)
    if dtype.is_pred or dtype.is_integer:
        low, high = (0, 2) if dtype.is_pred else (0, 256) if dtype.bits >= 8 else (0, 1 << dtype.bits)
        bits = rng.integers(low, high, (*dims, dtype.itemsize), dtype=np.uint8)
        if dtype.bits < 8 and dtype.is_signed:
            return (bits[..., 0].astype(np.int8) - (1 << dtype.bits >> 1)).astype(dtype.numpy)
        return np.ascontiguousarray(bits).view(dtype.numpy)[..., 0]
    if dtype.is_complex:
        real, imaginary = (values(rng, kind.replace(name, dtype.real.name, 1)) for _ in range(2))
        found = np.empty(dims, dtype.numpy)
        found.real, found.imag = real, imaginary
        return found
    return _floats(rng, dtype, dims)


def _floats(rng: np.random.Generator, dtype: DType, dims: tuple[int, ...]) -> np.ndarray:
    raw = rng.integers(0, 256, (*dims, dtype.itemsize), dtype=np.uint8)
    if dtype.bits < 8:
        raw &= (1 << dtype.bits) - 1
    raw = raw.view(dtype.numpy)[..., 0]
    with np.errstate(all="ignore"):
        small = (rng.normal(size=dims) * 10.0 ** rng.integers(-2, 3, dims)).astype(dtype.numpy)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]).astype(dtype.numpy)
    picked = special[rng.integers(0, len(special), dims)]
    which = rng.integers(0, 8, dims)
    return np.where(which < 3, raw, np.where(which < 6, small, picked)).astype(dtype.numpy)


# Computations


def reducers(kind: str) -> dict[str, str]:
    """Computations that reduce an element type, by name: the ones that XLA knows, one whose result depends on
    the order, and one that computes in f32.
    """
    dtype = dtypes.dtype(kind)
    ops = ["maximum", "minimum"] if not dtype.is_complex else []
    ops += ["add", "multiply"] if not dtype.is_pred else []
    ops += ["and", "or", "xor"] if dtype.is_integer or dtype.is_pred else []
    found = {op: _reducer(kind, op, f"ROOT c = {kind}[] {op}(a, b)") for op in ops}
    if dtype.is_pred:
        found["own"] = _reducer(kind, "own", "n = pred[] not(b)\n ROOT c = pred[] and(a, n)")
    else:
        found["own"] = _reducer(kind, "own", f"n = {kind}[] add(a, a)\n ROOT c = {kind}[] subtract(n, b)")
    if dtype.is_float and dtype.bits < 32:
        lines = "x = f32[] convert(a)\n y = f32[] convert(b)\n z = f32[] add(x, y)"
        found["wide"] = _reducer(kind, "wide", f"{lines}\n ROOT c = {kind}[] convert(z)")
    return found


def _reducer(kind: str, name: str, lines: str) -> str:
    parameters = "".join(f" {n} = {kind}[] parameter({k})\n" for k, n in enumerate("ab"))
    return f"{name}_{kind} {{\n{parameters} {lines}\n}}"


def _variadic(kind: str) -> str:
    """A reducer of pairs (value, index): it returns the pair with the larger value, the first one if they are
    equal.
    """
    given = [f"{kind}[]", "s32[]"] * 2
    parameters = "\n".join(f" {n} = {given[k]} parameter({k})" for k, n in enumerate("aibj"))
    if dtypes.dtype(kind).is_complex:
        lines = f" x = {kind}[] subtract(a, b)\n k = s32[] subtract(i, j)"
    else:
        lines = f" c = pred[] compare(a, b), direction=GE\n x = {kind}[] select(c, a, b)\n"
        lines += " k = s32[] select(c, i, j)"
    return f"both_{kind} {{\n{parameters}\n{lines}\n ROOT t = ({kind}[], s32[]) tuple(x, k)\n}}"


# Groups


@dataclass(frozen=True)
class Groups:
    """Replica groups: the `text` of the attributes, the number of participants of a group (0: it differs),
    and the mode.
    """

    text: str
    size: int
    mode: str = "replica"


def groups(rng: np.random.Generator, grid: tuple[int, int], mode: str) -> Iterator[Groups]:
    """Yields groups of a mode that contain all participants: lists in random order, iota, and axes of a
    mesh.
    """
    replicas, partitions = grid
    count = {"replica": replicas, "partition": partitions, "across": replicas}.get(
        mode, replicas * partitions
    )
    channel = {"replica": "", "partition": ", channel_id=7", "across": ", channel_id=7"}.get(
        mode, ", channel_id=7, use_global_device_ids=true"
    )
    each = partitions if mode == "across" else 1

    def made(text: str, size: int) -> Groups:
        return Groups(f", replica_groups={text}{channel}", size * each, mode)

    if mode != "global":
        yield made("{}", count)
    for size in range(1, count + 1):
        if count % size:
            continue
        order = rng.permutation(count).reshape(-1, size).tolist()
        yield made("{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in order) + "}", size)
        yield made(f"[{count // size},{size}]<=[{count}]", size)
    for a in (a for a in range(2, count) if count % a == 0):
        b = count // a
        yield made(f"[{b},{a}]<=[{a},{b}]T(1,0)", a)
        yield made(f"mesh['x'={a},'y'={b}] {{'x'}}", a)
        yield made(f"mesh['x'={a},'y'={b}] {{'y','x'}}", count)
        yield made(f"mesh['x'={a},'y'={b}], device_ids=([{b},{a}]T(1,0)) {{'x'}}", a)
        ids = ",".join(map(str, rng.permutation(count)))
        yield made(f"mesh['x'={a},'y'={b}], device_ids=({ids}) {{'y'}}", b)
    if count % 4 == 0:
        yield made(f"mesh['x'={count}] {{'x':(1){count // 2}}}", count // 2)
        yield made(f"mesh['x'={count}] {{'x':(2){count // 2}}}", count // 2)


def uneven(rng: np.random.Generator, grid: tuple[int, int]) -> Iterator[Groups]:
    """Yields groups of replicas of unequal sizes, which an all-reduce may have."""
    order = rng.permutation(grid[0]).tolist()
    for cut in range(1, grid[0]):
        parts = [order[:cut], order[cut:]]
        text = ",".join("{" + ",".join(map(str, part)) + "}" for part in parts)
        yield Groups(f", replica_groups={{{text}}}", 0)


def modes(opcode: str) -> tuple[str, ...]:
    """The modes of a collective. Those without use_global_device_ids have a channel for partitions."""
    two = (
        "all-to-all",
        "ragged-all-to-all",
        "collective-permute",
        "collective-broadcast",
        "collective-reduce",
    )
    return ("replica", "partition") if opcode in two else ("replica", "across", "global")


def some_in_none(rng: np.random.Generator, grid: tuple[int, int], mode: str) -> Iterator[Groups]:
    """Yields groups that do not contain all participants."""
    count = grid[0] if mode == "replica" else grid[1]
    for size in range(1, count + 1):
        named = rng.permutation(count)[:size].tolist()
        text = ",".join(map(str, named))
        yield Groups(f", replica_groups={{{{{text}}}}}{', channel_id=7' * (mode == 'partition')}", size, mode)


# Cases

SHAPES = ("[]", "[0,3]", "[1]", "[7,5]", "[5,7]{0,1}", "[2,3,5]{0,2,1}", f"[{BLOCK}]")


def cases(kind: str, grid: tuple[int, int], seed: int = 1) -> list[Case]:
    """All collectives of an element type on a grid of participants."""
    rng = np.random.default_rng(seed)
    found: list[Case] = []
    for make in (all_reduces, reduce_scatters, gathers, exchanges, permutes, rooted, ragged):
        found += make(rng, kind, grid)
    return found


def _groups(rng: np.random.Generator, opcode: str, grid: tuple[int, int]) -> list[Groups]:
    return [g for mode in modes(opcode) for g in groups(rng, grid, mode)]


def all_reduces(rng: np.random.Generator, kind: str, grid: tuple[int, int]) -> Iterator[Case]:
    found, known = [*_groups(rng, "all-reduce", grid), *uneven(rng, grid)], reducers(kind)
    names, shapes = itertools.cycle(known), itertools.cycle(SHAPES)
    for number, group in enumerate(found):
        reducer = next(names)
        for shape in (next(shapes), f"[{rng.integers(2, 40)}]"):
            array = f"{kind}{shape}"
            begun = "-start" if number % 3 == 0 else ""
            lines = [f"@r0{'s' * bool(begun)} = {array} all-reduce{begun}(@0){group.text}, "
                     f"to_apply={reducer}_{kind}"]  # fmt: skip
            lines += [f"@r0 = {array} all-reduce-done(@r0s)"] if begun else []
            yield Case(f"all-reduce{begun} {array}{group.text} {reducer}", grid, (array,), tuple(lines),
                       (array,), (known[reducer],), folds=True)  # fmt: skip
    for reducer in known:
        array = f"{kind}[33]"
        line = f"@r0 = {array} all-reduce(@0), to_apply={reducer}_{kind}"
        yield Case(f"all-reduce {reducer} {kind}", grid, (array,), (line,), (array,), (known[reducer],),
                   folds=True)  # fmt: skip
    name, group = next(names), found[int(rng.integers(len(found)))]
    several = (f"{kind}[5,3]", f"{kind}[]", f"{kind}[9]")
    yield _tuple_of("all-reduce", grid, several, several, f"{group.text}, to_apply={name}_{kind}",
                    (known[name],))  # fmt: skip
    for size in ("[6,5]", f"[{BLOCK}]"):
        both = (f"{kind}{size}", f"s32{size}")
        yield _tuple_of("all-reduce", grid, both, both, f"{group.text}, to_apply=both_{kind}",
                        (_variadic(kind),))  # fmt: skip


def _tuple_of(
    opcode: str, grid: tuple[int, int], operands: tuple[str, ...], results: tuple[str, ...], rest: str,
    computations: tuple[str, ...] = (),
) -> Case:  # fmt: skip
    """A collective with several operands and results."""
    names = ", ".join(f"@{n}" for n in range(len(operands)))
    lines = [f"@r = ({', '.join(results)}) {opcode}({names}){rest}"]
    lines += [f"@r{n} = {kind} get-tuple-element(@r), index={n}" for n, kind in enumerate(results)]
    name = f"{opcode} ({', '.join(operands)}){rest}"
    return Case(name, grid, operands, tuple(lines), results, computations, folds=bool(computations))


def _resized(kind: str, dims: Sequence[int], at: int, factor: int, layout: str = "") -> str:
    sizes = [d * factor if n == at else d for n, d in enumerate(dims)]
    return f"{kind}[{','.join(map(str, sizes))}]{layout}"


PLACES = (((3, 5), 0, ""), ((3, 5), 1, ""), ((5, 3), 0, "{0,1}"), ((2, 3, 5), 1, "{0,2,1}"), ((0, 3), 1, ""),
          ((BLOCK // 3,), 0, ""), ((2, 3, 5), 2, "{2,0,1}"))  # fmt: skip
"""Rows: sizes of a part, the dimension that grows, a layout."""


def reduce_scatters(rng: np.random.Generator, kind: str, grid: tuple[int, int]) -> Iterator[Case]:
    known = reducers(kind)
    names, places = itertools.cycle(known), itertools.cycle(PLACES)
    for group in _groups(rng, "reduce-scatter", grid):
        name, (dims, at, layout) = next(names), next(places)
        given, part = (_resized(kind, dims, at, factor, layout) for factor in (group.size, 1))
        rest = f"{group.text}, dimensions={{{at}}}, to_apply={name}_{kind}"
        line = f"@r0 = {part} reduce-scatter(@0){rest}"
        yield Case(f"reduce-scatter {given}{rest}", grid, (given,), (line,), (part,), (known[name],),
                   folds=True)  # fmt: skip
    name, n = next(names), grid[0]
    given, parts = ((_resized(kind, (2, 3), 1, k), _resized(kind, (5, 2), 1, k)) for k in (n, 1))
    yield _tuple_of("reduce-scatter", grid, given, parts, f", dimensions={{1}}, to_apply={name}_{kind}",
                    (known[name],))  # fmt: skip


def gathers(rng: np.random.Generator, kind: str, grid: tuple[int, int]) -> Iterator[Case]:
    places = itertools.cycle(PLACES)
    for number, group in enumerate(_groups(rng, "all-gather", grid)):
        dims, at, layout = next(places)
        given, whole = (_resized(kind, dims, at, factor, layout) for factor in (1, group.size))
        rest = f"{group.text}, dimensions={{{at}}}"
        lines = [f"@r0 = {whole} all-gather(@0){rest}"]
        if number % 3 == 0:
            lines = [f"@r0s = ({given}, {whole}) all-gather-start(@0){rest}",
                     f"@r0 = {whole} all-gather-done(@r0s)"]  # fmt: skip
        yield Case(f"all-gather {given}{rest}", grid, (given,), tuple(lines), (whole,))
    given, whole = ((_resized(kind, (2, 3), 0, k), _resized(kind, (5, 2), 0, k)) for k in (1, grid[0]))
    yield _tuple_of("all-gather", grid, given, whole, ", dimensions={0}")


def exchanges(rng: np.random.Generator, kind: str, grid: tuple[int, int]) -> Iterator[Case]:
    places = itertools.cycle(PLACES)
    for group in _groups(rng, "all-to-all", grid):
        dims, at, layout = next(places)
        array = _resized(kind, dims, at, group.size, layout)
        rest = f"{group.text}, dimensions={{{at}}}"
        yield Case(f"all-to-all {array}{rest}", grid, (array,),
                   (f"@r0 = {array} all-to-all(@0){rest}",), (array,))  # fmt: skip
        arrays = (f"{kind}[3,2]",) * group.size
        if group.size > 1:
            yield _tuple_of("all-to-all", grid, arrays, arrays, group.text)


def permutes(rng: np.random.Generator, kind: str, grid: tuple[int, int]) -> Iterator[Case]:
    shapes = itertools.cycle(SHAPES)
    for mode in ("replica", "partition"):
        count = grid[0] if mode == "replica" else grid[1]
        channel = ", channel_id=7" * (mode == "partition")
        for number, size in enumerate((0, 1, count // 2, count - 1, count)):
            sources, targets = (rng.permutation(count)[:size].tolist() for _ in range(2))
            pairs = ",".join(f"{{{a},{b}}}" for a, b in zip(sources, targets, strict=True))
            rest, array = f", source_target_pairs={{{pairs}}}{channel}", f"{kind}{next(shapes)}"
            lines = [f"@r0 = {array} collective-permute(@0){rest}"]
            if number % 2:
                lines = [f"@r0s = ({array}, {array}) collective-permute-start(@0){rest}",
                         f"@r0 = {array} collective-permute-done(@r0s)"]  # fmt: skip
            yield Case(f"collective-permute {array}{rest}", grid, (array,), tuple(lines), (array,))
            both = (f"{kind}[4]", f"{kind}[2,3]{{0,1}}")
            yield _tuple_of("collective-permute", grid, both, both, rest)


def rooted(rng: np.random.Generator, kind: str, grid: tuple[int, int]) -> Iterator[Case]:
    known = reducers(kind)
    shapes, names = itertools.cycle(SHAPES), itertools.cycle(known)
    for mode in ("replica", "partition"):
        for number, group in enumerate(some_in_none(rng, grid, mode)):
            array, name = f"{kind}{next(shapes)}", next(names)
            for opcode, rest, called in (
                ("collective-broadcast", group.text, ()),
                ("collective-reduce", f"{group.text}, to_apply={name}_{kind}", (known[name],)),
            ):
                given, bounds, more = (array,), (0,), ""
                if number % 2:
                    given, bounds, more = (array, "s32[1]"), (0, group.size), ", has_dynamic_root=true"
                operands = ", ".join(f"@{n}" for n in range(len(given)))
                yield Case(f"{opcode} {array}{rest}{more}", grid, given,
                           (f"@r0 = {array} {opcode}({operands}){rest}{more}",), (array,), called, bounds,
                           folds=bool(called))  # fmt: skip


def ragged(rng: np.random.Generator, kind: str, grid: tuple[int, int]) -> Iterator[Case]:
    numbers = itertools.cycle(["s32", "s64", "u32", "s16", "u8"])
    for group in _groups(rng, "ragged-all-to-all", grid):
        rows, number = 6 * group.size, next(numbers)
        given, output = f"{kind}[{rows},3]", f"{kind}[{rows + 2},3]"
        index = f"{number}[{group.size * int(rng.integers(1, 3))}]"
        operands = ", ".join(f"@{n}" for n in range(6))
        yield Case(f"ragged-all-to-all {given} {index}{group.text}", grid,
                   (given, output, *(index,) * 4),
                   (f"@r0 = {output} ragged-all-to-all({operands}){group.text}",), (output,), (),
                   (0, 0, rows + 3, 5, rows + 3, 5))  # fmt: skip


# Comparison


@dataclass
class Outcome:
    """A case that differs between two backends, or that both do not support, with the reason."""

    case: Case
    detail: str
    refused: bool = False


def compared(
    given: Sequence[Case], seed: int, backends: Sequence[str] = ("interpreter", "cpu")
) -> list[Outcome]:
    """Returns the cases whose results differ between two backends, and those that a backend does not
    support.
    """
    found = [_run(given, seed, backend) for backend in backends]
    errors = [f"{b}: {one}" for b, one in zip(backends, found, strict=True) if isinstance(one, AxlaError)]
    if not errors:
        return _differences(given, *found)
    if len(given) == 1:
        return [Outcome(given[0], "; ".join(errors), refused=len(errors) == len(backends))]
    half = len(given) // 2
    return compared(given[:half], seed, backends) + compared(given[half:], seed, backends)


def _run(given: Sequence[Case], seed: int, backend: str) -> Any:
    try:
        program_ = axla.compile(axla.parse(program(given)), backend=backend)
        return [[np.asarray(a) for a in row] for row in program_.execute_replicated(inputs(given, seed))]
    except AxlaError as error:
        return error


def _differences(given: Sequence[Case], wanted: Any, found: Any) -> list[Outcome]:
    differ, at = [], 0
    for case in given:
        leaves = range(at, at := at + len(case.results))
        for device, leaf in itertools.product(range(len(wanted)), leaves):
            a, b = wanted[device][leaf], found[device][leaf]
            why = difference(a, b, case.folds)
            if why:
                differ.append(Outcome(case, f"device {device}, result {leaf - leaves[0]}: {why}"))
                break
    return differ


def difference(a: np.ndarray, b: np.ndarray, folds: bool) -> str:
    """The difference between the bits of two arrays; "" if there is none. If the collective computes
    (`folds`), all NaNs are equal.
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    bits = f"V{a.dtype.itemsize}"
    same = np.ascontiguousarray(a).reshape(-1).view(bits) == np.ascontiguousarray(b).reshape(-1).view(bits)
    if folds and a.dtype.kind not in "biu" and not np.all(same):
        same = same | _nans(a, b)
    if np.all(same):
        return ""
    at = int(np.argmin(same))
    return f"{int((~same).sum())} of {same.size} differ, at {at}: {a.flat[at]!r} and {b.flat[at]!r}"


def _nans(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind != "c":
        return (np.isnan(a) & np.isnan(b)).reshape(-1)
    parts = [(x.reshape(-1), y.reshape(-1)) for x, y in ((a.real, b.real), (a.imag, b.imag))]
    kind = f"V{a.dtype.itemsize // 2}"
    same = [(x.copy().view(kind) == y.copy().view(kind)) | (np.isnan(x) & np.isnan(y)) for x, y in parts]
    return same[0] & same[1]
