"""The list of all kernel kinds, and the choice of a kernel's kind, which fusion and code generation share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import cache
from inspect import getattr_static
from pkgutil import resolve_name
from typing import Any
from warnings import warn

from axla.core import plugins
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op
from axla.kernels import ADDED, ENTRY_POINTS
from axla.kernels.access import KernelBody, kernel_body
from axla.kernels.kind import Form, Kind
from axla.kernels.plan import Plan
from axla.target.machine import Limits

OWN = (
    "update:UpdateKind",
    "update:ScatterKind",
    "sort:SortKind",
    "sort:TopKKind",
    "convolution:ConvolutionKind",
    "fft:FftKind",
    "loop:CopyKind",
    "dot:DotKind",
    "reduce:RowKind",
    "reduce:ColumnKind",
    "scan:ScanKind",
    "loop:ConcatKind",
    "transpose:TransposeKind",
    "loop:LoopKind",
)
"""axla's kinds as file:class, in the order in which they are tried."""


def register(kind: type[Kind]) -> None:
    """Adds a kind, which is tried before all other kinds. InvalidArgument if it is incomplete, or its name or
    its class of plans is already used.

    Later compilations may use the kind, and do not read or write the program cache.
    """
    ADDED.insert(0, checked(kind, kinds()))
    _forget()


def checked(kind: Any, others: Iterable[type[Kind]]) -> type[Kind]:
    """Returns `kind`, a kind from another package; InvalidArgument if it is incomplete, or conflicts with one
    of the kinds `others`.
    """
    if not isinstance(kind, type) or not issubclass(kind, Kind):
        raise InvalidArgument(f"register: a subclass of Kind is wanted, found {kind!r}")
    what = f"register: {kind.__module__}.{kind.__qualname__}"
    if not kind.name or not all(isinstance(op, type) and issubclass(op, Op) for op in kind.heroes):
        raise InvalidArgument(f"{what}: it needs a name, and classes of ops as heroes, found {kind.heroes}")
    if any(kind.name == other.name for other in others):
        raise InvalidArgument(f"{what}: a kind named '{kind.name}' exists already")
    if kind.planned is None:
        needs = ("match", "served")
    else:
        if not is_dataclass(kind.planned) or any(kind.planned is other.planned for other in others):
            raise InvalidArgument(f"{what}: `planned` must be a dataclass of its own, found {kind.planned}")
        needs = ("match", "plan") if kind.emission else ("match", "plan", "emit")
    for name in needs:
        if getattr_static(kind, name) is vars(Kind)[name]:
            raise InvalidArgument(f"{what}: it has no method {name}")
    return kind


def unregister(kind: type[Kind]) -> None:
    """Removes a registered kind; InvalidArgument if it was not registered."""
    if kind not in ADDED:
        raise InvalidArgument(f"unregister: {kind!r} was not registered")
    ADDED.remove(kind)
    _forget()


@cache
def kinds() -> tuple[type[Kind], ...]:
    """All kinds, in the order in which they are tried."""
    return (*ADDED, *installed(), *own())


@cache
def installed() -> tuple[type[Kind], ...]:
    """The kinds of installed packages, which this call loads. A kind that cannot be used is left out with a
    warning.
    """
    found: list[type[Kind]] = []
    for name, entry in plugins.installed(ENTRY_POINTS).items():
        try:
            with plugins.blamed(f"the kind of kernels {name!r} of {entry.value} cannot be loaded", passed=()):
                found.append(checked(entry.load(), (*found, *own())))
        except UnsupportedError as error:
            warn(error.message, RuntimeWarning, stacklevel=2)
    return tuple(found)


def own() -> tuple[type[Kind], ...]:
    """The kinds that are part of axla."""
    return tuple(resolve_name(f"axla.kernels.{place}") for place in OWN)


@cache
def kinds_of(op: type[Op]) -> tuple[type[Kind], ...]:
    """The kinds that have this op among their heroes."""
    return tuple(kind for kind in kinds() if op in kind.heroes)


@cache
def kind_planned_as(plan: type[Plan]) -> type[Kind]:
    """The kind whose plans have this class."""
    return next(kind for kind in kinds() if kind.planned is plan)


def _forget() -> None:
    for known in (kinds, kinds_of, kind_planned_as):
        known.cache_clear()


def hero_form(inst: Instruction, limits: Limits) -> Form | None:
    """The form of a kernel with this instruction as its hero; None if no kind has it as a hero."""
    for kind in kinds_of(type(inst.op)):
        form = kind.form(inst, limits)
        if form is not None:
            return form
    return None


def kernel_kind(kernel: Instruction | Computation, limits: Limits) -> Kind:
    """The kind of the kernel that an unfused instruction, a fusion or a fused computation becomes."""
    called = kernel.op.computations() if isinstance(kernel, Instruction) and kernel.opcode == "fusion" else ()
    [kernel] = called or [kernel]
    if isinstance(kernel, Computation):
        return kernel.fact(("kernel kind", limits, kinds()), lambda c: _kind_of(kernel_body(c), limits))
    return _kind_of(kernel_body(kernel), limits)


def _kind_of(body: KernelBody, limits: Limits) -> Kind:
    ops = {type(inst.op) for inst in body.order}
    asked = (kind for kind in kinds() if not kind.heroes or not ops.isdisjoint(kind.heroes))
    found = (kind.match(body, limits) for kind in asked)
    return next(kernel for kernel in found if kernel is not None)  # LoopKind matches if no other kind does
