"""Protos that were damaged: an AxlaError or a module, in little time, whatever is wrong."""

from __future__ import annotations

import random

import pytest

from axla import proto
from axla.core.errors import AxlaError, InternalError, UnsupportedError
from axla.ir.verify import verify
from axla.proto.schema import TABLES
from axla.text import parse_hlo
from sample_modules import sample_cases, sample_module

SEEDS = [proto.to_proto(sample_module(op, shapes)) for _, op, shapes in list(sample_cases())[::3]]
NUMBERS = (0, 1, -1, 2, 7, 63, 64, 1 << 20, (1 << 31) - 1, 1 << 33, 1 << 62, -(1 << 63), (1 << 63) - 1)


def read(data: bytes | str) -> str:
    """Reads damaged bytes. Any exception that is not an AxlaError, and any InternalError, fails the test."""
    try:
        module = proto.read(data)
        module.to_string()
        proto.to_proto(module)
        verify(module)
    except InternalError:
        raise
    except AxlaError as error:
        assert str(error)
        return type(error).__name__
    return "valid"


def damaged(rng: random.Random, data: bytearray) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, other = rng.randrange(len(data)), rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2 and len(data) > 20:
            del data[at : at + rng.randrange(1, 9)]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 6))
        else:
            data[at:at] = data[other : other + rng.randrange(1, 60)]
    return bytes(data)


def test_a_thousand_damaged_files():
    rng = random.Random(4)
    found = {read(damaged(rng, bytearray(rng.choice(SEEDS)))) for _ in range(1000)}
    assert {"ParseError", "valid"} <= found


def test_damaged_texts():
    rng = random.Random(5)
    for _ in range(200):
        text = proto.to_text_proto(proto.read(rng.choice(SEEDS)))
        read(damaged(rng, bytearray(text.encode())).decode("utf-8", "replace"))


def spots(message, table, found):
    """Every field of a message and of those inside it."""
    for name, value in message.items():
        field = table.fields[name]
        found.append((message, field))
        if field.message is not None:
            for inner in value if field.repeated else [value]:
                spots(inner, field.message, found)


def any_value(rng: random.Random, field):
    if field.message is not None:
        return {}
    if field.enum is not None:
        return rng.choice([*field.enum.numbers, 99])
    if field.scalar in ("i32", "i64"):
        return rng.choice(NUMBERS)
    return {
        "str": rng.choice(("", "x", 'a"b\n', "add", "parameter")), "bytes": b"\xff" * 5, "bool": True,
        "f32": float("nan"), "f64": 1e300, "u32": 3, "u64": 3,
    }[field.scalar]  # fmt: skip


def test_a_thousand_messages_that_say_something_else():
    rng = random.Random(6)
    found = set()
    instruction = list(TABLES["HloInstructionProto"].fields.values())
    for _ in range(1000):
        message = proto.decode(rng.choice(SEEDS), "HloModuleProto")
        places: list = []
        spots(message, TABLES["HloModuleProto"], places)
        for _ in range(rng.choice((1, 1, 2))):
            holder, field = rng.choice(places)
            holders = [i for c in message.get("computations", ()) for i in c.get("instructions", ())]
            if holders and rng.random() < 0.3:  # something that the op does not have, or of another op
                holder, field = rng.choice(holders), rng.choice(instruction)
            if field.array:
                continue
            values = list(holder.get(field.name, ())) if field.repeated else []
            kind = rng.randrange(4)
            if kind == 0:
                holder.pop(field.name, None)
            elif not field.repeated:
                holder[field.name] = any_value(rng, field)
            elif kind == 1 and values:
                values[rng.randrange(len(values))] = any_value(rng, field)
                holder[field.name] = values
            else:
                holder[field.name] = values * rng.choice((1, 2, 100)) + [any_value(rng, field)]
        found.add(read(proto.encode(message, "HloModuleProto")))
    assert {"ParseError", "valid"} <= found


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_files_that_end_early(length):
    read(SEEDS[0][:length])


def message_of(text: str) -> dict:
    return proto.decode(proto.to_proto(parse_hlo(text)), "HloModuleProto")


def test_recovery_modules_within_another():
    """Each is a string in the module around it, whose quotes are escaped there: twice the text each time."""
    inner = message_of("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }")
    for depth in range(1, 25):
        array = {"instruction_name": "p"}
        entry = {"old_original_array": array, "new_original_array": array, "recovery_module": inner}
        inner = inner | {"original_value_recovery_table": {"entries": [entry]}}
        data = proto.encode(inner, "HloModuleProto")
        if depth <= 3:
            assert read(data) == "valid"
        else:
            with pytest.raises(UnsupportedError, match="recovery modules are nested"):
                proto.read(data)


def test_one_long_sharding_for_many_leaves():
    message = message_of("HloModule m\nENTRY e { ROOT p = (f32[2]) parameter(0) }")
    del message["host_program_shape"]
    (computation,) = message["computations"]
    (parameter,) = computation["instructions"]
    parameter["shape"] = {"element_type": "TUPLE", "tuple_shapes": [{"element_type": "TOKEN"}] * 8000}
    parameter["sharding"] = {
        "type": "OTHER", "tile_assignment_dimensions": [8000],
        "tile_assignment_devices": list(reversed(range(8000))),
    }  # fmt: skip
    with pytest.raises(UnsupportedError, match="a sharding of 38903 characters is too long for 8000 leaves"):
        proto.read(proto.encode(message, "HloModuleProto"))
