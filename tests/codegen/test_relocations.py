"""Relocations of objects of every machine that the linker knows, on whatever machine the tests run."""

from __future__ import annotations

import ctypes as c
import struct
from dataclasses import replace

import pytest

from axla.codegen.elf import Elf
from axla.codegen.host import host_target
from axla.codegen.llvm import emit_object
from axla.codegen.native import glue
from axla.codegen.native.image import Image
from axla.codegen.native.relocations import MACHINES
from axla.target.machine import cpu_target

ADRP, ADD, LDR, BL, MOVK = 0x90000000, 0x91000000, 0xF9400000, 0x94000000, 0xF2800000
AT = 0x5555_0000_1234


def patched(machine, kind, old, target, at=AT):
    return MACHINES[machine].patch(kind, old, target, at)


def word(kind, instruction, target):
    return struct.unpack("<I", patched("aarch64", kind, struct.pack("<I", instruction), target))[0]


@pytest.mark.parametrize("distance", [0, 8, 4096, -4096, 0x7FFFF000, -0x7FFFF000])
def test_a_page_and_an_offset_make_an_address_again(distance):
    target = AT + distance
    adrp, add = word(275, ADRP, target), word(277, ADD, target)
    pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7FFFF) << 2
    pages -= (pages & 1 << 20) << 1
    assert (AT & ~0xFFF) + (pages << 12) + (add >> 10 & 0xFFF) == target
    assert adrp & 0x9F00001F == ADRP and add & 0xFFC003FF == ADD


@pytest.mark.parametrize("kind, scale", [(278, 0), (284, 1), (285, 2), (286, 3), (299, 4), (312, 3)])
def test_offsets_of_loads_count_what_they_load(kind, scale):
    assert word(kind, LDR, 0x12340) == LDR | (0x340 >> scale) << 10


def test_an_address_in_four_moves():
    target = 0x1234_5678_9ABC_DEF0
    fields = [word(kind, MOVK, target) >> 5 & 0xFFFF for kind in (269, 268, 266, 264)]
    assert fields == [0x1234, 0x5678, 0x9ABC, 0xDEF0]


@pytest.mark.parametrize("kind", [282, 283])
def test_branches_reach_128_megabytes(kind):
    far = 1 << 27
    assert word(kind, BL, AT + 8) == BL | 2
    assert word(kind, BL, AT - far) == BL | 1 << 25
    with pytest.raises(struct.error):
        word(kind, BL, AT + far)


@pytest.mark.parametrize("machine, kind, size", [("x86_64", 2, 4), ("x86_64", 24, 8), ("aarch64", 261, 4)])
def test_distances(machine, kind, size):
    assert patched(machine, kind, bytes(size), AT - 5) == (-5).to_bytes(size, "little", signed=True)
    if size == 4:
        with pytest.raises(struct.error):
            patched(machine, kind, bytes(size), AT + (1 << 31))


@pytest.mark.parametrize("machine, kind", [("x86_64", 1), ("aarch64", 257)])
def test_addresses(machine, kind):
    assert patched(machine, kind, bytes(8), AT) == AT.to_bytes(8, "little")


@pytest.mark.parametrize("cpu, machine", [("x86-64", "x86_64"), ("aarch64", "aarch64")])
def test_the_linker_knows_all_relocations_of_the_glue(cpu, machine):
    plain = cpu_target(cpu)
    target = replace(plain, form=replace(plain.form, relocation="pic", code_model="small"))
    found = Elf(emit_object(glue.emit(machine).text(), target, level=0))
    known = MACHINES[machine]
    assert found.machine == known.number
    kinds = set()
    for section in found.sections:
        if section.kind == 4:
            table = found.data[section.offset : section.offset + section.size]
            kinds |= {info & 0xFFFFFFFF for _, info, _ in struct.iter_unpack("<QQq", table)}
    assert kinds and kinds <= set(known.sizes)


def test_addresses_of_other_objects_are_read_and_called():
    """A caller in one object, a function of another: its address is a place's, calls reach it by a jump."""
    ours = """
    declare i64 @there(i64)
    define ptr @address() { ret ptr @there }
    define i64 @called(i64 %x) { %y = call i64 @there(i64 %x) ret i64 %y }
    """
    there = "define i64 @there(i64 %x) { %y = mul i64 %x, 3 ret i64 %y }"
    target = replace(host_target(), form=replace(host_target().form, relocation="pic", code_model="small"))
    other = Image([("other", emit_object(there, target))], ["there"])
    found = Image([("ours", emit_object(ours, target))], ["address", "called"], other.addresses)
    assert c.CFUNCTYPE(c.c_void_p)(found.addresses["address"])() == other.addresses["there"]
    assert c.CFUNCTYPE(c.c_int64, c.c_int64)(found.addresses["called"])(14) == 42
