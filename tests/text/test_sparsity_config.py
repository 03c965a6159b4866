"""`sparsity_config` of a convolution: read, kept and printed as XLA has it, refused where it would run."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core.errors import AxlaError, UnsupportedError
from axla.proto import read, to_proto

TEXT = """HloModule m

ENTRY %e (a: f32[1,8,4], b: f32[3,4,2]) -> f32[1,6,2] {
  %a = f32[1,8,4]{2,1,0} parameter(0)
  %b = f32[3,4,2]{2,1,0} parameter(1)
  ROOT %r = f32[1,6,2]{2,1,0} convolution(%a, %b), window={size=3}, dim_labels=b0f_0io->b0f,
    sparsity_config=CONFIG
}
"""
LHS = "{lhs={sparsity=2x4 dimension=1 stride=2}}"
BOTH = "{lhs={sparsity=1x2 dimension=0 stride=0} rhs={sparsity=2x4 dimension=5 stride=7}}"


@pytest.mark.parametrize("config", [LHS, LHS.replace("lhs", "rhs"), BOTH])
def test_it_is_kept(config):
    module = axla.parse(TEXT.replace("CONFIG", config))
    assert f"sparsity_config={config}" in module.to_string()
    again = axla.parse(module.to_string())
    assert again.to_string() == module.to_string()
    assert read(to_proto(module)).entry.root.op == module.entry.root.op


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
def test_it_is_refused_where_it_would_run(backend):
    module = axla.parse(TEXT.replace("CONFIG", BOTH))
    with pytest.raises(UnsupportedError, match=r"convolution with sparsity_config=\{lhs=.* is not supported"):
        axla.compile(module, backend=backend)(np.ones((1, 8, 4), "f4"), np.ones((3, 4, 2), "f4"))


@pytest.mark.parametrize("config", ["{lhs={}}", "{lhs={sparsity=2x4}}", "{x}", "7", "{", LHS + "}"])
def test_what_it_is_not(config):
    with pytest.raises(AxlaError):
        axla.compile(axla.parse(TEXT.replace("CONFIG", config)))


def test_the_message_says_what_is_wanted():
    with pytest.raises(AxlaError, match=r"must be like \{lhs=\{sparsity=2x4"):
        axla.compile(axla.parse(TEXT.replace("CONFIG", "{lhs={sparsity=2x4}}")))


def test_xla_reads_what_is_written():
    hlo = pytest.importorskip("jaxlib._hlo")
    module = axla.parse(TEXT.replace("CONFIG", BOTH))
    assert f"sparsity_config={BOTH}" in hlo.hlo_module_from_text(module.to_string()).to_string()
    found = hlo.XlaComputation(to_proto(module)).get_hlo_module().to_string()
    assert f"sparsity_config={BOTH}" in found
