"""The functions of the API for the client, its devices and their memories."""

from __future__ import annotations

import ctypes as c
import json
from typing import Any

from axla.backends import Client
from axla.codegen.native.structs import MEMORY_SHIFT, RECORD
from axla.core.errors import InvalidArgument
from axla.core.python_api import incref
from axla.pjrt.functions import implements
from axla.pjrt.structs import CLIENT, DEVICE, KNOWN, LAYOUT, MEMORY, MEMORY_KINDS, known_number
from axla.pjrt.table import NamedValues, addresses, clear, named_integers
from axla.runtime.array import Array
from axla.runtime.native import native
from axla.runtime.serialized import versions
from axla.runtime.shape_info import ShapeInfo

_VERSION, _ = versions()
_Record: Any = RECORD.ctypes()


class NativeDevices:
    """The devices of the process in the form that native code reads. Created once, for the life of the
    process.
    """

    def __init__(self, count: int) -> None:
        self.client = Client("cpu", devices=count)
        self._keep: list[Any] = []
        self.devices = [DEVICE.ctypes()() for _ in range(count)]
        self.memories = [MEMORY.ctypes()() for _ in range(count * len(MEMORY_KINDS))]
        for number, device in enumerate(self.devices):
            self._describe(number, device)
        self.device_table = self._table(self.devices)
        self.memory_table = self._table(self.memories)
        self.numbers = {c.addressof(device): number for number, device in enumerate(self.devices)}
        self.places = {
            c.addressof(memory): divmod(n, len(MEMORY_KINDS)) for n, memory in enumerate(self.memories)
        }
        """For the address of a memory: the numbers of its device and of its kind."""
        self.first_layout, self.known_shapes = variables["pjrt_layouts"], variables["pjrt_known"]
        for name, table in (("devices", self.device_table), ("memories", self.memory_table)):
            c.c_void_p.from_address(variables[f"pjrt_{name}"]).value = table
        self._known: dict[int, ShapeInfo] = {}
        self.struct: Any = CLIENT.ctypes()()
        self.address = c.addressof(self.struct)
        self._describe_client()

    def _describe(self, number: int, device: Any) -> None:
        first = number * len(MEMORY_KINDS)
        own = self.memories[first : first + len(MEMORY_KINDS)]
        device.id = device.local_hardware_id = number
        device.is_addressable = 1
        device.device_description = c.addressof(device)
        device.memories, device.num_memories = self._table(own), len(own)
        device.memory = c.addressof(own[0])
        self._say(device, "device_kind", "cpu")
        self._say(device, "debug_string", f"AXLA_CPU_{number}")
        self._say(device, "to_string", f"AxlaDevice(id={number})")
        for kind, memory in enumerate(own):
            memory.id, memory.kind_id = first + kind, kind
            memory.devices, memory.num_devices = self._table([device]), 1
            self._say(memory, "kind", MEMORY_KINDS[kind])
            text = f"AxlaMemory(id={memory.id}, kind={MEMORY_KINDS[kind]}, device={number})"
            for name in ("debug_string", "to_string"):
                self._say(memory, name, text)

    def _describe_client(self) -> None:
        struct, count = self.struct, len(self.devices)
        self._say(struct, "platform_name", "cpu")
        self._say(struct, "platform_version", f"axla {_VERSION}")
        struct.topology = self.address
        struct.devices = struct.addressable_devices = struct.descriptions = self.device_table
        struct.num_devices = struct.num_addressable_devices = struct.num_descriptions = count
        struct.addressable_memories, struct.num_addressable_memories = self.memory_table, len(self.memories)
        self.topology = json.dumps({"axla": _VERSION, "devices": count}).encode()
        struct.fingerprint = count

    def _say(self, struct: Any, name: str, text: str) -> None:
        data = c.create_string_buffer(text.encode())
        self._keep.append(data)
        setattr(struct, name, c.addressof(data))
        setattr(struct, f"{name}_size", len(data) - 1)

    def _table(self, structs: list[Any]) -> int:
        self._keep.append(addresses([c.addressof(one) for one in structs]))
        return c.addressof(self._keep[-1])

    def layouts(self, ranks: list[int]) -> list[int]:
        """The addresses of the layouts of arrays with these ranks."""
        return [self.first_layout + rank * LAYOUT.size for rank in ranks]

    def know(self, info: ShapeInfo) -> None:
        """Registers a shape with native code. It replaces the shape at the same position of the table."""
        number = known_number(info.element, info.dims)
        known = KNOWN.ctypes().from_address(self.known_shapes + number * KNOWN.size)
        known.info = None  # other threads may run between any two of these lines
        self._known[number] = info
        known.info_object = id(info)
        known.info = info.address

    def place(self, memory: int | None, device: int | None) -> tuple[int, int]:
        """The numbers of the device and of the memory that a caller selects by the address of one of them. By
        default both are 0.
        """
        if memory:
            return self.places[memory]
        return (self.numbers[device], 0) if device else (0, 0)


