"""Programs of the client: compiled from JAX's lowered modules, run for the client, and described to it."""

from __future__ import annotations

import ctypes as c
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from axla import api
from axla.backends import CompileOptions, Executable
from axla.backends.native import NativeExecutable
from axla.codegen.native.structs import CALLABLE, PENDING, RECORD
from axla.core import flags
from axla.core.errors import InvalidArgument, ParseError
from axla.core.profile import watch
from axla.core.python_api import incref
from axla.core.shape import AnyShape, Shape
from axla.core.status import Status
from axla.ir.sharding import Sharding, tiling
from axla.passes.expand.partition import partitioned
from axla.passes.expand.propagation import Propagation
from axla.pjrt.buffers import (
    DELETED,
    TOKEN,
    array_at,
    copy_of,
    handed_out,
    native_watched,
    ready_event,
    token,
)
from axla.pjrt.callbacks import attach
from axla.pjrt.client import NOTHING, devices, placed
from axla.pjrt.contexts import functions_of
from axla.pjrt.errors import StatusError
from axla.pjrt.functions import implements
from axla.pjrt.options import check_option
from axla.pjrt.partitions import split_callbacks, tell_shardings
from axla.pjrt.structs import EXECUTABLE, MEMORY_KINDS
from axla.pjrt.table import STRUCTS, NamedValues, addresses, clear, integers, text_at, view
from axla.pjrt.whole import joined, parts_of
from axla.proto import decode, encode
from axla.proto.sharding import sharding_message
from axla.proto.writer import module_message
from axla.runtime.array import Array
from axla.runtime.shape_info import ELEMENTS
from axla.stablehlo import mlir
from axla.stablehlo.importer.program import functions_of as functions_in
from axla.stablehlo.modules import entry_of, import_source

_Record: Any = RECORD.ctypes()
_LogicalIds: Any = STRUCTS["LogicalDeviceIds"].ctypes()


