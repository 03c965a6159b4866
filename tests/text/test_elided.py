"""Constants whose values a text leaves out: `constant({...})`, as JAX's `compiled.as_text()` has them."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import axla
from axla.core.errors import AxlaError, InvalidArgument, UnsupportedError
from axla.text import parse_hlo

TEXT = """HloModule m

ENTRY e {
  a = f32[11] constant({...})
  b = u8[7] constant({...})
  c = pred[9] constant({...})
  d = s16[3,3]{0,1} constant({...})
  f = f32[2]{0} constant({...})
  ROOT t = (f32[11], u8[7], pred[9], s16[3,3]{0,1}, f32[2]) tuple(a, b, c, d, f)
}
"""
BY_XLA = """
import sys
from jaxlib import _hlo
options = _hlo.HloPrintOptions()
options.print_large_constants = True
print(_hlo.hlo_module_from_text(sys.stdin.read()).to_string(options))
"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_running_them_is_refused_with_line_file_and_remedy(tmp_path, backend):
    file = tmp_path / "elided.hlo"
    file.write_text(TEXT)
    with pytest.raises(UnsupportedError) as caught:
        axla.compile(axla.parse(file), backend=backend)()
    message = str(caught.value)
    assert re.match(re.escape(str(file)) + r": line \d: the text leaves out the values of \w+\[", message)
    for remedy in ("--xla_dump_large_constants", "--xla_dump_hlo_as_proto", "print_large_constants=True"):
        assert remedy in message
    assert 'elided="fill"' in message and "--fill-elided" in message


def test_they_are_filled_with_what_xla_fills_in():
    pytest.importorskip("jaxlib._hlo")
    # In a process of its own: XLA counts on from text to text.
    by_xla = subprocess.run(
        [sys.executable, "-c", BY_XLA], input=TEXT, capture_output=True, text=True, check=True
    ).stdout
    with pytest.warns(UserWarning, match="module m: constants {...} hold numbers that were made up") as said:
        filled = axla.parse(TEXT, elided="fill")
    assert said[0].filename == __file__
    wanted = {i.name: i.op.literal for i in parse_hlo(by_xla).entry.instructions if i.opcode == "constant"}
    found = {i.name: i.op.literal for i in filled.entry.instructions if i.opcode == "constant"}
    assert len(found) == 5
    for name, literal in found.items():
        np.testing.assert_array_equal(literal.array, wanted[name].array, err_msg=name)


def test_filling_is_the_same_each_time_and_bounded():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = (axla.parse(TEXT, elided="fill").to_string(print_large_constants=True) for _ in "12")
    assert first == second and "{...}" not in first
    with pytest.raises(UnsupportedError, match="more than 536870912 bytes"):
        parse_hlo("ROOT c = f32[1000000000000] constant({...})", elided="fill")
    with pytest.raises(InvalidArgument, match="elided='full', wanted 'keep' or 'fill'"):
        axla.parse(TEXT, elided="full")


def test_int4_and_bfloat16_are_filled_in_their_range():
    with pytest.warns(UserWarning):
        module = parse_hlo("a = s4[40] constant({...})\nROOT b = bf16[3] constant({...})", elided="fill")
    a, b = (inst.op.literal.array for inst in module.entry.instructions)
    assert a.dtype.itemsize == 1 and set(a.view(np.uint8)) <= set(range(16)) and b.shape == (3,)


def test_the_command_fills_them_when_asked(tmp_path, capsys):
    from axla.tools.main import main

    file = tmp_path / "elided.hlo"
    file.write_text("HloModule m\nENTRY e { ROOT a = s32[3] constant({...}) }")
    assert main(["run", str(file)]) == 1
    assert f"{file}: line 2: the text leaves out" in capsys.readouterr().err
    assert main(["run", str(file), "--fill-elided"]) == 0
    found = capsys.readouterr()
    assert "[0, 1, 2]" in found.out and "made up" in found.err


def test_what_jax_prints_runs_when_filled():
    jax = pytest.importorskip("jax")
    weights = np.arange(64, dtype=np.float32).reshape(8, 8)
    compiled = jax.jit(lambda x: x @ weights).lower(jax.ShapeDtypeStruct((3, 8), "float32")).compile()
    with pytest.raises(UnsupportedError, match="print_large_constants=True"):
        axla.compile(axla.parse(compiled.as_text()))
    with pytest.warns(UserWarning, match="made up"):
        module = axla.parse(compiled.as_text(), elided="fill")
    assert np.asarray(axla.compile(module)(np.ones((3, 8), np.float32))).shape == (3, 8)


def test_stablehlo_says_how_to_print_what_is_left_out():
    text = """func.func @main() -> tensor<4xf32> {
      %0 = stablehlo.constant dense_resource<__elided__> : tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    with pytest.raises(AxlaError, match="large_elements_limit=None"):
        axla.parse(text)
