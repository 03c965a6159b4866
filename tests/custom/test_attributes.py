"""The dictionary of a typed custom call."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import ParseError
from axla.custom.attributes import parse_attributes

GOOD = [
    ("", {}),
    ("{}", {}),
    ("{uplo = 76 : ui8}", {"uplo": np.uint8(76)}),
    ("{high = 4 : i32, low = 1 : i32}", {"high": np.int32(4), "low": np.int32(1)}),
    ("{left = true, transpose = false}", {"left": True, "transpose": False}),
    ("{n = -3, x = 2.500000e-01 : f32}", {"n": np.int64(-3), "x": np.float32(0.25)}),
    ('{s = "a\\22b\\n", "odd name" = 1 : i8}', {"s": 'a"b\n', "odd name": np.int8(1)}),
    ('{s = "h\\C3\\A9 \u00e9\\FF"}', {"s": "hé é\udcff"}),
    ("{unit, inner = {a = [1, 2.0]}}", {"unit": True, "inner": {"a": [1, 2.0]}}),
    ("{f = @callee}", {"f": "callee"}),
    ("{inf = 0x7F800000 : f32}", {"inf": np.float32(np.inf)}),
]


@pytest.mark.parametrize("text, wanted", GOOD, ids=[text or "nothing" for text, _ in GOOD])
def test_values_have_their_types(text, wanted):
    found = parse_attributes(text)
    assert found == wanted
    for name, value in wanted.items():
        assert type(found[name]) is type(value)


def test_arrays():
    found = parse_attributes(
        "{a = array<i64: 1, -2>, e = array<f32>, d = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>,"
        " s = dense<1.5> : tensor<3xf64>, b = array<i1: true, false>}"
    )
    assert found["a"].dtype == np.int64 and found["a"].tolist() == [1, -2]
    assert found["e"].dtype == np.float32 and found["e"].shape == (0,)
    assert found["d"].dtype == np.int32 and found["d"].tolist() == [[1, 2], [3, 4]]
    assert found["s"].tolist() == [1.5, 1.5, 1.5]
    assert found["b"].tolist() == [True, False]


def test_equal_elements_cost_no_memory():
    found = parse_attributes(f"{{a = dense<5> : tensor<{1 << 40}xi64>}}")["a"]
    assert found.shape == (1 << 40,) and found[-1] == 5


@pytest.mark.parametrize("text", [
    "{", "}", "{a", "{a = }", "{a = 1 : what}", "{a = 1 b = 2}", "{a = 300 : ui8}", "{a = [1}", "{1 = 2}",
    "{a = maybe}", "{a = dense<[1, 2]> : tensor<3xi32>}", "{a = dense<1> : tensor<xi32>}", "{} {}", "nothing",
    "{a = array<i32: 1", "{a = 0x1}", "{a = ;}", "{a = " + "[" * 100, "{a = dense<[[1], 2]> : tensor<2xi32>}",
    "{a = array<what: >}", "{a = dense<{}> : tensor<2xi32>}",
])  # fmt: skip
def test_what_is_no_dictionary_is_refused(text):
    with pytest.raises(ParseError, match="backend_config: expected"):
        parse_attributes(text)
