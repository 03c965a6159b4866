"""Shapes that NumPy has no arrays of: compiled code takes them, the interpreter and the tools say why not."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core.errors import UnsupportedError
from axla.tools.main import main

ONES = ",".join(["1"] * 63)
HUGE = 1 << 62
ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"

# What NumPy cannot hold stands between what it can.
P = "p = f32[2,3] parameter(0)\n"
Z = "z = f32[] constant(0)\n"
TURNED = ",".join(map(str, range(64, -1, -1)))
REDUCED = ",".join(map(str, range(64)))
INSIDE = {
    "reshape": (
        f"{P} q = f32[2,{ONES},3] reshape(p)\n s = f32[2,{ONES},3] sine(q)\n ROOT r = f32[3,2] reshape(s)",
        (3, 2),
    ),
    "transpose": (
        f"{P} q = f32[2,{ONES},3] reshape(p)\n"
        f"t = f32[3,{ONES},2] transpose(q), dimensions={{{TURNED}}}\n ROOT r = f32[3,2] reshape(t)",
        (3, 2),
    ),
    "reduce": (
        f"{P}{Z} q = f32[2,{ONES},3] reshape(p)\n"
        f"ROOT r = f32[3] reduce(q, z), dimensions={{{REDUCED}}}, to_apply=add",
        (3,),
    ),
    "empty": (
        f"{P}{Z} a = f32[{HUGE},0] iota(), iota_dimension=0\n n = f32[{HUGE},0] negate(a)\n"
        "ROOT r = f32[0] reduce(n, z), dimensions={0}, to_apply=add",
        (0,),
    ),
    "slice": (
        f"{P} c = f32[] constant(1)\n b = f32[{HUGE},8] broadcast(c), dimensions={{}}\n"
        "ROOT r = f32[1,1] slice(b), slice={[0:1],[0:1]}",
        (1, 1),
    ),
}

# It stands in the result.
OUTSIDE = {
    "broadcast": f"c = f32[] constant(1)\n ROOT r = f32[1,1,{ONES}] broadcast(c), dimensions={{}}",
    "iota": f"ROOT r = s32[1,1,{ONES}] iota(), iota_dimension=3",
    "rng": f"c = f32[] constant(0)\n d = f32[] constant(1)\n"
    f"ROOT r = f32[1,1,{ONES}] rng(c, d), distribution=rng_uniform",
    "empty": f"c = f32[] constant(1)\n b = f32[{HUGE},0] broadcast(c), dimensions={{}}\n"
    f"ROOT r = f32[0,{HUGE}] transpose(b), dimensions={{1,0}}",
    "parameter": f"p = f32[1,1,{ONES}] parameter(0)\n ROOT r = f32[1,1,{ONES}] negate(p)",
    "empty parameter": f"p = f32[{HUGE},0] parameter(0)\n ROOT r = f32[{HUGE},0] negate(p)",
}


def module(body: str):
    return axla.parse(f"HloModule m\n{ADD}\nENTRY e {{\n{body}\n}}")


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("name", INSIDE)
def test_compiled_code_has_no_limits_of_numpy(name, backend):
    body, dims = INSIDE[name]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = np.asarray(axla.compile(module(body), backend=backend)(x))
    assert found.shape == dims
    if name == "reduce":
        np.testing.assert_array_equal(found, x.sum(0))


@pytest.mark.parametrize("name", INSIDE)
def test_the_interpreter_names_what_numpy_cannot_hold(name):
    with pytest.raises(UnsupportedError, match="NumPy|bytes are more than the limit"):
        try:
            axla.compile(module(INSIDE[name][0]), backend="interpreter")(np.zeros((2, 3), np.float32))
        except axla.OutOfMemory as error:
            raise UnsupportedError(error.message) from error


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_run_names_what_it_cannot_show(name, backend, tmp_path, capsys):
    path = tmp_path / "program.hlo"
    path.write_text(module(OUTSIDE[name]).to_string())
    assert main(["run", str(path), "--backend", backend]) == 1
    message = capsys.readouterr().err
    assert "a NumPy array has" in message and "Traceback" not in message


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_self_test_of_what_numpy_cannot_hold(name, tmp_path):
    with pytest.raises(UnsupportedError, match="a NumPy array has"):
        axla.aot.compile(module(OUTSIDE[name]), out=tmp_path / "lib")


def test_an_array_of_too_many_dimensions_stays_an_array():
    found = axla.compile(module(OUTSIDE["broadcast"]))()
    assert found.ndim == 65 and found.nbytes == 4
    for read in (found.to_numpy, lambda: np.asarray(found)):
        with pytest.raises(UnsupportedError, match="at most 64 dimensions, found 65"):
            read()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_iota_without_elements(axis):
    body = f"i = s32[3,3,0] iota(), iota_dimension={axis}\n ROOT r = s32[3,3,0] negate(i)"
    for backend in ("interpreter", "cpu"):
        assert np.asarray(axla.compile(module(body), backend=backend)()).shape == (3, 3, 0)


def test_rank_64_on_the_interpreter():
    dims = ",".join(["1"] * 63)
    body = f"p = f32[{dims},2] parameter(0)\n i = s32[1] constant({{1}})\n" + (
        f"ROOT r = f32[{dims}] gather(p, i), offset_dims={{{','.join(map(str, range(63)))}}}, "
        f"collapsed_slice_dims={{63}}, start_index_map={{63}}, index_vector_dim=0, slice_sizes={{{dims},1}}"
    )
    x = np.arange(2, dtype=np.float32).reshape((1,) * 63 + (2,))
    with pytest.raises(UnsupportedError, match="NumPy cannot do this at this rank"):
        axla.compile(module(body), backend="interpreter")(x)
    assert np.asarray(axla.compile(module(body))(x)).item() == 1
