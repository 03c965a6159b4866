"""Builds a library from modules with names: copies them, makes boundary arrays row-major, compiles one
object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from axla.analysis.coalesce import element_alignment
from axla.aot.library import CompiledLibrary, LibraryFunction, LibraryValue, Role, Weights
from axla.aot.names import Name, check_identifier, check_unique
from axla.aot.objects import compile_object
from axla.core.dataclass import dataclass
from axla.core.errors import InternalError, InvalidArgument, UnsupportedError
from axla.core.progress import shown
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.lowering.donation import row_major_boundary
from axla.program.interface import Interface
from axla.target.machine import CpuTarget


@dataclass(frozen=True, slots=True)
class Label:
    """The names of an argument or result: in C, and in the program that it comes from."""

    name: str
    label: str
    variable: bool = False  # of an argument: kept between calls (read only, unless a result is written to it)
    packed: str = ""  # a description of the array that its bytes hold, if it is packed


@dataclass(frozen=True, slots=True)
class BuildSource:
    """A function before compilation. Labels are those of parameter leaves and of result leaves, in order.

    A parameter that the module overwrites by a result (input_output_alias) is an updated variable.
    """

    module: Module
    arguments: tuple[Label, ...]
    results: tuple[Label, ...]
    suffix: str = ""  # added to the library's name, if it has several functions
    rows: int = 0  # the number of rows, if a function is compiled for several numbers of rows; else 0


@dataclass(frozen=True, slots=True)
class Example:
    """A source, with an array for each of its parameter leaves if arrays were given. `values`: the initial
    values of variables by name, where known.
    """

    source: BuildSource
    inputs: tuple[np.ndarray, ...] | None = None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)


def build(
    name: Name, sources: Sequence[BuildSource], target: CpuTarget, *, weights: Weights = Weights.OBJECT,
    allow_libgcc: bool = False,
) -> CompiledLibrary:  # fmt: skip
    """Compiles the functions `sources` to a library for a target; their modules are not changed.

    Raises InvalidArgument for duplicate names and names that are not identifiers, VerifyError for an invalid
    module, and UnsupportedError with op and target for an op that an object cannot contain.
    """
    if not sources:
        raise InvalidArgument(f"{name}: wanted at least one function, found none")
    check_unique((source.suffix for source in sources), f"{name}: functions")
    names = [name.with_suffix(s.suffix) if s.suffix else name for s in sources]
    originals, work = [], {}
    for source, full in zip(sources, names, strict=True):
        _check_labels(source, full)
        verify(source.module)
        original = clone_module(source.module)
        row_major_boundary(original)
        originals.append(original)
        work[full.prefix] = clone_module(original)
    with shown():
        code = compile_object(work, target, prefix=name.prefix, weights=weights, allow_libgcc=allow_libgcc)
    functions = tuple(
        _function(source, full, interface, original)
        for source, full, interface, original in zip(sources, names, code.interfaces, originals, strict=True)
    )
    batches = tuple((source.rows, k) for k, source in enumerate(sources) if source.rows)
    return CompiledLibrary(
        name, target, functions, code.image, weights, code.constants, code.constants_image, batches,
        code.tensors,
    )  # fmt: skip


def _check_labels(source: BuildSource, name: Name) -> None:
    for what, labels in (("arguments", source.arguments), ("results", source.results)):
        for label in labels:
            check_identifier(label.name, f"{name}: {what}")
        check_unique((label.name for label in labels), f"{name}: {what}")


def _function(source: BuildSource, name: Name, interface: Interface, module: Module) -> LibraryFunction:
    for what, labels, specs in (
        ("parameters", source.arguments, interface.parameters),
        ("results", source.results, interface.results),
    ):
        if len(labels) != len(specs):
            raise InternalError(f"{name}: {len(labels)} names for {len(specs)} {what}")
    for alias in interface.aliases:
        memory, held = interface.parameters[alias.parameter], interface.results[alias.result]
        if element_alignment(held.shape) > element_alignment(memory.shape):
            message = f"{name}: result {held} cannot overwrite {memory}, which has a smaller alignment"
            raise UnsupportedError(message)
    written = interface.donated
    placed = {alias.result for alias in interface.aliases}
    arguments = []
    for k, (label, spec) in enumerate(zip(source.arguments, interface.parameters, strict=True)):
        kept = Role.CONSTANT_VARIABLE if label.variable else Role.ARGUMENT
        role = Role.VARIABLE if k in written else kept
        arguments.append(LibraryValue(label.name, label.label, spec.shape, spec.bytes, role, label.packed))
    results = [
        LibraryValue(label.name, label.label, spec.shape, spec.bytes, Role.RESULT, label.packed)
        for k, (label, spec) in enumerate(zip(source.results, interface.results, strict=True))
        if k not in placed
    ]
    return LibraryFunction(name, tuple(arguments), tuple(results), interface, module)
