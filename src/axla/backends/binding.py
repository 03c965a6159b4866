"""Replaces parameters of a module with constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.dtypes import of_raw_items
from axla.core.errors import AxlaError, InvalidArgument, did_you_mean
from axla.core.literal import Literal, MovedLiteral, may_be_written, unwritable
from axla.core.shape import ProgramShape, Shape
from axla.ir.clone import clone_module
from axla.ir.graph import Instruction, Module
from axla.ir.structure import Constant, Parameter
from axla.ir.typed import op_of
from axla.stablehlo.names import NAMES, Names, names_in

LENT = 1 << 16
"""Writable arrays of at least this many bytes are lent: not copied unless needed after compilation."""
BoundValues = Mapping[Any, Any] | Iterable[tuple[Any, Any]]


def with_constants(module: Module, values: BoundValues) -> Module:
    """Returns a copy of a module in which the parameters in `values`, given by number or name, are constants.
    The other parameters are renumbered.

    Values are arrays of the parameters' types and sizes; writable ones are copied. Raises InvalidArgument for
    a parameter that is unknown, given twice, donated or aliased, and for an array of another type or size.
    """
    made, lent = with_lent_constants(module, values)
    for literal in lent:
        literal.keep()
    return made


def with_lent_constants(module: Module, values: BoundValues) -> tuple[Module, list[MovedLiteral]]:
    """Returns (the module that `with_constants` makes, the constants whose values are in writable memory of
    the caller). The values of these constants are not copied yet.
    """
    made, found = clone_module(module), literals(module, values)
    bind(made, found)
    return made, [literal for literal in found.values() if isinstance(literal, MovedLiteral)]


def literals(module: Module, values: BoundValues) -> dict[int, Literal]:
    """The constants for the parameters in `values`, by parameter number. Large writable arrays become
    `MovedLiteral`s that are lent.
    """
    found: dict[int, Literal] = {}
    pairs = values.items() if isinstance(values, Mapping) else values
    try:
        listed = [(key, value) for key, value in pairs]
    except (TypeError, ValueError):
        wanted = "a mapping, or pairs, of numbers or names of parameters and their values"
        raise InvalidArgument(f"compile: constant={str(values)[:80]}, wanted {wanted}") from None
    for key, value in listed:
        parameter = _parameter(module, key)
        number = op_of(parameter, Parameter).parameter_number
        if number in found:
            raise InvalidArgument(f"compile: constant has parameter {number}, {parameter.name}, twice")
        found[number] = _literal(parameter, key, value)
    return found


def bind(module: Module, values: Mapping[int, Literal]) -> None:
    """Replaces parameters of the entry with constants, given by parameter number."""
    entry, config = module.entry, module.config
    tied = {alias.parameter for alias in config.aliases} | {number for number, _ in config.buffer_donors}
    for number in sorted(values.keys() & tied):
        name = entry.parameters[number].name
        raise InvalidArgument(f"compile: constant has parameter {number}, {name}, which is donated")
    kept = [n for n in range(len(entry.parameters)) if n not in values]
    place = {n: k for k, n in enumerate(kept)}
    for number, parameter in enumerate(list(entry.parameters)):
        if number in values:
            constant = Constant(parameter.shape, values[number])
            stand_in = entry.add(constant, stem="constant", extra=parameter.extra)
            entry.replace(parameter, stand_in)
            entry.remove(parameter)
        else:
            entry.set_op(parameter, replace(op_of(parameter, Parameter), parameter_number=place[number]))
    changes: dict[str, Any] = {
        "aliases": tuple(replace(a, parameter=place[a.parameter]) for a in config.aliases),
        "buffer_donors": tuple((place[number], index) for number, index in config.buffer_donors),
    }
    layout, names = config.entry_layout, names_in(module)
    if layout is not None:
        labels = tuple(layout.names[n] for n in kept) if layout.names else ()
        changes["entry_layout"] = ProgramShape(
            tuple(layout.parameters[n] for n in kept), layout.result, labels
        )
    if names is not None and len(names.arguments) == len(place) + len(values):
        text = Names(tuple(names.arguments[n] for n in kept), names.results).text
        changes["frontend_attributes"] = tuple(
            (name, text if name == NAMES else value) for name, value in config.frontend_attributes
        )
    module.set_config(**changes)


def _parameter(module: Module, key: Any) -> Instruction:
    parameters, names = module.entry.parameters, names_in(module)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not 0 <= key < len(parameters):
            raise InvalidArgument(f"compile: constant has parameter {key}; there are {len(parameters)}")
        return parameters[key]
    known = {p.name: p for p in parameters}
    if names is not None and len(names.arguments) == len(parameters):
        known |= dict(zip(names.arguments, parameters, strict=True))
    if not isinstance(key, str) or key not in known:
        near = did_you_mean(key, list(known)) if isinstance(key, str) else ""
        raise InvalidArgument(
            f"compile: constant has {key!r}, which is not a number or name of a parameter{near}"
        )
    return known[key]


def _literal(parameter: Instruction, key: Any, value: Any) -> Literal:
    shape, where = parameter.shape, f"compile: constant {key!r}"
    if not isinstance(shape, Shape) or shape.is_dynamic:
        raise InvalidArgument(
            f"{where}: parameter {parameter.name} is {shape}, wanted an array of known size"
        )
    try:
        array = value.array if isinstance(value, Literal) else np.asarray(value)
    except (AxlaError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{where}: not an array or array-like: {error}") from None
    array = of_raw_items(array, shape.dtype)
    if array.dtype != shape.dtype.numpy or array.shape != shape.dims:
        found = f"{array.dtype}{list(array.shape)}"
        raise InvalidArgument(f"{where}: wanted {shape.to_string(layout=False)}, found {found}")
    if array.nbytes < LENT or not array.flags.c_contiguous or not may_be_written(array):
        return Literal(shape.logical, unwritable(array))
    view = array.view()
    view.flags.writeable = False
    return MovedLiteral(shape.logical, view, lent=True)
