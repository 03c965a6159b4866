"""Bytes that are not a program: refused as ParseError with the place, in little time and memory."""

from __future__ import annotations

import random
import resource
import time

import pytest

from axla.core.errors import AxlaError, ParseError
from axla.stablehlo import mlir
from axla.stablehlo.bytecode import read
from axla.stablehlo.bytecode.vhlo import INHERENT, today
from axla.stablehlo.bytecode.wire import BadBytes

# ---- A writer of small files


def varint(value: int) -> bytes:
    size = max(1, -(-value.bit_length() // 7))
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return ((value << size) | (1 << size - 1)).to_bytes(size, "little")


def signed(value: int) -> bytes:
    return varint(((value << 1) ^ (value >> 63)) & (1 << 64) - 1)


def varints(*values: int) -> bytes:
    return b"".join(map(varint, values))


def section(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + varint(len(content)) + content


BUILTIN, VHLO = 0, 1
STRINGS = ["builtin", "vhlo", "module", "constant_v1", "x.y", "if_v1"]
MODULE, CONSTANT, IF = 0, 1, 2
UNKNOWN = (BUILTIN, varint(15))


def file(attributes: list, types: list, body: bytes, count: int, module: bytes | None = None) -> bytes:
    """A module of `count` operations, of version 6. Attribute 0 is the unknown location; attributes and types
    are pairs of a dialect and bytes.
    """
    attributes = [UNKNOWN, *attributes]
    strings = varint(len(STRINGS)) + varints(*(len(s) + 1 for s in reversed(STRINGS)))
    strings += b"".join(s.encode() + b"\0" for s in STRINGS)
    dialects = varints(2, 0 << 1, 1 << 1)
    dialects += varints(3, BUILTIN, 1, 2 << 1, VHLO, 2, 3 << 1, 5 << 1)
    entries = attributes + types
    sizes = varints(len(attributes), len(types))
    sizes += b"".join(varints(dialect, 1, len(data) << 1 | 1) for dialect, data in entries)
    region = varints(1, 0, count << 1) + body
    if module is None:
        module = varint(MODULE) + b"\x10" + varints(0, 1 << 1 | 1) + section(4, region)
    contents = [strings, dialects, b"".join(data for _, data in entries), sizes, varint(1 << 1) + module]
    return b"ML\xefR" + varint(6) + b"test\0" + b"".join(map(section, range(5), contents))


def with_attribute(*attributes: tuple[int, bytes], types=()) -> bytes:
    """The last attribute is the value of `x.y` of the module."""
    name, last = len(attributes) + 1, len(attributes)
    attributes = (*attributes, (BUILTIN, varints(2, 4)), (BUILTIN, varints(1, 1, name, last)))
    module = varint(MODULE) + b"\x11" + varints(0, name + 1, 1 << 1 | 1) + section(4, varints(1, 0, 0))
    return file(list(attributes), list(types), b"", 0, module)


F32 = (VHLO, varint(4))


def tensor(*sizes: int) -> tuple[int, bytes]:
    return VHLO, varints(20, len(sizes)) + b"".join(map(signed, sizes)) + varint(0)


def blob(kind: int, data: bytes) -> tuple[int, bytes]:
    return VHLO, varints(15, kind, len(data)) + data


def value_of(data: bytes):
    return read(data).module.attributes["x.y"]


def limited(data: bytes, seconds: float = 2.0):
    """Reads within some time and memory, whatever comes of it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    try:
        return read(data)
    except AxlaError as error:
        return error
    finally:
        assert time.process_time() - begin < seconds
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000 + len(data) // 2


def refused(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message) as error:
        read(data)
    assert "at byte" in str(error.value)


# ---- Tests


def test_the_writer_is_right():
    data = with_attribute(blob(1, b"\0\0\x80?"), types=[F32, tensor(2, 3)])
    found = value_of(data)
    assert isinstance(found, mlir.DenseElements) and found.type.shape == (2, 3)
    assert found.values.shape == () and found.values == 1.0


def test_a_splat_of_a_great_shape_is_one_element():
    found = value_of(with_attribute(blob(1, b"\0\0\x80?"), types=[F32, tensor(10**15)]))
    assert found.values.size == 1 and found.type.shape == (10**15,)
    refused(
        with_attribute(blob(1, bytes(8)), types=[F32, tensor(10**15)]),
        "8 bytes for 1000000000000000 elements",
    )
    refused(with_attribute(blob(1, b""), types=[F32, tensor(2**62, 2**62, 2**62)]), "0 bytes for")


def test_shapes_that_are_none():
    refused(with_attribute(blob(1, b""), types=[F32, tensor(-5)]), "negative sizes")
    refused(with_attribute(blob(1, bytes(4)), types=[F32, tensor(-(2**63))]), "dense elements of the type")
    refused(
        with_attribute(blob(1, bytes(4)), types=[(VHLO, varints(22)), tensor(2)]),
        "a tensor cannot have elements of",
    )


def test_references_in_a_circle():
    refused(with_attribute((BUILTIN, varints(0, 1, 1))), "contains itself")
    refused(with_attribute((BUILTIN, varints(0, 1, 2)), (BUILTIN, varints(0, 1, 1))), "contains itself")
    circle = [(VHLO, varints(1, 1))], [(VHLO, varints(1, 0))]
    refused(with_attribute((BUILTIN, varints(6, 0)), types=circle[1]), "contains itself")


def test_deep_nesting():
    for count, deep in ((90, False), (20_000, True)):
        chain = [(BUILTIN, varints(2, 4))] + [(BUILTIN, varints(0, 1, i + 1)) for i in range(count)]
        result = limited(with_attribute(*chain))
        assert isinstance(result, ParseError) == deep
        tuples = [F32, *((VHLO, varints(23, 1, i)) for i in range(count))]
        result = limited(with_attribute((BUILTIN, varints(6, count)), types=tuples))
        assert isinstance(result, ParseError) == deep


def test_doubling_is_refused():
    """Each entry has the one before twice: small in the file, without end for who walks it."""
    doubled = [(BUILTIN, varints(2, 4))] + [(BUILTIN, varints(0, 2, i + 1, i + 1)) for i in range(60)]
    refused(with_attribute(*doubled), "nested")


def test_counts_are_compared_with_what_is_left():
    for count in (2**20, 2**40, 2**62):
        refused(with_attribute((BUILTIN, varints(0, count))), f"{count} references")
        refused(with_attribute((BUILTIN, varints(1, count))), "references")
        refused(with_attribute((VHLO, varints(15, 0, count)), types=[F32]), f"{count} bytes of data")
        refused(with_attribute((VHLO, varints(10, count))), f"{count} integers")
        refused(file([], [], varint(IF) + b"\x02" + varints(0, count), 1), f"{count} results")
        refused(file([], [], varint(IF) + b"\x04" + varints(0, count), 1), f"{count} operands")
        refused(file([], [], varint(IF) + b"\x10" + varints(0, count << 1), 1), f"{count} regions")
    refused(file([], [], b"", 2**60), "ends too early|goes on after")


def test_values_that_regions_claim():
    """A region says how many values it has: all together at most one for each byte."""
    inner = varint(IF) + b"\x10" + varints(0, 1 << 1, 1, 500, 1 << 1)
    assert "values" in str(limited(file([], [], inner * 90 + varint(IF) + b"\0" + varint(0), 1)))
    assert "values" in str(limited(file([], [], inner * 5000, 1)))
    nested = varint(IF) + b"\x10" + varints(0, 1 << 1, 1, 0, 1 << 1)
    assert "nested more than" in str(limited(file([], [], nested * 5000, 1)))


def test_operands_are_defined_before():
    refused(file([], [], varint(IF) + b"\x04" + varints(0, 1, 0), 1), "not defined before its use")


def test_what_is_not_known():
    refused(with_attribute((BUILTIN, varint(77))), "the code 77")
    refused(with_attribute((VHLO, varint(26))), "the code 26")
    refused(with_attribute((VHLO, varints(3, 6))), "comparison_direction 6")
    refused(with_attribute((VHLO, varints(13, 0))), "rng_distribution 0")
    refused(with_attribute((VHLO, varints(2, 2))), "a boolean with the value 2")
    refused(b"ML\xefR" + varint(7) + b"\0", "version 7")
    refused(b"", "not MLIR bytecode")
    refused(b"module {}", "not MLIR bytecode")
    refused(b"ML\xefR" + varint(6) + b"test\0", "section 0 is missing")
    refused(b"ML\xefR" + varint(6) + b"test", "ends too early")
    refused(file([], [], varint(CONSTANT) + b"\0" + varint(0), 1), "without the attribute value")


def test_kinds_that_do_not_fit():
    refused(with_attribute((BUILTIN, varints(4, 0))), "instead of a string")
    refused(with_attribute((BUILTIN, varints(8, 0)), types=[F32]), "an integer attribute of the type")
    refused(
        with_attribute((BUILTIN, varints(9, 0)), types=[(VHLO, varint(13))]), "a float attribute of the type"
    )
    refused(with_attribute((BUILTIN, varints(1, 1, 0, 0))), "instead of a key")
    refused(with_attribute((BUILTIN, varints(14, 1, 1))), "contains itself")
    string = (BUILTIN, varints(2, 4))
    refused(file([string], [], varint(CONSTANT) + b"\0" + varint(1), 1), "str instead of a location")
    refused(file([string], [], varint(CONSTANT) + b"\x01" + varints(0, 1), 1), "str instead of the attr")


def test_fields_of_structures_are_of_their_kind():
    attributes = dict.fromkeys(INHERENT["vhlo.gather_v2"], mlir.FileLocation("a", 1, 2))
    with pytest.raises(BadBytes, match="kind FileLocation instead of a tensor"):
        today("vhlo.gather_v2", attributes)


def artifacts() -> list[bytes]:
    pytest.importorskip("jaxlib")
    from artifacts import parsed, plain, portable
    from vhlo_programs import PROGRAMS

    made = []
    for name in ("shapes", "contractions", "indexing", "control", "collectives", "constants", "locations"):
        made += [portable(PROGRAMS[name][0], version) for version in ("0.9.0", "1.4.0", "1.17.0")]
        made.append(plain(parsed(PROGRAMS[name][0])))
    return made


def mutated(data: bytes, source: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 5))):
        at = source.randrange(len(out))
        kind = source.random()
        if kind < 0.7:
            out[at] = source.randrange(256)
        elif kind < 0.9:
            other = source.randrange(len(out))
            out[at : at + 8] = out[other : other + 8]
        elif kind < 0.95:
            out[at:at] = source.randbytes(source.randrange(1, 9))
        else:
            del out[at : at + source.randrange(1, 9)]
    return bytes(out)


def test_mutations():
    source = random.Random(4)
    made = artifacts()
    results = [limited(mutated(source.choice(made), source)) for _ in range(1000)]
    assert {type(result) for result in results} == {mlir.Source, ParseError}


def test_every_prefix():
    made = artifacts()[0]
    for end in range(0, len(made), 37):
        refused(made[:end], "bytecode")
