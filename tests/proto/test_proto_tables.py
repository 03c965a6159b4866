"""The tables against the descriptors of the messages, which jaxlib's library has in it."""

from __future__ import annotations

import importlib.util
import mmap
from pathlib import Path

import pytest

from axla.proto.schema import ENUMS, TABLES
from axla.proto.wire import unknown_fields

FILES = (
    b"xla/service/hlo.proto",
    b"xla/xla_data.proto",
    b"xla/xla.proto",
    b"xla/pjrt/proto/compile_options.proto",
)
PARTS = {"HloModuleConfigProto", "DebugOptions", "ExecutableBuildOptionsProto", "CompileOptionsProto"}
"""Options of a compilation: of these, what axla has a place for."""
KINDS = {
    1: "f64", 2: "f32", 3: "i64", 4: "u64", 5: "i32", 8: "bool", 9: "str", 11: "message", 12: "bytes",
    13: "u32", 14: "enum",
}  # fmt: skip
NESTED = {
    "StackFrame": "StackFrameIndexProto", "RecoveryEntry": "Entry", "BufferLocation": "Location",
    "AssignedBuffer": "Assigned", "HeapEvent": "Event", "ModuleProfileInfo": "HloModuleProto.ProfileInfo",
    "ProfileInfo": "OpMetadata.ProfileInfo", "MapEntry": "FrontendAttributes.MapEntry",
}  # fmt: skip


def all_of(fields, number):
    return [value for n, _, value in fields if n == number]


def one_of(fields, number, default=None):
    found = all_of(fields, number)
    return found[-1] if found else default


def collect(data, prefix, messages, enums):
    fields = unknown_fields(data)
    name = prefix + one_of(fields, 1).decode()
    messages[name] = {}
    for field in map(unknown_fields, all_of(fields, 2)):
        kind, repeated = KINDS[one_of(field, 5)], one_of(field, 4) == 3
        messages[name][one_of(field, 1).decode()] = (one_of(field, 3), kind, repeated)
    for inner in all_of(fields, 3):
        collect(inner, name + ".", messages, enums)
    for inner in all_of(fields, 4):
        enums.append(numbers_of(inner))


def numbers_of(data):
    values = map(unknown_fields, all_of(unknown_fields(data), 2))
    return {one_of(v, 1).decode(): one_of(v, 2, 0) for v in values}


@pytest.fixture(scope="module")
def descriptors():
    spec = importlib.util.find_spec("jaxlib")
    library = Path(spec.submodule_search_locations[0]) / "libjax_common.so" if spec else Path("none")
    if not library.is_file():
        pytest.skip("jaxlib's library is not there")
    messages, enums = {}, []
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name in FILES:
            begin = data.find(b"\n" + bytes([len(name)]) + name + b"\x12")
            assert begin >= 0
            raw = data[begin : begin + 100_000]
            # What follows the descriptor is something else: `syntax` is its last field.
            end = raw.index(b"b\x06proto3") + 8
            fields = unknown_fields(raw[:end])
            for message in all_of(fields, 4):
                collect(message, "", messages, enums)
            enums += map(numbers_of, all_of(fields, 5))
    return messages, enums


def descriptor_of(name, messages):
    if name == "StackFrame":
        return messages["StackFrameIndexProto.StackFrame"]
    wanted = NESTED.get(name, name)
    found = [m for m in messages if m == wanted] or [m for m in messages if m.split(".")[-1] == wanted]
    if name == "RecoveryEntry":
        found = ["OriginalValueRecoveryTableProto.Entry"]
    assert len(found) == 1, (name, found)
    return messages[found[0]]


def test_every_field_is_as_xla_has_it(descriptors):
    messages, _ = descriptors
    for name, table in TABLES.items():
        known = descriptor_of(name, messages)
        for field in table.fields.values():
            if not field.name.startswith("axla_"):
                assert known[field.name] == (field.number, field.scalar, field.repeated), (name, field.name)


def test_no_field_is_missing(descriptors):
    messages, _ = descriptors
    for name, table in TABLES.items():
        if name not in PARTS:
            assert set(descriptor_of(name, messages)) <= set(table.fields), name


def test_enumerations_are_as_xla_has_them(descriptors):
    _, enums = descriptors
    for name, enum in ENUMS.items():
        numbers = {n: v for n, v in enum.numbers.items() if n != "PACKED_NIBBLE"}  # XLA had it once
        assert numbers in enums, name
