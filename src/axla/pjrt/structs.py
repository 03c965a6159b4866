"""The structs that emitted functions and Python share: clients, devices, memories, executables, errors."""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.native.structs import fields
from axla.program.abi import Struct

MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
SHORT = 2_000_000
"""The duration, in nanoseconds, of the longest run that the calling thread executes itself."""

_TEXTS = "debug_string:ptr, debug_string_size:u64, to_string:ptr, to_string_size:u64"
CLIENT = Struct(
    "client",
    "The client.",
    *fields(
        "platform_name:ptr, platform_name_size:u64, platform_version:ptr, platform_version_size:u64, "
        "process_index:i32, topology:ptr, devices:ptr, num_devices:u64, addressable_devices:ptr, "
        "num_addressable_devices:u64, addressable_memories:ptr, num_addressable_memories:u64, "
        "descriptions:ptr, num_descriptions:u64, attributes:ptr, num_attributes:u64, fingerprint:u64"
    ),
)
"""The struct is also the client's topology."""
DEVICE = Struct(
    "device",
    "A device, and its description.",
    *fields(
        "id:i32, process_index:i32, local_hardware_id:i32, num_attributes:u64, attributes:ptr, "
        "device_kind:ptr, device_kind_size:u64, device_description:ptr, is_addressable:i8, memories:ptr, "
        f"num_memories:u64, memory:ptr, {_TEXTS}"
    ),
)
MEMORY = Struct(
    "memory",
    "A memory; `vtable` is null.",
    *fields(
        f"vtable:ptr, id:i32, kind:ptr, kind_size:u64, kind_id:i32, devices:ptr, num_devices:u64, {_TEXTS}"
    ),
)
EXECUTABLE = Struct(
    "executable",
    "A program, loaded or not.",
    *fields(
        "num_replicas:u64, num_partitions:u64, num_outputs:u64, executable_name:ptr, "
        "executable_name_size:u64, executable_fingerprint:ptr, executable_fingerprint_size:u64, "
        "addressable_devices:ptr, num_addressable_devices:u64, addressable_device_logical_ids:ptr, "
        "num_addressable_device_logical_ids:u64, is_deleted:i8, memory_kinds:ptr, memory_kind_sizes:ptr, "
        "output_types:ptr, num_output_types:u64, dims:ptr, dim_sizes:ptr, size_in_bytes:i64, callable:ptr, "
        "program:ptr, owner:ptr, output_layouts:ptr, num_parameters:u64, parameter_layouts:ptr"
    ),
)
"""`callable`: the object that a run on the first device calls, null if Python runs the program. `owner`: the
PjrtExecutable.
"""
ERROR = Struct("error", "A PJRT_Error; its text follows.", *fields("vtable:ptr, code:i32, size:u64"))
LAYOUT = Struct("layout", "The layout of arrays of a rank.", *fields("text:ptr, size:u64"))
MOST_DIMENSIONS = 64
KNOWN = Struct("known", "A shape that was seen.", *fields("info:ptr, info_object:ptr"))
KNOWN_SHAPES = 256
WAITER = Struct("waiter", "A call of Event_OnReady.", *fields("next:ptr, record:ptr, callback:ptr, user:ptr"))

CONTEXT = Struct("context", "What custom calls of a run find.", *fields("data:ptr"))
VIEW = Struct("view", "Who is told that an array goes.", *fields("callback:ptr, pointer:ptr, argument:ptr"))


def known_number(element: int, dims: Sequence[int]) -> int:
    """The position in `pjrt_known` that a shape has if it is known."""
    found = element
    for size in dims:
        found = found * 31 + size
    return found % KNOWN_SHAPES