class PjrtExecutable:
    """A program that the client compiled or loaded, with the answers to the client's queries about it."""

    def __init__(self, code: bytes, options: bytes, loaded: bytes | None = None) -> None:
        """`code` is StableHLO bytecode, `options` a CompileOptionsProto. `loaded` is an executable that axla
        compiled from both earlier and serialized; None to compile now.
        """
        self.code, self.options_text = code, options
        source = api.stablehlo(code)
        if source is None:
            raise ParseError("compile: the program is not StableHLO bytecode")
        self.module = import_source(source)
        self.callbacks = attach(self.module)
        told = CompileOptions.from_proto(_known(options))
        self.counts = told.participants(self.module)
        self.module.set_config(replica_count=self.counts[0], num_partitions=self.counts[1])
        rows = told.device_assignment or devices().client.default_device_assignment(*self.counts)
        self.device_ids = [number for row in rows for number in row]
        found = Propagation(self.module) if self.counts[1] > 1 else None
        if found is not None:
            tell_shardings(self.module, found)
        self.cut = None if found is None or found.has_regions else partitioned(found)
        self.is_whole = found is not None and self.cut is None and not (found.has_regions or found.has_sums)
        if found is not None and self.is_whole and self.callbacks is not None:
            self.module = split_callbacks(found, self.callbacks) or self.module
        self.executable = self._compiled(told, loaded)
        face = self.executable.interface
        self.tokens_in = [not isinstance(p.shape, Shape) for p in self.module.entry.parameters]
        leaves = list(self.module.entry.root.shape.leaves())
        self.tokens_out = [not isinstance(leaf, Shape) for leaf in leaves]
        self.kinds = _memory_kinds(source, len(leaves))
        self.arguments = found.arguments if found else [None] * len(self.tokens_in)
        self.results = found.results if found else [None] * len(self.tokens_out)
        self._shardings_in = [s for s, token in zip(self.arguments, self.tokens_in, strict=True) if not token]
        self._shardings_out = [s for s, token in zip(self.results, self.tokens_out, strict=True) if not token]
        self.functions: list[Any] = []
        arrays = [n for n, is_token in enumerate(self.tokens_in) if not is_token]
        given = {a.parameter for a in self.module.config.aliases}
        given |= {parameter for parameter, _ in self.module.config.buffer_donors}
        self.donated = [arrays.index(n) for n in sorted(given) if n in arrays]
        self.extra = [n for n in self.donated if n not in face.donated]
        self.struct: Any = EXECUTABLE.ctypes()()
        self.asked_for: bytes | None = None  # set after a query for the size, until the query for the bytes
        self._keep: list[Any] = []
        self._texts: dict[bytes, Any] = {}
        self.costs: NamedValues | None = None
        self._describe(leaves)
        watch(self)

    def _compiled(self, options: CompileOptions, loaded: bytes | None) -> Executable:
        module = self.cut or self.module
        donors = [parameter for parameter, _ in module.config.buffer_donors]
        options = replace(options, donate=tuple(donors))
        if self.is_whole:
            options = replace(options, num_replicas=1, num_partitions=1, device_assignment=((0,),), donate=())
        client = devices().client
        return client.load(loaded) if loaded is not None else client.compile(module, options)

    def profiling(self, profile: Any) -> None:
        """Makes Python run the program while a profile is recorded (`profile` is not None), since Python
        measures runs.
        """
        self.struct.callable = None if profile is not None else self._call

    # Description.

    def _describe(self, leaves: Sequence[AnyShape]) -> None:
        struct, executable = self.struct, self.executable
        struct.num_replicas, struct.num_partitions = self.counts
        struct.num_outputs = struct.num_output_types = len(leaves)
        name = self.module.name.encode()
        self.fingerprint = _fingerprint(self.code + self.options_text)
        struct.executable_name, struct.executable_name_size = self.kept(name), len(name)
        struct.executable_fingerprint = self.kept(self.fingerprint)
        struct.executable_fingerprint_size = len(self.fingerprint)
        known = devices()
        places = [c.addressof(known.devices[n]) for n in self.device_ids]
        struct.addressable_devices, struct.num_addressable_devices = self.keep(addresses(places)), len(places)
        ids = (_LogicalIds * len(places))(*(divmod(n, self.counts[1]) for n in range(len(places))))
        struct.addressable_device_logical_ids = self.keep(ids)
        struct.num_addressable_device_logical_ids = len(places)
        kinds = [MEMORY_KINDS[kind] for kind in self.kinds]
        struct.memory_kinds = self.keep(addresses([self.kept(kind.encode()) for kind in kinds]))
        struct.memory_kind_sizes = self._numbers([len(kind) for kind in kinds])
        struct.num_parameters = len(self.tokens_in)
        ranks = [p.shape.rank if isinstance(p.shape, Shape) else 0 for p in self.module.entry.parameters]
        struct.parameter_layouts = self.keep(addresses(devices().layouts(ranks)))
        ranks = [leaf.rank if isinstance(leaf, Shape) else 0 for leaf in leaves]
        struct.output_layouts = self.keep(addresses(devices().layouts(ranks)))
        shapes = [leaf if isinstance(leaf, Shape) else None for leaf in leaves]
        types = [ELEMENTS.get(s.dtype.name, 0) if s is not None else TOKEN for s in shapes]
        struct.output_types = self._numbers(types, c.c_int32)
        struct.dims = self._numbers([d for s in shapes if s is not None for d in s.dims])
        struct.dim_sizes = self._numbers([len(s.dims) if s is not None else 0 for s in shapes])
        struct.size_in_bytes = executable.memory().code
        struct.owner = id(self)
        self._call = None
        if isinstance(executable, NativeExecutable) and self._is_plain():
            self._call = id(executable._native_call)
            struct.program = CALLABLE.ctypes().from_address(self._call).program
        struct.callable = self._call

    def _is_plain(self) -> bool:
        """Whether native code may call the program: it has one run on the first device, with arrays only."""
        special = (
            any(self.tokens_in) or any(self.tokens_out) or any(self.kinds) or self.extra or self.is_whole
        )
        face = self.executable.interface
        return not special and self.device_ids == [0] and not face.is_dynamic and not self._calls_python()

    def _calls_python(self) -> bool:
        functions = self.executable.interface.functions
        return self.callbacks is not None or any(function.api == "python" for function in functions)

    def kept(self, data: bytes) -> int:
        """Copies bytes to memory that lives as long as the program; returns the address of the copy."""
        if data not in self._texts:
            self._texts[data] = c.create_string_buffer(data, max(len(data), 1))
        return c.addressof(self._texts[data])

    def keep(self, memory: Any) -> int:
        """Keeps a ctypes object as long as the program; returns its address."""
        self._keep.append(memory)
        return c.addressof(memory)

    def _numbers(self, values: list[int], kind: Any = c.c_int64) -> int:
        return self.keep((kind * max(len(values), 1))(*values))

    # Runs.

    def run(self, rows: list[list[Array]], kept: set[int]) -> list[list[Array]]:
        """Runs the program. `rows` has the arguments of each participant; returns the results of each,
        including tokens. `kept`: the numbers of arguments that must not be donated.
        """
        given = [[a for a, is_token in zip(row, self.tokens_in, strict=True) if not is_token] for row in rows]
        for row in given:
            for number, array in enumerate(row):
                if array.is_deleted:
                    raise StatusError(Status.INVALID_ARGUMENT, DELETED)
                if number in kept and number in self.donated:
                    row[number] = copy_of(array)
        found = (self._run_whole if self.is_whole else self._run)(
            given, [n for n in self.extra if n not in kept]
        )
        return [self._placed(row, device) for row, device in zip(found, self.device_ids, strict=True)]

    def _run(self, rows: list[list[Array]], donate: list[int]) -> list[list[Array]]:
        """Runs the program; returns the results of each participant that are arrays. `rows` has the arguments
        of each participant, `donate` the numbers of further arguments to donate.
        """
        if self.callbacks is not None:
            self.callbacks.functions = self.functions
        asynchronous = not self._calls_python()
        if len(rows) == 1:
            return [self.executable.execute(rows[0], donate=donate, asynchronous=asynchronous)]
        return self.executable.execute_replicated(rows, donate=donate, asynchronous=asynchronous)

    def _run_whole(self, rows: list[list[Array]], donate: list[int]) -> list[list[Array]]:
        """Runs a program on whole arrays. `rows` has the parts of the arguments for each participant; returns
        the parts of the results that are arrays, for each participant.
        """
        cuts = [tiling(s, a.ndim, len(rows)) for s, a in zip(self._shardings_in, rows[0], strict=True)]
        whole = [joined(parts, cut) for parts, cut in zip(zip(*rows, strict=True), cuts, strict=True)]
        [found] = self._run([whole], [])
        for row in rows:
            for number in self.donated:
                row[number].delete()
        cuts = [tiling(s, a.ndim, len(rows)) for s, a in zip(self._shardings_out, found, strict=True)]
        parts = [parts_of(array, cut) for array, cut in zip(found, cuts, strict=True)]
        return [[one[n] for one in parts] for n in range(len(rows))]

    def _placed(self, row: list[Array], device: int) -> list[Array]:
        arrays = iter(row)
        found = [token() if is_token else next(arrays) for is_token in self.tokens_out]
        return [placed(array, (device, kind)) for array, kind in zip(found, self.kinds, strict=True)]

    # Texts and bytes.

    def sharding_protos(self, which: str) -> list[bytes]:
        """The shardings of "arguments" or "results" as OpSharding protos; none for one partition."""
        found = self.arguments if which == "arguments" else self.results
        if self.counts[1] == 1:
            return []
        return [encode(sharding_message(s or Sharding("replicated")), "OpSharding") for s in found]

    def serialized(self) -> bytes:
        """The program as bytes, from which the function `loaded` recreates it."""
        head = b"%d %d %s\n" % (len(self.code), len(self.options_text), self.fingerprint)
        return head + self.code + self.options_text + self.executable.serialize()

    def optimized(self) -> bytes:
        """The optimized module, as an HloModuleProtoWithConfig."""
        module = self.executable._optimized()
        proto = module_message(module)
        proto.pop("schedule", None)  # XLA requires a sequence for each computation in it
        config = {
            "entry_computation_layout": proto["host_program_shape"],
            "replica_count": module.config.replica_count, "num_partitions": module.config.num_partitions,
        }  # fmt: skip
        return encode({"hlo_module": proto, "config": config}, "HloModuleProtoWithConfig")


