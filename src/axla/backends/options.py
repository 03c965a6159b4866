"""The options of compilations and runs. `CompileOptions` can be converted to XLA's proto and flags, and
back.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from axla.core import flags as flag_table
from axla.core.dtypes import from_numpy
from axla.core.errors import InvalidArgument, UnsupportedError, choices, did_you_mean
from axla.core.shape import Shape
from axla.ir.graph import Module


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """All arguments of `axla.compile` except module and backend. Sequences become tuples, so that equal
    options compare equal. InvalidArgument names an option with an invalid value.

    `flags` overrides flags of the environment (docs/flags.md). It is a mapping from names to values, or a
    text such as `--xla_cpu_enable_fast_math=true`.
    """

    donate: tuple[int, ...] = ()
    """The indices of parameter leaves whose memory results may use."""
    num_replicas: int | None = None
    num_partitions: int | None = None
    """The number of replicas, and of partitions; None means those in the module's header."""
    device_assignment: tuple[tuple[int, ...], ...] | None = None
    """The id of a device for each partition of each replica; None means the first devices in order."""
    replicas: str | None = None
    """"first": only the first participant of the program runs."""
    target_cpu: str | None = None
    target_features: tuple[str, ...] | None = None
    arg_types: tuple[Any, ...] | None = None
    dim_args: tuple[int, ...] | None = None
    """The sizes for a module with unknown sizes (`?`), as in `axla.parse`."""
    flags: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        types = _sequence("arg_types", self.arg_types, "types")
        donate = _sequence("donate", self.donate, "integers", int | np.integer) or ()
        changes = {
            "donate": tuple(map(int, donate)),
            "device_assignment": _assignment(self.device_assignment),
            "target_features": _sequence("target_features", self.target_features, kind=str),
            "arg_types": types and tuple(map(_type, types)),
            "dim_args": _sequence("dim_args", self.dim_args, "integers"),
            "flags": _flags(self.flags),
        }
        if not isinstance(self.target_cpu, str | None):
            raise InvalidArgument(f"compile: target_cpu={self.target_cpu!r}, wanted a text")
        for name, value in changes.items():
            object.__setattr__(self, name, value)
        for name in ("num_replicas", "num_partitions"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 1):
                raise InvalidArgument(f"compile: {name}={count!r}, wanted a number of at least 1")
        counted = self.num_replicas is not None or self.num_partitions is not None
        if self.replicas is not None and (self.replicas != "first" or counted):
            raise InvalidArgument(
                f"compile: replicas={self.replicas!r}; wanted 'first', without num_replicas and "
                "num_partitions"
            )

    def participants(self, module: Module) -> tuple[int, int]:
        """The numbers of (replicas, partitions) with which a module runs."""
        if self.replicas is not None:
            return 1, 1
        config = module.config
        return self.num_replicas or config.replica_count, self.num_partitions or config.num_partitions

    def refuse_machine(self, backend: str) -> None:
        """Raises InvalidArgument if the options name a CPU or features of one. For backends that do not
        support these options.
        """
        if self.target_cpu is not None or self.target_features is not None:
            raise InvalidArgument(
                f"compile: the backend {backend} supports neither target_cpu nor target_features"
            )

    # XLA's flags.

    @classmethod
    def from_flags(cls, text: str, **options: Any) -> CompileOptions:
        """Makes options from a text of flags, `--name=value ...`, with XLA's names or axla's."""
        return cls(flags=_flags(text), **options)

    def to_flags(self) -> str:
        """The flags as text, with XLA's names if there are any, else axla's."""
        return " ".join(f"--{_spelling(name)}={_flag_text(value)}" for name, value in self.flags)

    # XLA's proto.

    @classmethod
    def from_proto(cls, data: bytes) -> CompileOptions:
        """Reads options from a serialised CompileOptionsProto.

        Fields that do not affect results are ignored: DebugOptions that axla has no flag for, effort,
        profiles. Raises UnsupportedError, with the field's name, for other fields that axla does not support,
        and InvalidArgument for an unknown flag.
        """
        from axla.proto import decode

        whole = decode(data, "CompileOptionsProto")
        build = whole.get("executable_build_options", {})
        for message in (whole, build):
            for name in _REFUSED & message.keys():
                if message[name]:
                    raise UnsupportedError(f"compile options: {name} is set, which axla does not support")
        partitions = build.get("num_partitions") or None
        if build.get("process_count", 1) > 1:
            raise UnsupportedError("compile options: use axla.distributed.initialize, not process_count")
        debug = build.get("debug_options", {})
        given = {name: debug[name] for name in debug if name in flag_table.SPELLINGS}
        for entry in whole.get("env_option_overrides", ()):
            given |= {entry.get("key", ""): v for v in entry.get("value", {}).values()}
        own = {name: _from_json(name, given.pop(f"axla_{name}")) for name in _OWN if f"axla_{name}" in given}
        assignment = build.get("device_assignment")
        return cls(
            num_replicas=build.get("num_replicas") or None, num_partitions=partitions,
            device_assignment=assignment and _by_replica(assignment), flags=_unlike_default(given), **own,
        )  # fmt: skip

    def to_proto(self) -> bytes:
        """The options as a serialised CompileOptionsProto. Options that XLA has no field for are entries
        `axla_donate` and so on in `env_option_overrides`, as JSON.
        """
        from axla.proto import encode
        from axla.proto.schema import TABLES

        build: dict[str, Any] = {"device_ordinal": -1}
        build["num_replicas"], build["num_partitions"] = self.num_replicas or 0, self.num_partitions or 0
        if self.device_assignment is not None:
            build["device_assignment"] = _by_partition(self.device_assignment)
        whole: dict[str, Any] = {"executable_build_options": build}
        debug: dict[str, Any] = {}
        texts = {
            f"axla_{n}": json.dumps(getattr(self, n), default=_type_text) for n in _OWN if getattr(self, n)
        }
        for name, value in self.flags:
            name = _spelling(name)
            if name in TABLES["DebugOptions"].fields:
                debug[name] = list(value) if isinstance(value, tuple) else value
            else:
                texts[name] = _flag_text(value)
        build["debug_options"] = debug
        whole["env_option_overrides"] = [
            {"key": name, "value": {"string_field": text}} for name, text in texts.items()
        ]
        return encode(whole, "CompileOptionsProto")


