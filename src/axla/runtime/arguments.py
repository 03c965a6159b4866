"""The slow path of a call: converts arguments that native code did not accept, and raises the errors of
failed runs.

Native code accepts an Array, or an aligned C-contiguous NumPy array, of exactly the parameter's shape and
type. Other arguments are converted here and the call is repeated, or they are refused with InvalidArgument.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn, Protocol

import numpy as np

from axla.core import status
from axla.core.errors import AxlaError, CustomCallFailure, InternalError, InvalidArgument, RuntimeFailure
from axla.core.shape import Shape, show
from axla.custom.site import COLLECTIVE
from axla.program import abi
from axla.program.interface import Interface, ValueSpec
from axla.runtime.array import Array, device_put
from axla.runtime.callbacks import take_raised
from axla.runtime.native import Native

_KINDS = {bool: "?", int: "iuf", float: "f", complex: "c"}


class LoadedProgram(Protocol):
    """The part of a loaded program that calls need. The class itself is in `program.py`, which imports this
    module.
    """

    interface: Interface
    native: Native
    queue: Any


@cache
def install(native: Native) -> None:
    """Registers `slow_call` and `failed_call` with native code."""
    native.keep(slow_call=slow_call, failed_call=failed_call)


def slow_call(
    call: Any, loaded: LoadedProgram, flag: int, keywords: tuple[str, ...] | None, *arguments: object
) -> Any:
    """Called by native code when it cannot run a program. Converts the arguments, waits until the run may
    begin, and calls the program again. `flag` is the address of a cancel flag, or 0.
    """
    interface = loaded.interface
    if keywords:
        raise InvalidArgument(
            f"{interface.name}: arguments are passed by position, found keyword {keywords[0]!r}"
        )
    given = converted(interface, arguments)
    waited = loaded.queue.await_turn(loaded, flag)
    if not waited and all(a is b for a, b in zip(given, arguments, strict=True)):
        if loaded.native.glue.variable("ndarray_type").value:
            raise InternalError(f"{interface.name}: native code refused arguments that fit")
        given = [a if isinstance(a, Array) else device_put(a) for a in given]
    return call.with_flag(flag, *given) if flag else call(*given)


def converted(
    interface: Interface, arguments: Sequence[object], number: int = 0, here: bool = True
) -> list[Array | np.ndarray]:
    """Converts the arguments of participant `number` to arrays that native code accepts. If `here`, arrays on
    other devices are copied to host memory; donated ones are then deleted.
    """
    check_count(interface, len(arguments))
    check_donation(interface, arguments, interface.donated)
    first = number * len(arguments)
    found = [
        convert(interface, first + index, spec, argument)
        for index, (spec, argument) in enumerate(zip(interface.parameters, arguments, strict=True))
    ]
    for index, array in enumerate(found):
        if here and isinstance(array, Array) and array.elsewhere:
            found[index] = array.to_numpy()
            if index in interface.donated:
                array.delete()
    return found


def check_count(interface: Interface, count: int) -> None:
    """Raises InvalidArgument unless `count` is the number of parameters. The message names a missing
    parameter.
    """
    wanted = len(interface.parameters)
    if count == wanted:
        return
    names = [spec.name for spec in interface.parameters]
    listed = ", ".join(names[:8]) + (", ..." if wanted > 8 else "")
    if count < wanted:
        detail = f"parameter {names[count]} is missing"
    else:
        detail = f"argument {wanted} is one too many"
    raise InvalidArgument(f"{interface.name}: {count} arguments, wanted {wanted} ({listed}): {detail}")


def check_donation(interface: Interface, arguments: Any, donated: set[int]) -> None:
    """Raises InvalidArgument if a donated array is passed twice: its memory would be overwritten while it is
    still read. `donated` has the indices of donated arguments.
    """
    places: dict[int, int] = {}
    for index in sorted(donated):
        if isinstance(arguments[index], Array):
            first = places.setdefault(id(arguments[index]), index)
            if first != index:
                place = _parameter(interface, first)
                raise InvalidArgument(f"{_where(interface, index)}: donated twice, also as {place}")
    for index, argument in enumerate(arguments):
        if index not in donated and id(argument) in places:
            first = _parameter(interface, places[id(argument)])
            raise InvalidArgument(f"{_where(interface, index)}: the array is also donated, as {first}")


def convert(interface: Interface, index: int, spec: ValueSpec, argument: object) -> Array | np.ndarray:
    """Converts argument `index` to an array that native code accepts. If the parameter has dynamic
    dimensions, the array has its actual sizes.
    """
    shape = spec.shape.logical
    if isinstance(argument, Array):
        if argument.is_deleted:
            raise InvalidArgument(f"{_where(interface, index)}: the array was deleted or donated")
        found = argument.xla_shape
        if found is not shape and not (found.dtype is shape.dtype and shape.admits(found.dims)):
            _refuse(interface, index, shape, found.dims, show(found))
        return argument
    wanted = shape.dtype.numpy
    try:
        value = np.asarray(argument)
    except (AxlaError, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{_where(interface, index)}: not an array or array-like: {error}") from error
    kinds = _KINDS.get(type(argument), "")
    if shape.dims == value.shape and value.dtype != wanted and _fits(value, wanted, kinds):
        value = value.astype(wanted)
    if not shape.admits(value.shape) or value.dtype != wanted:
        _refuse(interface, index, shape, value.shape, f"{value.dtype}{list(value.shape)}")
    flags = value.flags
    if value.dtype is wanted and flags.c_contiguous and flags.aligned:
        return value
    return np.require(value, requirements=["C", "A", "E"]).view(wanted)


def _refuse(interface: Interface, index: int, shape: Shape, dims: tuple[int, ...], found: str) -> NoReturn:
    """Raises InvalidArgument for an argument of sizes `dims`, shown as `found`, that does not fit `shape`.
    Names a dimension that exceeds its bound.
    """
    text = f"{_where(interface, index)}: wanted {show(shape)}, found {found}"
    if len(dims) == shape.rank:
        for d, (size, bound, dynamic) in enumerate(zip(dims, shape.dims, shape.dynamic, strict=True)):
            if dynamic and size > bound:
                text += f": dimension {d} has size {size}, its bound is {bound}"
    raise InvalidArgument(text)


def _fits(value: np.ndarray, wanted: np.dtype, kinds: str) -> bool:
    """Whether a Python scalar, given as a NumPy array, can be converted to the wanted type. `kinds` has the
    NumPy kinds that its Python type may become.
    """
    if value.dtype.kind not in "biufc" or not kinds:
        return False
    if wanted.kind in "iu":
        limits = np.iinfo(wanted)
        return wanted.kind in kinds and limits.min <= value.item() <= limits.max
    return (wanted.kind if wanted.kind != "V" else "f") in kinds or (wanted.kind == "c" and "f" in kinds)


def _parameter(interface: Interface, index: int) -> str:
    """Describes the parameter for messages. With several participants, `index` counts the parameters of all
    of them, one participant after the other.
    """
    participant, number = divmod(index, len(interface.parameters))
    of = f" of participant {participant}" if participant else ""
    return f"parameter {number} ({interface.parameters[number].name}){of}"


def _where(interface: Interface, index: int) -> str:
    return f"{interface.name}, {_parameter(interface, index)}"


def _raise_custom_call(loaded: LoadedProgram, code: int, step: int, detail: int, frame: int) -> None:
    """Raises the exception that a custom call's Python function raised, else one for the error code. `step`
    is the custom call's number from 1, `frame` the address of the call frame. Returns if another participant
    caused the error.
    """
    raised = take_raised(frame)
    if isinstance(raised, RuntimeFailure):
        raised.code, raised.step, raised.detail = code, step, detail
    if raised is not None:
        raise raised
    function = loaded.interface.functions[step - 1]
    said = code == abi.CUSTOM_CALL or status.class_of_frame(code) is RuntimeFailure
    if said and function.api != COLLECTIVE:  # a collective stops when another participant fails
        what = str(function.site) if function.site is not None else f"custom-call {function.name!r}"
        message = f"{loaded.interface.name}: {what}: it returned the error code {code}"
        raise CustomCallFailure(message, code, step, detail)


def failed_call(
    loaded: LoadedProgram, code: int, step: int, detail: int, flag: int, frame: int
) -> NoReturn:  # fmt: skip
    """Raises the exception for the error code of a failed run. `flag` is the value of its cancel flag,
    `frame` the address of its call frame. `step` is the number of a failed custom call, from 1, or 0;
    `detail` is a number for the message.
    """
    if code == abi.CANCELLED and flag:
        code = flag  # the flag has the reason of the cancellation
    interface = loaded.interface
    if step and step <= len(interface.functions):  # a custom call: steps count from 1
        _raise_custom_call(loaded, code, step, detail, frame)
    text = status.frame_message(code, interface.messages) or f"error code {code}"
    if code == abi.OUT_OF_MEMORY and detail:
        text = f"out of memory: {detail} bytes are not available"
    message = f"{interface.name}: {text}".replace("{detail}", str(detail))
    raise status.class_of_frame(code)(message, code, step, detail)