def loaded(data: bytes) -> PjrtExecutable:
    """The program in the bytes from `serialized`; InvalidArgument for other bytes."""
    head, _, rest = data.partition(b"\n")
    try:
        code, options, fingerprint = head.split()
        at, end = int(code), int(code) + int(options)
    except ValueError:
        raise InvalidArgument("these bytes are not a program that axla serialised") from None
    if fingerprint != _fingerprint(rest[:end]):
        raise InvalidArgument("a program that axla serialised is damaged or incomplete")
    return PjrtExecutable(rest[:at], rest[at:end], rest[end:])


def _fingerprint(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).hexdigest().encode()


def _known(options: bytes) -> bytes:
    """A CompileOptionsProto without XLA flags that axla does not have; StatusError for unknown options."""
    message = decode(options, "CompileOptionsProto")
    overrides = message.get("env_option_overrides", [])
    for entry in overrides:
        name = entry.get("key", "")
        if name not in flags.SPELLINGS and not name.startswith(("xla_", "axla_")):
            raise StatusError(Status.INVALID_ARGUMENT, f"No such compile option: {name!r}")
        check_option(name, entry.get("value", {}))
    kept = [entry for entry in overrides if entry.get("key", "") in flags.SPELLINGS or entry["key"][0] == "a"]
    return encode({**message, "env_option_overrides": kept}, "CompileOptionsProto")


