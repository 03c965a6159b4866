"""A program that is loaded into the process: its code, its constants, and the native struct that describes
it.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from axla.codegen.native import structs
from axla.codegen.native.image import Image
from axla.core.errors import InvalidArgument, OutOfMemory
from axla.core.literal import LINE, aligned_memory
from axla.custom.site import LIBRARY
from axla.program.abi import RNG_SEED
from axla.program.interface import Interface
from axla.runtime import arguments
from axla.runtime.functions import resolve_functions
from axla.runtime.native import Native, native
from axla.runtime.queue import queue_of
from axla.runtime.shape_info import shape_info

ENTRY = "axla_entry"
_ADDRESSABLE = 1 << 47


class LoadedProgram:
    """The code and constants of a program in memory. They are freed with the last reference; every call in
    progress holds one.
    """

    __slots__ = (
        "interface", "native", "address", "_constants", "_image", "infos", "block", "queue", "effects",
        "_functions", "_keep", "_beside", "_numbers", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        images: Sequence[bytes],
        interface: Interface,
        constants: bytes | memoryview | None,
        functions: Mapping[str, int] | None,
        device: int = 0,
        participant: int = 0,
        beside: LoadedProgram | None = None,
    ) -> None:
        """Links the object images, and resolves the functions that the program calls; `functions` maps names
        of functions to addresses that replace them. `participant` is the number of the participant that runs
        the program on `device`. `beside` is a loaded program with the same code, whose image and constants
        are shared.
        """
        self._constants: memoryview | None = None
        self._beside = beside
        self._numbers = divmod(participant, interface.participants[1])
        _check(interface, constants)
        self.interface = interface
        self.native: Native = native()
        arguments.install(self.native)
        self.queue = queue_of(device)
        self.effects = any(function.api != LIBRARY for function in interface.functions)
        table, self._functions = resolve_functions(interface.functions, functions, device)
        if beside is not None:
            self._image = beside._image
        else:
            self._image = Image([(interface.name, image) for image in images], [ENTRY])
            self._constants = self._place(constants) if constants else None
        self.infos = [shape_info(spec.shape) for spec in (*interface.parameters, *interface.results)]
        self.block: Any = self._describe(table)
        self.address = c.addressof(self.block)

    def constants(self) -> memoryview | None:
        """The constants segment as read-only bytes; None if there is none or another program owns it."""
        return self._constants

    def _constants_address(self) -> int | None:
        held = self._constants or (self._beside._constants if self._beside is not None else None)
        return np.frombuffer(held, np.uint8).ctypes.data if held else None

    def _place(self, constants: bytes | memoryview) -> memoryview:
        """Returns the constants themselves if they are read-only and aligned, else an aligned copy."""
        data = memoryview(constants).cast("B")
        if data.readonly and np.frombuffer(data, np.uint8).ctypes.data % LINE == 0:
            return data
        try:
            placed = aligned_memory(len(data))
        except MemoryError:
            raise OutOfMemory(f"{self.interface.name}: no memory for {len(data)} constant bytes") from None
        placed[:] = data
        return placed.toreadonly()

    def _describe(self, table: list[int]) -> c.Structure:
        """Makes the native PROGRAM struct. `table` is the function table."""
        interface, infos = self.interface, self.infos
        parameter_alias = {a.parameter: a.result for a in interface.aliases}
        result_alias = {a.result: a.parameter for a in interface.aliases}
        count = len(interface.parameters)
        parameters = (structs.PARAMETER.ctypes() * max(count, 1))()
        for i in range(count):
            parameters[i].info, parameters[i].alias = infos[i].address, parameter_alias.get(i, -1)
        results = (structs.RESULT.ctypes() * max(len(interface.results), 1))()
        for i, info in enumerate(infos[count:]):
            results[i].info, results[i].info_object = info.address, id(info)
            results[i].alias = result_alias.get(i, -1)
        functions = (c.c_void_p * max(len(table), 1))(*table)
        flags = structs.LONG_RUNNING if interface.long_running else 0
        flags |= 0 if isinstance(interface.result_tree, tuple) else structs.SINGLE_RESULT
        flags |= structs.DONATES if interface.aliases else 0
        flags |= structs.EFFECTS if self.effects else 0
        block = structs.PROGRAM.ctypes()(
            entry=self._image.addresses[ENTRY],
            parameter_count=count,
            result_count=len(interface.results),
            parameters=c.addressof(parameters),
            results=c.addressof(results),
            constants=self._constants_address(),
            functions=c.addressof(functions),
            workspace_bytes=interface.workspace_bytes,
            flags=flags,
            rng_state=RNG_SEED,
            queue=self.queue.address,
            replica=self._numbers[0],
            partition=self._numbers[1],
        )
        self._keep = (parameters, results, functions)
        return block


def _check(interface: Interface, constants: bytes | memoryview | None) -> None:
    """Refuses an interface that is inconsistent, since native code does not check it."""
    name = interface.name
    length = memoryview(constants).nbytes if constants else 0
    if length != interface.constants_bytes:
        raise InvalidArgument(
            f"{name}: constants have {length} bytes, the interface says {interface.constants_bytes}"
        )
    if not isinstance(interface.result_tree, tuple) and len(interface.results) != 1:
        raise InvalidArgument(f"{name}: {len(interface.results)} results for a result that is not a tuple")
    for spec in (*interface.parameters, *interface.results):
        if spec.bytes != spec.shape.byte_size:
            raise InvalidArgument(f"{name}, {spec.name}: {spec.bytes} bytes, wanted {spec.shape.byte_size}")
        if spec.bytes > _ADDRESSABLE:
            raise OutOfMemory(f"{name}, {spec}: more than can be addressed")
    if interface.workspace_bytes > _ADDRESSABLE:
        raise OutOfMemory(
            f"{name}: a workspace of {interface.workspace_bytes} bytes is more than can be addressed"
        )
    results, parameters = (dict(enumerate(specs)) for specs in (interface.results, interface.parameters))
    for alias in interface.aliases:
        result, parameter = results.pop(alias.result, None), parameters.pop(alias.parameter, None)
        if result is None or parameter is None:
            raise InvalidArgument(f"{name}, {alias}: an index out of range or used twice")
        if result.bytes != parameter.bytes:
            raise InvalidArgument(f"{name}, {alias}: {parameter.bytes} bytes, the result has {result.bytes}")
