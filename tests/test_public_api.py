"""The names that `import axla` defines, and the time that it takes."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import axla

ROOT = Path(axla.__file__).parent
TEXT = """
HloModule axpy
ENTRY axpy {
  a = f32[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] parameter(2)
  s = f32[4] broadcast(a), dimensions={}
  m = f32[4] multiply(s, x)
  ROOT r = f32[4] add(m, y)
}
"""


def test_all_names_are_there_and_documented():
    for name in axla.__all__:
        value = getattr(axla, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"


def test_nothing_public_is_left_out():
    """Every name in `axla/__init__.py` is in __all__, or is a submodule that an import has loaded."""
    extra = {
        name
        for name, value in vars(axla).items()
        if not name.startswith("_") and name not in axla.__all__ and not isinstance(value, types.ModuleType)
    }
    assert extra == set()


def test_all_errors_are_public():
    from axla.core import errors

    declared = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert declared <= set(axla.__all__)


def test_import_loads_no_backend():
    code = "import sys, axla; print([m for m in ('llvmlite', 'jax', 'scipy') if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[]"


def test_version_is_that_of_the_package():
    assert axla.__version__.count(".") >= 2


def test_verbs_from_text_to_result():
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    program = axla.compile(axla.parse(TEXT))
    result = program(np.float32(2), axla.device_put(x), y)
    assert isinstance(result, axla.Array)
    np.testing.assert_array_equal(np.asarray(result), 2 * x + y)


def test_parse_takes_text_bytes_and_paths(tmp_path):
    path = tmp_path / "axpy.hlo"
    path.write_text(TEXT)
    texts = {
        axla.parse(source).to_string() for source in (TEXT, TEXT.encode(), bytearray(TEXT.encode()), path)
    }
    assert len(texts) == 1


@pytest.mark.parametrize("source", [3, None, b"\xff\xfe\x00", "no such text"])
def test_parse_refuses_what_is_no_text(source):
    with pytest.raises(axla.AxlaError):
        axla.parse(source)


def test_check_reports_each_output():
    report = axla.check(TEXT)
    assert report.ok and report.reference == "interpreter"
    assert [output.problem for output in report.outputs] == [""]
    assert "axpy: cpu agrees with interpreter" in str(report)


def test_check_names_the_output_that_differs():
    from axla.comparison import compare

    module = axla.parse(TEXT)
    right = np.array([1, 2, 3, np.nan], np.float32)
    wrong = np.array([1, 2, 3.01, np.nan], np.float32)
    assert compare(module, [right], [right], "a", "b").ok
    report = compare(module, [wrong], [right], "a", "b")
    with pytest.raises(
        axla.Mismatch, match=r"output 0, f32\[4\]: 1 of 4 .* at \[2\]: found 3.00999.*, wanted 3"
    ):
        report.raise_if_different()


HANGS_ON_ROUNDING = """HloModule sums
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[2,4096] parameter(0)
  zero = f32[] constant(0)
  s = f32[2] reduce(x, zero), dimensions={1}, to_apply=add
  k = f32[] constant(1e4)
  ks = f32[2] broadcast(k), dimensions={}
  m = f32[2] multiply(s, ks)
  ROOT t = f32[2] tanh(m) }"""


def test_unstable_elements_are_left_out_and_counted():
    """The terms of the first row cancel, except for rounding errors; the sum of the second row is large."""
    from axla.comparison import compare, run_flat, unstable

    module = axla.parse(HANGS_ON_ROUNDING)
    half = np.random.default_rng(0).uniform(1, 2, 2048).astype(np.float32)
    x = np.stack([np.concatenate([half, -half]), np.ones(4096, np.float32)])
    [right] = wanted = run_flat(module, [x], "interpreter")
    [moved] = masks = unstable(module, wanted, lambda work: run_flat(work, [x], "interpreter"))
    assert moved.tolist() == [True, False]
    another_order = right + np.array([0.3, 0], np.float32)
    assert not compare(module, [another_order], wanted, "a", "b").ok
    report = compare(module, [another_order], wanted, "a", "b", moved=masks)
    assert report.ok and "1 of 2 elements left out" in str(report) and report.outputs[0].largest == 0
    wrong = right - np.array([0.3, 0.01], np.float32)
    assert "1 of 2 elements differ" in str(compare(module, [wrong], wanted, "a", "b", moved=masks))
    agrees = compare(module, wanted, wanted, "a", "b", moved=masks)
    assert agrees.outputs[0].unstable == 0


def test_check_takes_unstable_elements_for_differences_unless_told():
    def other(*, skip: bool) -> axla.CheckReport:
        half = np.random.default_rng(0).uniform(1, 2, 2048).astype(np.float32)
        x = np.stack([np.concatenate([half, half[::-1] * -1]), np.ones(4096, np.float32)])
        return axla.check(HANGS_ON_ROUNDING, inputs=[x], skip_unstable=skip)

    with pytest.raises(axla.Mismatch, match="1 of 2 elements differ"):
        other(skip=False)
    assert [output.unstable for output in other(skip=True).outputs] == [1]


@pytest.mark.parametrize("dtype", axla.dtypes.ALL, ids=str)
def test_comparison_separates_equal_and_different(dtype):
    """Random values of each type agree with themselves, but not if one of them is replaced."""
    from axla.comparison import compare_output, random_array

    shape = axla.Shape(dtype, (5, 3))
    values = random_array(shape, seed=1)
    assert values.dtype == dtype.numpy and values.shape == shape.dims
    assert not compare_output(0, shape, values, values).problem
    other = values.copy()
    if dtype.is_pred:
        other[2, 1] = not other[2, 1]
    elif dtype.bits == 1:
        other[2, 1] = 0 if other[2, 1] else (-1 if dtype.is_signed else 1)
    else:
        other[2, 1] = 3 if dtype.name not in ("s2",) else -2 if values[2, 1] != -2 else 1
        if other[2, 1] == values[2, 1]:
            other[2, 1] = 1
    assert "1 of 15 elements differ, first at [2, 1]" in compare_output(0, shape, other, values).problem


def test_all_of_hlo_are_its_ops():
    from axla.ir.op import OPS, is_own

    names: dict[str, object] = {}
    exec("from axla.hlo import *", names)
    ops = {cls.__name__ for cls in OPS.values() if is_own(cls)}
    assert names.keys() - {"__builtins__"} == ops | {"OPS", "call_site"}
