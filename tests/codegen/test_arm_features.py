"""The features of AArch64 machines, tested on any machine."""

from __future__ import annotations

import platform
from dataclasses import replace

import numpy as np
import pytest
from products import Compiled as Products
from products import Product, check, module_of

import axla
from axla.codegen import llvm
from axla.codegen.function import LlvmModule
from axla.codegen.host import host_target
from axla.codegen.kernel import emit_kernel
from axla.codegen.native import arm, systems
from axla.core.dtypes import BF16, F32, S8, S32, U8, U32
from axla.core.errors import UnsupportedError
from axla.kernels.dot import GemmSpec
from axla.program.kernels import plan_kernel
from axla.runtime.cpu_features import refuse_foreign
from axla.target.names import target


class Process:
    """A C library whose kernel tells of these words."""

    def __init__(self, **words):
        def getauxval(kind):
            return {16: words["first"], 26: words["second"]}[kind]

        self.getauxval = getauxval


@pytest.fixture
def machine(monkeypatch):
    """A machine with dot products and the instructions for bytes, but no arithmetic of halves."""
    monkeypatch.setattr(arm.c, "CDLL", lambda _: Process(first=0b11 | 1 << 8 | 1 << 20, second=1 << 13))
    monkeypatch.setattr(arm.sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    arm.features.cache_clear()
    yield
    arm.features.cache_clear()


def test_features_are_those_that_the_kernel_tells(machine):
    assert arm.features() == {"lse", "dotprod", "i8mm"}


def test_code_for_other_features_is_refused(machine):
    refuse_foreign("generic", ["+lse", "+dotprod", "+reserve-x18"], False)
    with pytest.raises(UnsupportedError, match="needs bf16, fullfp16, which"):
        refuse_foreign("generic", ["+lse", "+fullfp16", "+bf16", "-sve"], False)
    with pytest.raises(UnsupportedError, match="CPU 'neoverse-n1'"):
        refuse_foreign("neoverse-n1", ["+lse"], False)
    refuse_foreign("neoverse-n1", ["+lse"], True)


def test_no_mac_has_less_than_the_first(monkeypatch):
    monkeypatch.setattr(arm.sys, "platform", "darwin")
    arm.features.cache_clear()
    assert {"dotprod", "fullfp16"} <= arm.features() <= arm.KNOWN
    arm.features.cache_clear()


# Batch, m, n, k, which operands are transposed: tiles, several blocks of k, few columns, vectors both ways.
SIZES = [
    (1, 20, 20, 16, False, False), (2, 9, 33, 64, True, False), (1, 64, 17, 2400, False, True),
    (1, 5, 5, 4, True, True), (1, 1, 40, 64, False, False), (1, 1, 40, 64, False, True),
    (1, 40, 1, 64, True, False), (3, 1, 1, 100, False, False), (1, 40, 3, 8, False, False),
    (1, 30, 2, 8, True, True), (1, 20, 30, 65, False, True), (2, 40, 20, 47, True, False),
]  # fmt: skip
BYTES = [
    GemmSpec(dtype, result, *sizes) for sizes in SIZES for dtype, result in ((S8, S32), (U8, U32), (U8, S32))
]


def assembly(products, features, **facts):
    machine = replace(target("aarch64", features=features), **facts)
    return llvm.emit_assembly(module_of(products, machine).text(), machine)


@pytest.mark.parametrize("spec", BYTES, ids=str)
def test_products_of_bytes_are_dot_products_where_the_machine_has_them(spec):
    name = "sdot" if spec.dtype.is_signed else "udot"
    assert f"\t{name}\t" in assembly([Product(spec)], ["+dotprod"])
    assert "dot\t" not in assembly([Product(spec)], [])


def test_products_that_are_no_dots_of_four_bytes_are_as_before():
    others = [
        GemmSpec(S8, S8, 1, 20, 20, 16),
        GemmSpec(S32, S32, 1, 20, 20, 16),
    ]
    assert "dot\t" not in assembly([Product(spec) for spec in others], ["+dotprod"])


@pytest.mark.skipif(systems.machine() != "aarch64", reason="runs on AArch64 machines")
def test_products_of_bytes_are_right():
    compiled = Products([Product(spec) for spec in BYTES], host_target())
    for product in compiled.products:
        check(compiled, product)


SHORT_FLOATS = [GemmSpec(BF16, result, *sizes) for sizes in SIZES for result in (BF16, F32)]


@pytest.mark.parametrize("spec", SHORT_FLOATS, ids=str)
def test_products_of_bf16_are_dot_products_where_denormals_may_go(spec):
    assert "\tbfdot\t" in assembly([Product(spec)], ["+bf16"], flushes=True)
    assert "bfdot" not in assembly([Product(spec)], ["+bf16"])
    assert "bfdot" not in assembly([Product(spec)], ["+dotprod"], flushes=True)


@pytest.mark.skipif(systems.machine() != "aarch64", reason="runs on AArch64 machines")
def test_products_of_bf16_are_right():
    machine = replace(host_target(), flushes=True)
    compiled = Products([Product(spec) for spec in SHORT_FLOATS], machine)
    for product in compiled.products:
        check(compiled, product)


HALVES = """ENTRY e { a = f16[4096] parameter(0)  b = f16[4096] parameter(1)
  ROOT r = f16[4096] %s(a, b) }"""


@pytest.mark.parametrize(
    "name, opcode", [("add", "fadd"), ("subtract", "fsub"), ("multiply", "fmul"), ("divide", "fdiv")]
)
def test_halves_are_computed_as_halves_where_the_machine_does_that(name, opcode):
    def emitted(*features):
        machine = target("aarch64", features=features)
        module = LlvmModule(machine.index_type)
        kernel = plan_kernel("halves", axla.parse(HALVES % name).entry, (), machine)
        emit_kernel(module, kernel, machine)
        module.functions["halves"] = module.functions["halves"].replace("internal ", "", 1)
        return llvm.emit_assembly(module.text(), machine)

    assert f"\t{opcode}\tv" in emitted("+fullfp16") and "fcvt" not in emitted("+fullfp16")
    assert "fcvtl" in emitted()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_halves_have_the_bits_of_rounded_floats(name):
    """On every pair of some 700 halves: beside the smallest, the largest, infinities and NaN those near 1."""
    borders = [0, 1, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0x8000, 0x8001, 0xFC00]
    bits = np.concatenate([np.arange(0, 1 << 16, 97), np.arange(0x3BF8, 0x3C08), borders])
    halves = bits.astype(np.uint16).view(np.float16)
    a = np.tile(halves, len(halves))
    b = np.repeat(halves, len(halves))
    program = axla.compile(axla.parse(HALVES.replace("4096", str(len(a))) % name))
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    found = np.asarray(program(a, b))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(found[numbers].view(np.uint16), wanted[numbers].view(np.uint16))
