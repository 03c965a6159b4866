"""Random modules: cpu and one lane against the interpreter. `scripts/fuzz_backends` runs as many seeds as
wanted.
"""

from __future__ import annotations

import pytest

from fuzz.oracle import differences, differences_donated
from fuzz.random_control_flow import ControlFlow
from fuzz.random_modules import Generator


@pytest.mark.parametrize("seed", range(40))
def test_backends_agree(seed):
    text = Generator(seed).text()
    assert differences(text, seed) == [], text


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_long_modules_agree(seed):
    text = Generator(seed, length=60).text()
    assert differences(text, seed) == [], text


@pytest.mark.parametrize("seed", range(16))
def test_control_flow_agrees(seed):
    text = ControlFlow(seed, length=20).text()
    assert differences(text, seed) == [], text


@pytest.mark.parametrize("seed", range(20))
def test_donated_parameters(seed):
    text = ControlFlow(seed, length=14).text()
    assert differences_donated(text, seed) == [], text