def _memory_kinds(source: mlir.Source, count: int) -> list[int]:
    """The memory kind of each of the `count` results, as its index in MEMORY_KINDS; 0 if the program names
    none.
    """
    said = functions_in(source)[entry_of(source)].attributes.get("res_attrs")
    rows = said if isinstance(said, tuple) else ({},) * count
    names = [row.get("mhlo.memory_kind", "device") if isinstance(row, dict) else "device" for row in rows]
    return [MEMORY_KINDS.index(name) if name in MEMORY_KINDS else 0 for name in names]


# Functions of the API.


def program_at(handle: int) -> PjrtExecutable:
    """The Python object of a loaded executable, given its C address."""
    owner = EXECUTABLE.ctypes().from_address(handle).owner
    return c.cast(owner, c.py_object).value


def _given(program: PjrtExecutable) -> int:
    """A handle for a program; the caller owns a reference to the program."""
    incref(program)
    return c.addressof(program.struct)


@implements("Client_Compile")
def _compile(args: Any) -> None:
    with view(STRUCTS["Program"], args.program) as program:
        code = c.string_at(program.code, program.code_size)
        form = text_at(program.format, program.format_size)
    if form != "mlir":
        raise InvalidArgument(f"compile: the program has format {form!r}, wanted 'mlir'")
    args.executable = _given(
        PjrtExecutable(code, c.string_at(args.compile_options, args.compile_options_size))
    )


@implements("LoadedExecutable_Delete")
def _delete(args: Any) -> None:
    EXECUTABLE.ctypes().from_address(args.executable).is_deleted = 1


@implements("LoadedExecutable_GetDeviceAssignment")
def _device_assignment(args: Any) -> None:
    program = program_at(args.executable)
    replicas, partitions = program.counts
    columns = [{"replica_device_ids": program.device_ids[p::partitions]} for p in range(partitions)]
    message = {"replica_count": replicas, "computation_count": partitions, "computation_devices": columns}
    _give_bytes(args, program, encode(message, "DeviceAssignmentProto"), "serialized_device_assignment")


def _give_bytes(args: Any, program: PjrtExecutable, data: bytes, owner: str) -> None:
    """Passes bytes, which live as long as the program, to the caller. `owner` is the field of `args` for an
    object to delete, which is null.
    """
    args.serialized_bytes, args.serialized_bytes_size = program.kept(data), len(data)
    setattr(args, owner, None)
    setattr(args, f"{owner}_deleter", NOTHING)