@dataclass(frozen=True, slots=True)
class ExecuteOptions:
    """The options of one run."""

    deadline: float | None = None
    """The seconds after which the run stops."""
    donate: tuple[int, ...] = ()
    """The indices of inputs that are deleted in addition to the aliased ones."""
    asynchronous: bool = False
    """Whether the run may continue after `execute` has returned."""


def options_of(options: object, keywords: Mapping[str, Any]) -> CompileOptions:
    """Converts options to CompileOptions. They are given as an object, as a proto (bytes, or an object with
    SerializeAsString), or as keywords.
    """
    unknown = [name for name in keywords if name not in NAMES]
    if unknown:
        raise InvalidArgument(f"compile: there is no option {unknown[0]!r}; {choices(NAMES, unknown[0])}")
    if options is None:
        return CompileOptions(**keywords)
    serialize = getattr(options, "SerializeAsString", None)
    data = serialize() if serialize is not None else options
    if isinstance(data, bytes):
        data = CompileOptions.from_proto(data)
    if not isinstance(data, CompileOptions):
        raise InvalidArgument(
            f"compile: wanted CompileOptions or their proto, found {type(options).__name__}"
        )
    return dataclasses.replace(data, **keywords) if keywords else data


NAMES = tuple(field.name for field in dataclasses.fields(CompileOptions))

_OWN = ("donate", "replicas", "target_cpu", "target_features", "arg_types", "dim_args")
"""The options that XLA's proto has no field for."""

_REFUSED = {
    "argument_layouts", "parameter_is_tupled_arguments", "serialized_multi_slice_config", "result_layout",
    "use_auto_spmd_partitioning", "alias_passthrough_params", "run_backend_only", "slice_size",
    "auto_spmd_partitioning_mesh_shape", "auto_spmd_partitioning_mesh_ids",
}  # fmt: skip
"""Unsupported fields of the proto that would affect results, or the form of calls."""


