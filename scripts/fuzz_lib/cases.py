"""A case: a module with its arguments, the values for the infeed and from the outfeed, and the results of the
interpreter.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from verify_lib import operands

import axla
import axla.hlo as hlo
from axla.analysis.rounding import SUMS
from axla.comparison import SHAKES, array_leaves, parameter_leaves, unstable
from axla.core.dtypes import F32, PRED
from axla.core.errors import AxlaError
from axla.core.literal import why_no_array
from axla.core.shape import Layout, Shape, TupleShape
from axla.custom.feeds import feeds
from axla.hlo.casting import convert
from axla.ir.attributes import CompareType
from axla.ir.graph import Alias, Instruction, Module
from axla.ir.traverse import callers
from axla.ir.verify import verify
from axla.text import parse_hlo
from axla.text.forms import implied_type

from . import motifs, told  # noqa: F401  (registers the host's function)
from .draft import ANY, COUNTER, INDEX, REFUSALS, SIZES_OF_GROUPS, Draft
from .roundings import is_rough, is_summing, reduced_otherwise

SECONDS = 4.0
"""The seconds that the interpreter may take for a case, and a backend for one run."""


class Skip(Exception):
    """Raised if a case, or an oracle on a case, proves nothing."""


class Changed(Exception):
    """Raised if a run wrote to a NumPy array among its arguments."""


Found = tuple[list[np.ndarray], list[Any]]
"""The result leaves of a run, and the values that the host received, in order."""


@dataclass
class Case:
    """A case of the fuzzer. `seed` makes it again."""

    seed: str
    module: Module
    inputs: list[np.ndarray]
    family: str = ""
    text: str = ""
    counts: tuple[int, int] = (1, 1)
    draw: random.Random = field(default_factory=random.Random)
    shaken: list[list[np.ndarray]] = field(default_factory=list)
    """The results of the runs with other roundings, from which `unstable` finds the elements that depend on
    rounding.
    """

    @cached_property
    def wanted(self) -> Found:
        """The results of the interpreter. Raises Skip if it gives none."""
        try:
            return self.run(axla.compile(self.module, backend="interpreter"), self.inputs)
        except (AxlaError, MemoryError) as error:
            raise Skip(f"{type(error).__name__}: {error}") from error

    @cached_property
    def unstable(self) -> list[np.ndarray]:
        """For each result, a mask of the elements that depend on rounding."""
        arrays = [a for c in self.module.computations for i in c.instructions for a in i.shape.arrays()]
        # With few numbers, most runs with other roundings give the same result; complex functions may be at a
        # branch cut; in results that are integers, such as bits of floats, one unit in the last place is a
        # difference.
        many = any(a.dtype.is_complex or (a.dtype.is_float and a.dtype.bits <= 8) for a in arrays)
        many |= any(not a.dtype.is_inexact for a in array_leaves(self.module.entry.root.shape))

        def found(module: Module) -> list[np.ndarray]:
            self.shaken.append(self.run(axla.compile(module, backend="interpreter"), self.inputs)[0])
            return self.shaken[-1]

        shaken = unstable(self.module, self.wanted[0], found, shakes=16 if many else SHAKES)
        for made in reduced_otherwise(self.module):
            other = unstable(self.module, self.wanted[0], lambda _, made=made: found(made), shakes=1)
            shaken = [a | b for a, b in zip(shaken, other, strict=True)]
        return shaken

    def run(self, executable: Any, inputs: Sequence[Any], **options: Any) -> Found:
        """Runs an executable once, with values in the infeed; returns the results. Raises Changed if it wrote
        to its arguments.
        """
        given = [np.array(a) if isinstance(a, np.ndarray) else a for a in inputs]
        with host(self.module) as heard:
            found = [np.array(a) for a in executable.execute(given, deadline=SECONDS, **options)]
        for number, (array, before) in enumerate(zip(given, inputs, strict=True)):
            if isinstance(array, np.ndarray) and array.tobytes() != before.tobytes():
                raise Changed(f"argument {number} was changed")
        return found, heard

    @cached_property
    def has_effects(self) -> bool:
        return any(i.op.side_effect for c in self.module.computations for i in c.instructions)

    @cached_property
    def opcodes(self) -> set[str]:
        return {i.opcode for c in self.module.computations for i in c.instructions}


@contextmanager
def host(module: Module) -> Iterator[list[Any]]:
    """Puts values for each infeed of the entry into the queue. Yields a list, to which the values from the
    outfeed are added at the end.
    """
    queues, heard = feeds(0), []
    queues.infeed.clear()
    queues.outfeed.clear()
    for number, inst in enumerate(module.entry.instructions):
        if isinstance(inst.op, hlo.Infeed):
            shape = inst.shape.elements[0]  # type: ignore[attr-defined]
            values = np.arange(1, shape.size + 1, dtype=np.int32).reshape(shape.dims) + number
            queues.infeed.put(convert(values, shape.dtype))
    try:
        yield heard
        while len(queues.outfeed):
            heard.append(queues.outfeed.get())
    finally:
        queues.infeed.clear()
        queues.outfeed.clear()


def case_of(seed: str) -> Case:
    """The case of a seed `S:N`. Raises Skip if the seed gives none."""
    draw = random.Random(seed)
    family = draw.choices(list(FAMILIES), [w for _, w in FAMILIES.values()])[0]
    for _ in range(4):
        draft = Draft(draw, "fuzz")
        try:
            FAMILIES[family][0](draft)
            _boundary(draft)
            verify(draft.module)
            _groups(draft)
            _forms(draft)
            _orders(draft)
            text = draft.module.to_string(print_large_constants=True)
        except REFUSALS:
            continue
        inputs = inputs_of(draft.module, draw, draft.kinds)
        return Case(seed, draft.module, inputs, family, text, draw=draw)
    raise Skip("no module")


def _groups(draft: Draft) -> None:
    """Makes the sizes of groups of ragged dots small numbers. Raises ValueError if they are not parameters of
    the entry.
    """
    for computation in draft.module.computations:
        for inst in computation.instructions:
            if isinstance(inst.op, hlo.RaggedDot):
                sizes = inst.operands[2]
                if computation is not draft.module.entry or not isinstance(sizes.op, hlo.Parameter):
                    raise ValueError("sizes of groups may be negative")
                draft.kinds[sizes.op.parameter_number] = SIZES_OF_GROUPS


def _forms(draft: Draft) -> None:
    """Ops have the forms in which texts are read: branches that a pred chooses have their own names, and
    comparisons have no type if it is the default.
    """
    for computation in draft.module.computations:
        for inst in computation.instructions:
            if isinstance(inst.op, hlo.Conditional) and inst.operands[0].shape.dtype is PRED:
                computation.set_op(inst, hlo.Conditional(*inst.op.branches))
            if isinstance(inst.op, hlo.Compare) and inst.op.type is implied_type(inst.operands[0].shape):
                computation.set_op(inst, replace(inst.op, type=None))


def _orders(draft: Draft) -> None:
    """Makes sorts, and calls such as ApproxTopK, compare floats in the total order, unless the operands have
    no NaN.
    """
    for computation in draft.module.computations:
        for inst in computation.instructions:
            if not isinstance(inst.op, hlo.Sort | hlo.CustomCall):
                continue
            if isinstance(inst.op, hlo.Sort):
                keys = zip(inst.op.to_apply.parameters[::2], inst.operands, strict=True)
                if any(key.shape.dtype is not x.shape.dtype for key, x in keys):  # equal keys of unequal x
                    computation.set_op(inst, replace(inst.op, is_stable=True))
            if any(map(_lacks_nan, inst.operands)):
                continue
            for called in inst.op.computations():
                for one in called.instructions:
                    if isinstance(one.op, hlo.Compare) and one.operands[0].shape.dtype.is_float:
                        called.set_op(one, replace(one.op, type=CompareType.TOTAL_ORDER))


def _lacks_nan(inst: Instruction) -> bool:
    """Whether an instruction is the result of `motifs.without_nan`."""
    test = inst.operands[0] if isinstance(inst.op, hlo.Select) else inst
    return isinstance(test.op, hlo.Compare) and test.operands[0] is test.operands[1] is inst.operands[1]


def _mixed(draft: Draft) -> None:
    motifs.make(draft, draft.draw.choice((1, 2, 3, 4, 6, 9, 14)))


def _graft(draft: Draft) -> None:
    """Adds a mutant of a test or a sample, and few other instructions."""
    for _ in range(6):
        if motifs.attempt(draft.entry, motifs.graft):
            break
    motifs.make(
        draft, draft.draw.choice((0, 0, 0, 1, 2)),
        [motifs.pointwise, motifs.graft, motifs.identity, motifs.undone],
    )  # fmt: skip


def _loops(draft: Draft) -> None:
    draft.most = 300
    motifs.make(draft, draft.draw.randint(2, 5), [
        motifs.loop, motifs.loop, motifs.branches, motifs.updated, motifs.scattered, motifs.pointwise,
        motifs.part, motifs.transposed, motifs.called,
    ])  # fmt: skip


def _wide(draft: Draft) -> None:
    """Adds ops on arrays that are large enough for several threads."""
    draw = draft.draw
    draft.most = 600_000
    draft.dtypes = [draw.choice((F32, F32, F32, draft.dtype()))]
    sizes = draw.choice(
        ((300_000,), (70_001,), (400, 700), (7, 40_000), (40_000, 7), (64, 65, 66), (1, 150_000), (131, 1025))
    )
    x = draft.entry.parameter(Shape(draft.dtypes[0], sizes))
    motifs.attempt(draft.entry, lambda s: motifs.pointwise(s, x))
    motifs.make(draft, draw.randint(1, 3), [
        motifs.reduced, motifs.reduced, motifs.deep, motifs.transposed, motifs.pointwise, motifs.identity,
        motifs.rows, motifs.window, motifs.sorted_, motifs.scattered, motifs.part, motifs.largest,
    ])  # fmt: skip


def _products(draft: Draft) -> None:
    draft.most = 20_000
    motifs.make(draft, draft.draw.randint(1, 3), [
        motifs.product, motifs.product, motifs.convolution, motifs.pointwise, motifs.transposed,
        motifs.any_product,
    ])  # fmt: skip


def _effects(draft: Draft) -> None:
    draft.most = 60
    motifs.make(
        draft, draft.draw.randint(3, 8), [motifs.effect, motifs.effect, motifs.pointwise, motifs.reduced]
    )


FAMILIES: dict[str, tuple[Any, float]] = {
    "mixed": (_mixed, 4), "graft": (_graft, 5), "loops": (_loops, 2), "products": (_products, 1),
    "wide": (_wide, 0.5),    "effects": (_effects, 1.2),
}  # fmt: skip


def _boundary(draft: Draft) -> None:
    """Gives random layouts to parameters, results and inner instructions, and aliases to some results and
    arguments.
    """
    draw, module, entry = draft.draw, draft.module, draft.entry.computation
    if draw.random() < 0.25:
        for inst in entry.instructions:
            shape = inst.shape
            some = isinstance(shape, Shape) and shape.rank > 1 and shape.layout.is_default
            if (
                some
                and (isinstance(inst.op, hlo.Parameter) or inst.opcode in LAID_OUT)
                and draw.random() < 0.5
            ):
                order = tuple(draw.sample(range(shape.rank), shape.rank))  # type: ignore[attr-defined]
                entry.set_shape(inst, shape.with_layout(Layout(order)))  # type: ignore[attr-defined]
    if draw.random() < 0.25:
        shape = entry.root.shape
        elements = shape.elements if isinstance(shape, TupleShape) else (shape,)
        places = [((n,) if isinstance(shape, TupleShape) else (), e) for n, e in enumerate(elements)]
        aliases, taken = [], set()
        for place, result in places:
            fits = [k for k, p in enumerate(entry.parameters) if p.shape is result and k not in taken]
            if fits and draw.random() < 0.7:
                number = draw.choice(fits)
                taken.add(number)
                aliases.append(Alias(place, number, (), draw.random() < 0.3))
        module.set_config(aliases=tuple(aliases))


LAID_OUT = frozenset(
    {
        "add",
        "multiply",
        "transpose",
        "broadcast",
        "dot",
        "reduce",
        "slice",
        "copy",
        "select",
        "iota",
        "constant",
        "negate",
    }
)


def inputs_of(module: Module, draw: random.Random, kinds: dict[int, str]) -> list[np.ndarray]:
    """Random arguments. If the module rounds, most are ordinary numbers, whose sums do not overflow."""
    allows = "rounding" if is_summing(module) or (is_rough(module) and draw.random() < 0.6) else ""
    if "convolution" in {i.opcode for c in module.computations for i in c.instructions}:
        allows = "finite"
    found = []
    for number, parameter in enumerate(module.entry.parameters):
        for shape in parameter.shape.arrays():
            if why_no_array(shape) is not None:
                raise Skip("no array")
            found.append(_argument(shape, draw, kinds.get(number, ANY), allows))
    return found


def _argument(shape: Shape, draw: random.Random, kind: str, allows: str) -> np.ndarray:
    dtype = shape.dtype
    if kind in (INDEX, COUNTER) and dtype.is_integer:
        low, high = motifs.operands.limits(dtype)
        near = [-2, -1, 0, 0, 1, 1, 2, 3, 4, 5] if kind == INDEX else [-1, 0, 1, 2, 3, 4, 6]
        far = [7, 15, 40, 100, -7, int(low), int(high)] if kind == INDEX and draw.random() < 0.5 else []
        values = [max(int(low), min(int(high), draw.choice((*near, *far)))) for _ in range(shape.size)]
        return np.array(values, object).astype(dtype.numpy).reshape(shape.dims)
    if kind == SIZES_OF_GROUPS:
        values = np.array([draw.choice((0, 0, 1, 2)) for _ in range(shape.size)])
        return values.astype(dtype.numpy).reshape(shape.dims)
    if shape.size > 5000:
        return _many(shape, draw, allows)
    if allows == "finite" and dtype.is_float and draw.random() < 0.8:
        return (
            np.array([draw.uniform(-2, 2) for _ in range(shape.size)]).astype(dtype.numpy).reshape(shape.dims)
        )
    return operands.argument(shape.logical, draw, allows).array


def _many(shape: Shape, draw: random.Random, allows: str) -> np.ndarray:
    """Random numbers as from `operands.argument`, made faster."""
    rng, dtype = np.random.default_rng(draw.getrandbits(32)), shape.dtype
    if dtype.is_pred:
        return rng.random(shape.dims) < 0.5
    if dtype.is_integer:
        low, high = (int(n) for n in operands.limits(dtype))
        return rng.integers(max(low, -20), min(high, 20), shape.dims, endpoint=True).astype(dtype.numpy)
    with np.errstate(all="ignore"):
        values = (
            rng.uniform(-2, 2, shape.dims)
            if draw.random() < 0.7
            else rng.integers(-3, 4, shape.dims).astype(float)
        )
        if draw.random() < 0.3 and shape.size and allows != "finite":
            places = rng.integers(0, shape.size, draw.choice((1, 5, 1000)))
            values.reshape(-1)[places] = rng.choice([np.nan, 0.0, -0.0, 1.0, np.inf], len(places))
        if dtype.is_complex:
            values = values + 1j * rng.uniform(-2, 2, shape.dims)
        return values.astype(dtype.numpy)


# Twins


_CHANGES = (
    (r"direction=(LT|GT|LE|GE|EQ|NE)", ("LT", "GT", "LE", "GE", "EQ", "NE")),
    (r"constant\((-?\d+)\)", ("0", "1", "2", "3", "5")),
    (r"= \S+ (add|subtract|multiply|maximum)\(", ("add", "subtract", "multiply", "maximum", "minimum")),
    (r"= \S+ (negate|abs|sign|floor|tanh|sine)\(", ("negate", "abs", "sign", "floor", "tanh", "sine")),
    (r"\{ ?((?:[-\w.+]+, )+[-\w.+]+) ?\}", ()),  # constants
    (r"\{ ?((?:[-\w.+]+, )+[-\w.+]+) ?\}", ()),
    (r"dimensions=\{(0|1)\}", ("0", "1")),
    (r"\{(1,0|0,1)\} (?:parameter|transpose|add|multiply|copy)\(", ("1,0", "0,1")),
    (r"\[(0:\d+)\]", ()),
    (r"padding=(\d)", ("0", "1", "2")),
    (r", index=(\d)", ("0", "1", "2")),
)  # fmt: skip


def twin(case: Case) -> Module | None:
    """A module that differs in one place and has the same parameters; None if none is found."""
    draw = case.draw
    for _ in range(6):
        pattern, choices = draw.choice(_CHANGES)
        found = list(re.finditer(pattern, case.text))
        if not found:
            continue
        match = draw.choice(found)
        new = (
            draw.choice(choices)
            if choices
            else ", ".join(draw.sample(parts := match[1].split(", "), len(parts)))
        )
        if new == match[1]:
            continue
        try:
            made = parse_hlo(case.text[: match.start(1)] + new + case.text[match.end(1) :], exact=True)
            verify(made)
        except REFUSALS:
            continue
        line = case.text[case.text.rfind("\n", 0, match.start()) :].split("\n")[1]
        named = re.match(r" *(?:ROOT )?%?([\w.-]+) = ", line)
        if named is None or not keeps_order(case.module, made, named[1]):
            continue
        if [s for _, s in parameter_leaves(made)] == [s for _, s in parameter_leaves(case.module)]:
            return made
    return None


def keeps_order(module: Module, changed: Module, name: str) -> bool:
    """Whether the computations that sorts and reductions call are still orders, and associative, after the
    instruction `name` was changed.

    If they are not, results depend on the unspecified order in which elements are compared or combined.
    """
    before, after = (
        next(i for c in m.computations for i in c.instructions if i.name == name) for m in (module, changed)
    )
    users, above, waiting = set(), callers(changed), [after.computation]
    while waiting:
        for user in above[waiting.pop()]:
            users.add(user.opcode)
            waiting.append(user.computation)
    users &= SUMS | {"sort", "custom-call"}
    if not users:
        return True
    if after is not after.computation.root:
        return False
    if users & {"sort", "custom-call"}:  # custom calls such as ApproxTopK
        pair = {str(getattr(i.op, "direction", "")) for i in (before, after)}
        return pair == {"LT", "GT"}
    exact = {"maximum", "minimum"} | ({"add", "multiply"} if after.shape.dtype.is_integer else set())
    return {before.opcode, after.opcode} <= exact
