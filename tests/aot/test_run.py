"""Programs compiled for other machines run there, and give what they give here."""

from __future__ import annotations

import machines
import numpy as np
import pytest
from test_targets import HARD, LOOP, MATHS, MATMUL

import axla
from axla.aot.machines import machine as find
from axla.aot.objects import compile_object
from axla.comparison import compare, random_inputs, run_flat

PROGRAMS = {"matmul": MATMUL, "hard": HARD, "maths": MATHS, "loop": LOOP}
MACHINES = [*machines.LINUX, "s390x-linux-gnu", *machines.WASM]


@pytest.mark.cc
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_give_here(tmp_path, name, machine):
    module = axla.parse(PROGRAMS[name])
    inputs = random_inputs(module, seed=3)
    code = compile_object(axla.parse(PROGRAMS[name]), find(machine))
    found = machines.run(code, inputs, tmp_path)
    wanted = [np.asarray(array) for array in run_flat(module, inputs, "interpreter")]
    compare(module, found, wanted, machine, "interpreter").raise_if_different()


@pytest.mark.cc
@pytest.mark.parametrize("machine", MACHINES)
def test_the_product_of_tfcompiles_example(tmp_path, machine):
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    y = np.arange(7, 13, dtype=np.float32).reshape(3, 2)
    [found] = machines.run(compile_object(axla.parse(MATMUL), find(machine)), [x, y], tmp_path)
    assert found.tolist() == [[58, 64], [139, 154]]