def _sequence(name: str, values: Any, items: str = "texts", kind: Any = object) -> tuple[Any, ...] | None:
    """Returns the values of the option `name` as a tuple; None for None and for an empty sequence.
    InvalidArgument if a value is not of the class `kind`; `items` is the word for the values in the message.
    """
    if values is None:
        return None
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidArgument(f"compile: {name}: wanted a sequence of {items}, found {values!r}")
    found = tuple(values)
    if not all(isinstance(v, kind) for v in found):
        raise InvalidArgument(f"compile: {name}: wanted a sequence of {items}, found {found!r}")
    return found or None


def _assignment(value: Any) -> tuple[tuple[int, ...], ...] | None:
    """Converts a device assignment to rows of device ids, one row per replica. It is an array, nested
    sequences, or XLA's DeviceAssignment.
    """
    if value is None:
        return None
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or array.dtype.kind not in "iu" or not array.size:
        raise InvalidArgument(
            f"compile: device_assignment={value!r}, wanted a device for each partition of each replica"
        )
    if len(np.unique(array)) != array.size:
        raise InvalidArgument(f"compile: device_assignment={array.tolist()} names a device twice")
    rows: Any = array.tolist()
    return tuple(tuple(row) for row in rows)


def _type(given: Any) -> Any:
    """Replaces an array by its shape, so that options do not keep the array in memory."""
    if isinstance(given, np.ndarray | np.generic):
        return Shape(from_numpy(given.dtype), given.shape)
    return given


def _type_text(given: Any) -> str:
    if isinstance(given, Shape):
        return given.to_string(layout=False)
    raise UnsupportedError(f"compile options: arg_types has {given!r:.100}, which cannot be written as text")


def _from_json(name: str, text: Any) -> Any:
    """Reads the value of the option `name` from JSON."""
    from axla.text.shapes import parse_shape

    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        raise InvalidArgument(f"compile options: axla_{name}={text!r}, wanted JSON") from None
    if name == "arg_types" and isinstance(value, list):
        return [parse_shape(v) if isinstance(v, str) and re.match(r"\w+\[", v) else v for v in value]
    return value


def _flags(given: Any) -> tuple[tuple[str, Any], ...]:
    """Returns pairs of fields of `Flags` and their values, sorted by name. InvalidArgument for unknown flags
    and invalid values.
    """
    if isinstance(given, str):
        given = flag_table.parse(given, "compile: flags")
    try:
        pairs = dict(given).items()
    except (TypeError, ValueError):
        raise InvalidArgument(f"compile: flags={given!r}, wanted names with values, or a text") from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        field = flag_table.SPELLINGS.get(name, name)
        if field not in flag_table.FIELDS:
            raise InvalidArgument(
                f"compile: there is no flag {name!r}{did_you_mean(name, flag_table.SPELLINGS)}"
            )
        found[field] = flag_table.convert(field, _flag_text(value), str(name))
    return tuple(sorted(found.items()))


def _unlike_default(given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Removes flags that have their default values, since XLA writes all of them."""
    default = flag_table.Flags()
    return tuple((n, v) for n, v in _flags(given) if v != getattr(default, n))


def _spelling(name: str) -> str:
    return flag_table.spellings_of(name)[0]


def _flag_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        ",".join(map(str, value)) if isinstance(value, tuple | list) else "" if value is None else str(value)
    )


def _by_partition(rows: tuple[tuple[int, ...], ...]) -> dict[str, Any]:
    """Makes a DeviceAssignmentProto, which lists the devices of all replicas for each partition."""
    columns = [{"replica_device_ids": list(column)} for column in zip(*rows, strict=True)]
    return {"replica_count": len(rows), "computation_count": len(columns), "computation_devices": columns}


def _by_replica(message: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    columns = [column.get("replica_device_ids", ()) for column in message.get("computation_devices", ())]
    if len({len(column) for column in columns}) > 1:
        raise InvalidArgument("compile options: device_assignment: partitions have different replica counts")
    return tuple(zip(*columns, strict=True))