variables: dict[str, int] = {}
"""The addresses of emitted variables; filled when the plugin is made."""
_made: list[NativeDevices] = []


def devices() -> NativeDevices:
    """The devices of the created client."""
    return _made[0]


def placed(array: Array, place: tuple[int, int]) -> Array:
    """Assigns a new array to a device and a memory, whose numbers are `place`. Returns the array."""
    head = _Record.from_address(array._record)
    head.device = place[0]
    head.flags |= place[1] << MEMORY_SHIFT
    return array


@implements("Client_Create")
def _create(args: Any) -> None:
    """Creates the client, with the number of devices given by the first caller."""
    if not _made:
        options = named_integers(args.create_options, args.num_options)
        _made.append(NativeDevices(options.get("devices", 1)))
        incref(_made[0])  # it is used after the interpreter has ended, too
    args.client = devices().address


@implements("Client_Destroy")
def _destroy(args: Any) -> None:
    """Does nothing: the client lives as long as the process."""


def _device(number: int) -> int:
    known = devices().devices
    if not 0 <= number < len(known):
        raise InvalidArgument(f"there is no device {number}; there are 0 to {len(known) - 1}")
    return c.addressof(known[number])


@implements("Client_LookupDevice")
def _lookup(args: Any) -> None:
    args.device = _device(args.id)


@implements("Client_LookupAddressableDevice")
def _lookup_addressable(args: Any) -> None:
    args.addressable_device = _device(args.local_hardware_id)


@implements("Client_DefaultDeviceAssignment")
def _assignment(args: Any) -> None:
    rows = devices().client.default_device_assignment(args.num_replicas, args.num_partitions)
    found = [number for row in rows for number in row]
    if args.default_assignment_size < len(found):
        raise InvalidArgument(f"the array holds {args.default_assignment_size} devices, wanted {len(found)}")
    (c.c_int * len(found)).from_address(args.default_assignment)[:] = found


@implements("Client_UpdateGlobalProcessInfo")
def _process_info(args: Any) -> None:
    """Does nothing: there is only one process."""


@implements("Device_MemoryStats")
def _memory_stats(args: Any) -> None:
    memory = native().memory
    clear(args, "bytes_in_use")
    args.bytes_in_use = memory.in_use
    args.bytes_limit, args.bytes_limit_is_set = memory.limit, 1
    args.bytes_reservable_limit, args.bytes_reservable_limit_is_set = memory.limit, 1
    args.num_allocs, args.num_allocs_is_set = memory.fresh, 1


@c.CFUNCTYPE(None, c.c_void_p)
def _nothing(address: int | None) -> None:
    """Does nothing: the object has no owner."""


NOTHING = c.cast(_nothing, c.c_void_p).value
"""The address of a deleter that does nothing, for memory that Python keeps."""


@implements("Device_GetAttributes")
def _attributes(args: Any) -> None:
    args.attributes = args.num_attributes = args.device_attributes = 0
    args.attributes_deleter = NOTHING


@implements("Device_CreateAsyncTrackingEvent")
def _tracking(args: Any) -> None:
    args.event = None


@implements("AsyncTrackingEvent_Destroy")
def _tracking_destroy(args: Any) -> None:
    """Does nothing: there are no tracked objects."""


@implements("TopologyDescription_Serialize")
def _serialize(args: Any) -> None:
    text = devices().topology
    args.serialized_bytes, args.serialized_bytes_size = _kept(text), len(text)
    args.serialized_topology, args.serialized_topology_deleter = 0, NOTHING


@implements("TopologyDescription_Destroy")
def _topology_destroy(args: Any) -> None:
    """Does nothing: the topology belongs to the client."""


_attributes_of_plugin: list[NamedValues] = []


def say_attributes(values: dict[str, Any]) -> None:
    """Sets the attributes of the plugin (Plugin_Attributes)."""
    _attributes_of_plugin[:] = [NamedValues(values)]


@implements("Plugin_Attributes")
def _plugin_attributes(args: Any) -> None:
    [values] = _attributes_of_plugin
    args.attributes, args.num_attributes = values.address, values.count


_texts: dict[bytes, Any] = {}


def _kept(data: bytes) -> int:
    if data not in _texts:
        _texts[data] = c.create_string_buffer(data, len(data))
    return c.addressof(_texts[data])