@implements("Executable_GetCompileOptions")
def _options(args: Any) -> None:
    program = program_at(args.executable)
    _give_bytes(args, program, program.options_text, "serialized_compile_options")


@implements("Executable_Serialize")
def _serialize(args: Any) -> None:
    program = program_at(args.executable)
    _give_bytes(args, program, program.serialized(), "serialized_executable")


@implements("Executable_DeserializeAndLoad")
def _deserialize(args: Any) -> None:
    data = c.string_at(args.serialized_executable, args.serialized_executable_size)
    args.loaded_executable = _given(loaded(data))


@implements("Executable_OptimizedProgram")
def _optimized_program(args: Any) -> None:
    program = program_at(args.executable)
    form = b"hlo_with_config"
    data = program.asked_for or program.optimized()
    with view(STRUCTS["Program"], args.program) as wanted:
        wanted.format, wanted.format_size = program.kept(form), len(form)
        program.asked_for = None if wanted.code else data  # the first call asks for the size only
        if wanted.code:
            c.memmove(wanted.code, data, len(data))
        wanted.code_size = len(data)


@implements("Executable_GetCostAnalysis")
def _cost(args: Any) -> None:
    program = program_at(args.executable)
    if program.costs is None:
        found = program.executable.cost()
        values = {
            "flops": float(found.operations), "transcendentals": float(found.transcendentals),
            "bytes accessed": float(found.bytes),
        }  # fmt: skip
        program.costs = NamedValues(values)
    args.properties, args.num_properties = program.costs.address, program.costs.count


@implements("Executable_GetCompiledMemoryStats")
def _memory_stats(args: Any) -> None:
    found = program_at(args.executable).executable.memory()
    clear(args, "generated_code_size_in_bytes")
    args.generated_code_size_in_bytes = found.code
    args.argument_size_in_bytes, args.output_size_in_bytes = found.arguments, found.results
    args.alias_size_in_bytes, args.temp_size_in_bytes = found.aliased, found.temporaries
    total = found.arguments + found.results - found.aliased + found.temporaries
    args.peak_memory_in_bytes, args.total_size_in_bytes = total, total + found.constants + found.code
    args.total_allocation_bytes = args.total_size_in_bytes


@implements("LoadedExecutable_Execute")
def _execute(args: Any) -> None:
    program = program_at(args.executable)
    if program.struct.is_deleted:
        raise StatusError(Status.INVALID_ARGUMENT, f"{program.module.name}: the executable was deleted")
    lists = integers(args.argument_lists, args.num_devices, c.c_void_p)
    rows = [[array_at(handle) for handle in integers(one, args.num_args, c.c_void_p)] for one in lists]
    if args.num_devices != len(program.device_ids) or args.num_args != len(program.tokens_in):
        raise InvalidArgument(
            f"{program.module.name}: found {args.num_args} arguments for each of {args.num_devices} devices, "
            f"wanted {len(program.tokens_in)} for each of {len(program.device_ids)}"
        )
    with view(STRUCTS["ExecuteOptions"], args.options) as options:
        kept = {*integers(options.non_donatable_input_indices, options.num_non_donatable_input_indices)}
        program.functions = functions_of(options.context) if program.callbacks is not None else []
    results = program.run(rows, kept)
    outputs = integers(args.output_lists, args.num_devices, c.c_void_p)
    for place, row in zip(outputs, results, strict=True):
        if row:
            (c.c_void_p * len(row)).from_address(place)[:] = [handed_out(array) for array in row]
    if args.device_complete_events:
        events = [_event_of(row) for row in results]
        (c.c_void_p * len(events)).from_address(args.device_complete_events)[:] = events


def _event_of(row: list[Array]) -> int:
    """The event for the end of a run: the event of one of its results that is pending, or of one that is
    always ready.
    """
    for array in row:
        if _Record.from_address(array._record).ready <= PENDING:
            return native_watched[0](id(array))
    return ready_event()
