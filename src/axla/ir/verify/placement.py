"""Rules for the placement of values: layouts, memory spaces, devices.

layout_copy       a copy-start keeps the order of dimensions in memory
layout_called     an async-start has operands and results with the layouts of the called computation
memory_space      a dynamic-slice does not move data from device to host, a dynamic-update-slice not from
                  host to device
sharding_devices  devices of a sharding are at least 0 and named once
sharding_shape    a sharding has a number of tiles for every dimension; a tuple has one sharding per leaf
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.devices import IotaDevices
from axla.ir.families import Calling
from axla.ir.graph import Instruction
from axla.ir.sharding import Tiles
from axla.ir.typed import tuple_of
from axla.ir.verify.failure import fail

HOST = 5
"""The number of the host's memory space in layouts: S(5)."""


def same_order(one: AnyShape, other: AnyShape) -> bool:
    """Whether corresponding arrays of two shapes have the same order of dimensions in memory."""
    return all(
        a.layout.minor_to_major == b.layout.minor_to_major
        for a, b in zip(one.leaves(), other.leaves(), strict=False)
        if isinstance(a, Shape) and isinstance(b, Shape)
    )


def _verify_called(inst: Instruction[Calling]) -> None:
    called = inst.op.calls
    taken = TupleShape([p.shape for p in called.parameters])
    for number, wanted in enumerate((taken, called.root.shape)):
        found = tuple_of(inst).elements[number]
        if not same_order(found, wanted):
            fail("layout_called", f"{inst!r}: element {number} is {found}, but {called.name} has {wanted}")


def _verify_copy(inst: Instruction) -> None:
    wanted = inst.operands[0].shape
    for number, found in enumerate(tuple_of(inst).elements[:2]):
        if not same_order(found, wanted):
            layouts = f"element {number} is {found}, the operand {wanted}"
            fail("layout_copy", f"{inst!r}: {layouts}; both must have the same order of dimensions")


def _verify_memory_space(inst: Instruction) -> None:
    source, target = inst.operands[0].shape, inst.shape
    if not isinstance(source, Shape) or not isinstance(target, Shape):
        return
    before, after = source.layout.memory_space, target.layout.memory_space
    wrong = (0, HOST) if inst.opcode == "dynamic-slice" else (HOST, 0)
    if (before, after) == wrong:
        found = f"{source} and {target}"
        fail("memory_space", f"{inst!r}: {inst.opcode} must not move between host and device, found {found}")


def verify_sharding(inst: Instruction) -> None:
    """Checks that a sharding fits the shape of its instruction."""
    sharding, shape = inst.extra.sharding, inst.shape
    if inst.opcode == "outfeed" or sharding is None:  # an outfeed has that of the data, not the token
        return
    if sharding.parts:
        count = len(sharding.parts)
        if not isinstance(shape, TupleShape):
            fail("sharding_shape", f"{inst!r}: an array must have one sharding, found {count}: {sharding}")
        leaves = max(1, shape.leaf_count)
        if count != leaves:
            message = f"{inst!r}: there must be {leaves} shardings, one per leaf, found {sharding}"
            fail("sharding_shape", message)
    what = sharding.what
    if isinstance(what, int) and what < 0:
        fail("sharding_devices", f"{inst!r}: the device of a sharding must be >= 0, found {{{sharding}}}")
    if isinstance(what, Tiles):
        _verify_tiles(inst, what)


def _verify_tiles(inst: Instruction, tiles: Tiles) -> None:
    devices = tiles.devices
    if isinstance(devices, IotaDevices):
        if len(devices) != prod(tiles.dims):
            fail("sharding_devices", f"{inst!r}: as many devices as tiles are wanted, found {{{tiles}}}")
    elif min(devices) < 0 or not len(set(devices)) == len(devices) == prod(tiles.dims):
        fail("sharding_devices", f"{inst!r}: one device per tile is wanted, each once, found {{{tiles}}}")
    if isinstance(inst.shape, Shape) and tiles.rank != inst.shape.rank:
        wanted = f"tiles for {inst.shape.rank} dimensions"
        fail("sharding_shape", f"{inst!r}: the sharding needs {wanted}, found {{{tiles}}}")


RULES: dict[str, Callable[[Instruction[Any]], None]] = {
    "async-start": _verify_called,
    "copy-start": _verify_copy,
    "dynamic-slice": _verify_memory_space,
    "dynamic-update-slice": _verify_memory_space,
}
