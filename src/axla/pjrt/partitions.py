"""Features of partitioned programs that need shardings: `jax.debug.inspect_array_sharding`, and callbacks
that are called for each part of an array.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.hlo import CustomCall
from axla.ir.graph import Instruction, Module
from axla.ir.sharding import Sharding, Tiling, tiling
from axla.passes.expand.propagation import Propagation
from axla.passes.expand.shardings import ENTER, LEAVE, target_of
from axla.pjrt.callbacks import Callbacks
from axla.program.abi import structure
from axla.proto import encode
from axla.proto.sharding import sharding_message

INSPECT = "InspectSharding"
inspectors: set[int] = set()
"""Addresses of native functions of jaxlib that a call of INSPECT may name; `axla.jax.install` adds them. The
configuration of a call has such an address, and the address of a Python function to pass to it.
"""
_Told: Any = structure(
    "", text=c.c_void_p, size=c.c_size_t, error=c.c_char_p, scratch=c.c_void_p, free=c.c_void_p
)


def tell_shardings(module: Module, found: Propagation) -> None:
    """Calls the functions of a program that inspect shardings, with the shardings in `found`, and removes
    these calls from the module.
    """
    for inst in list(found.values):
        if target_of(inst) == INSPECT:
            [value] = inst.operands
            sharding = Sharding("manual") if _is_in_region(value) else found.sharding_of(value)
            _tell(inst, sharding or Sharding("replicated"))
    for computation in module.computations:
        for inst in [inst for inst in computation.instructions if target_of(inst) == INSPECT]:
            computation.remove(inst)


def _is_in_region(value: Instruction) -> bool:
    """Whether a value is only a part of an array: it depends on a value that enters a manual region."""
    pending, seen = [value], {value}
    while pending:
        inst = pending.pop()
        if target_of(inst) == ENTER:
            return True
        if target_of(inst) != LEAVE:
            pending += [operand for operand in inst.operands if operand not in seen]
            seen.update(inst.operands)
    return False


def _tell(inst: Instruction, sharding: Sharding) -> None:
    data = inst.extra.backend_config.encode("utf-8", "surrogateescape")
    call, function = (int.from_bytes(data[n : n + 8], "little") for n in (0, 8))
    if len(data) != 16 or call not in inspectors:
        raise UnsupportedError(f"{inst!r}: its configuration is not a function of this process's jaxlib")
    text = encode(sharding_message(sharding), "OpSharding")
    kept = c.create_string_buffer(text, max(len(text), 1))
    told = _Told(text=c.addressof(kept), size=len(text))
    c.PYFUNCTYPE(None, c.c_void_p, c.c_void_p)(call)(function, c.addressof(told))
    if told.error:
        message = told.error.decode("utf-8", "replace")
        c.PYFUNCTYPE(None, c.c_void_p)(told.free)(c.addressof(told))
        raise UnsupportedError(f"{inst!r}: {message}")


def split_callbacks(found: Propagation, callbacks: Callbacks) -> Module | None:
    """Changes a program that runs on whole arrays: where JAX requests it (`partitioned=True`), a callback is
    called once for each partition, with the partition's parts of the operands. Returns the module to run;
    None if there are no such callbacks.
    """
    changed = False
    for inst in found.values:
        if target_of(inst) != callbacks.parted_target or any(s.is_array for s in inst.shape.leaves()):
            continue
        cuts = [_cut(found, operand) for operand in inst.operands]
        op = inst.op
        assert isinstance(op, CustomCall)
        inst.computation.set_op(inst, callbacks.for_parts(op, cuts))
        changed = True
    return found.module if changed else None


def _cut(found: Propagation, operand: Instruction) -> Tiling | None:
    """The tiling by which an operand is cut into parts; None for a token."""
    shape = operand.shape
    if not isinstance(shape, Shape):
        return None
    return tiling(found.sharding_of(operand), shape.rank, found.partitions)
