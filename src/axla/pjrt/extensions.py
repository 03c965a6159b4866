"""Extensions of the C API: data for handlers of custom calls, shardings, and layouts."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from typing import Any

from axla.pjrt import contexts
from axla.pjrt.functions import callback
from axla.pjrt.programs import program_at
from axla.pjrt.table import FFI, LAYOUTS, SHARDINGS, STRUCTS, addresses


def _shardings(which: str) -> Callable[[Any], None]:
    """The implementation of PJRT_Shardings_PJRT_Executable_ParameterShardings (`which` is "arguments") or of
    ..._OutputShardings ("results"): writes OpSharding protos to the argument structure of the C function.
    """

    def give(args: Any) -> None:
        program = program_at(args.executable)
        texts = program.sharding_protos(which)
        args.num = len(texts)
        args.shardings = args.sharding_sizes = None
        if texts:
            held = [program.kept(text) for text in texts]
            args.shardings = program.keep(addresses(held))
            args.sharding_sizes = program.keep((c.c_size_t * len(texts))(*map(len, texts)))

    return give


def chain(at: dict[str, int]) -> tuple[Any, ...]:
    """The extensions, each linked to the next; the first one's address goes into PJRT_Api. `at` has the
    addresses of emitted functions.
    """
    kinds = {"FFI": FFI, "Shardings": SHARDINGS, "Layouts": LAYOUTS}
    ffi, shardings, layouts = found = tuple(STRUCTS[f"{name}_Extension"].ctypes()() for name in kinds)
    for extension, kind in zip(found, kinds.values(), strict=True):
        extension.struct_size, extension.type = c.sizeof(extension), kind
    ffi.user_data_add = at["pjrt_FFI_user_data_add"]
    for name in ("type_register", "register_handler"):
        setattr(ffi, name, callback(getattr(contexts, name), STRUCTS[f"FFI_{name}"]))
    for name, which in (("parameter_shardings", "arguments"), ("output_shardings", "results")):
        setattr(shardings, name, callback(_shardings(which), STRUCTS[f"Shardings_{name}"]))
    for field in STRUCTS["Layouts_Extension"].fields[3:]:
        setattr(layouts, field.name, at[f"pjrt_Layouts_{field.name}"])
    ffi.next, shardings.next = c.addressof(shardings), c.addressof(layouts)
    return found
