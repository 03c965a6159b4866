"""What is known of AArch64 machines, on whatever machine the tests run."""

from __future__ import annotations

import platform

import pytest

from axla.codegen.native import arm
from axla.core.errors import UnsupportedError
from axla.runtime.cpu_features import refuse_foreign


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
