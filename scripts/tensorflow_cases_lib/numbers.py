"""Draws operands for quantization and for random numbers."""

from __future__ import annotations

import numpy as np

from tensorflow_cases_lib.draw import Draw, rule

# quantized numbers


@rule(
    "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars "
    "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel "
    "FakeQuantWithMinMaxVarsPerChannelGradient"
)
def fake_quant(c: Draw) -> None:
    shape = c.dims(1, 3)
    c.scale = 3.0
    c.attr("num_bits", c.one(8, 4, 2, 16))
    for operand in c.record.operands:
        if operand.name in ("min", "max"):
            held = shape[-1:] if "PerChannel" in c.op else ()
            c.data(operand.name, held, *((-6.0, -0.5) if operand.name == "min" else (0.5, 6.0)))
        else:
            c.data(operand.name, shape)
    if "Args" in c.op:
        c.attr("min", c.one(-6.0, -1.5, 0.0)), c.attr("max", c.one(6.0, 2.5))


@rule("QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad")
def quantize_dequantize(c: Draw) -> None:
    shape = c.dims(1, 3)
    axis = c.attr("axis", c.one(-1, c.int(0, len(shape) - 1)))
    held = () if axis < 0 else (shape[axis],)
    if c.op.endswith("Grad"):
        c.data("gradients", shape)
    elif c.op.endswith("V3"):
        c.const("num_bits", c.one(8, 4))
    else:
        c.attr("num_bits", c.one(8, 4))
    c.data("input", shape), c.data("input_min", held, -4.0, -1.0), c.data("input_max", held, 1.0, 4.0)


@rule("Dequantize")
def dequantize(c: Draw) -> None:
    c.attr("mode", "MIN_COMBINED"), c.attr("narrow_range", False), c.attr("axis", -1)
    c.data("input", c.dims(1, 3)), c.const("min_range", -2.0), c.const("max_range", c.one(1.0, 5.0))


def levels(c: Draw, prefix: str, type_: str, axis: int) -> None:
    bits = 8 if type_ == "DT_QINT8" else 32
    (
        c.attr(f"{prefix}quantization_min_val", -(1 << bits - 1)),
        c.attr(f"{prefix}quantization_max_val", (1 << bits - 1) - 1),
    )
    c.attr(f"{prefix}quantization_axis", axis)


@rule(
    "UniformQuantize UniformDequantize UniformRequantize UniformQuantizedClipByValue "
    "UniformQuantizedAdd UniformQuantizedDot"
)
def uniform(c: Draw) -> None:
    shape = c.dims(2, 2)
    for name in ("Tin", "Tout", "T"):
        if any(a.name == name for a in c.record.attributes) and not (
            c.op == "UniformDequantize" and name == "Tout"
        ):
            c.type(name)
    if c.attributes.get("Tin") == "DT_QUINT8" or c.attributes.get("Tout") == "DT_QUINT8":
        c.attr("Tin" if c.op == "UniformDequantize" else "Tout", "DT_QINT8")
    main = {"UniformQuantize": "Tout", "UniformDequantize": "Tin"}.get(c.op, "T")
    if c.op in ("UniformQuantize", "UniformDequantize", "UniformQuantizedClipByValue"):
        axis = c.one(-1, 0)
        held = () if axis < 0 else shape[:1]
        levels(c, "", c.type(main), axis)
        c.data(c.record.operands[0].name, shape)
        for name, low, high in (("scales", 0.2, 2.0), ("zero_points", -5, 5), ("min", -9, -1), ("max", 1, 9)):
            if any(o.name == name for o in c.record.operands):
                c.data(name, held, low, high)
        return
    prefixes = ("input_", "output_") if c.op == "UniformRequantize" else ("lhs_", "rhs_", "output_")
    for prefix in prefixes:
        type_ = c.type("T" if c.op.endswith("Add") else "Tout" if prefix == "output_" else "Tin")
        levels(c, prefix, type_, -1)
        c.data(f"{prefix}scales", (), 0.2, 2.0), c.data(f"{prefix}zero_points", (), -5, 5)
    if c.op == "UniformRequantize":
        c.data("input", shape)
        return
    c.data("lhs", shape), c.data("rhs", shape[::-1] if c.op.endswith("Dot") else shape)


@rule("UniformQuantizedConvolution")
def uniform_convolution(c: Draw) -> None:
    """Draws a convolution with the layouts NCHW and OIHW."""
    batch, depth, features, h, w, k = (
        c.int(1, 2),
        c.int(1, 3),
        c.int(1, 3),
        c.int(3, 6),
        c.int(3, 6),
        c.int(1, 3),
    )
    c.attr("Tin", "DT_QINT8"), c.attr("Tout", "DT_QINT32")
    axis = c.one(-1, 0)
    for prefix, type_ in (("lhs_", "DT_QINT8"), ("rhs_", "DT_QINT8"), ("output_", "DT_QINT32")):
        levels(c, prefix, type_, axis if prefix == "rhs_" else -1)
        held = (features,) if prefix == "rhs_" and axis == 0 else ()
        c.data(f"{prefix}scales", held, 0.2, 2.0)
        c.fed(f"{prefix}zero_points", np.zeros(held) if prefix == "rhs_" else c.int(-5, 5))
    c.data("lhs", (batch, depth, h, w)), c.data("rhs", (features, depth, k, k))
    c.attr("padding", c.one("SAME", "VALID")), c.attr("window_strides", (c.int(1, 2), c.int(1, 2)))
    c.attr("dimension_numbers", "\x10\x01\x1a\x02\x02\x03 \x012\x02\x02\x03@\x01J\x02\x02\x03")


# random numbers


@rule(
    "RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt Multinomial RandomShuffle "
    "ParameterizedTruncatedNormal"
)
def random(c: Draw) -> None:
    c.check = "sorted" if c.op == "RandomShuffle" else "shape"
    if c.op == "RandomShuffle":
        c.data("value", (c.int(1, 6),))
        return
    if c.op == "Multinomial":
        c.data("logits", c.dims(2, 2)), c.const("num_samples", c.int(1, 5))
        return
    c.const("shape", np.array(c.dims(1, 3), int))
    if c.op == "RandomUniformInt":
        c.data("minval", (), 0, 3), c.data("maxval", (), 5, 9)
    if c.op.startswith("Param"):
        _truncated(c, "stdevs")


@rule(
    "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal "
    "StatelessRandomUniformFullInt StatelessRandomUniformInt StatelessMultinomial "
    "StatelessParameterizedTruncatedNormal StatelessRandomGetKeyCounter "
    "StatelessRandomGetKeyCounterAlg"
)
def stateless(c: Draw) -> None:
    if c.op == "StatelessMultinomial":
        c.data("logits", c.dims(2, 2)), c.const("num_samples", c.int(1, 5))
    elif "GetKey" not in c.op:
        c.const("shape", np.array(c.dims(1, 3), int))
    c.data("seed", (2,), -1000, 1000)
    _limits(c)
    if "Param" in c.op:
        _truncated(c, "stddevs")


@rule(
    "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 "
    "StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2 StochasticCastToInt"
)
def keyed(c: Draw) -> None:
    if c.op == "StochasticCastToInt":
        c.check = "shape"
        c.data("input", c.dims(1, 2))
    else:
        c.const("shape", np.array(c.dims(1, 3), int))
    c.data("key", (1,), 0, 1 << 40), c.data("counter", (2,), 0, 1 << 40), c.const("alg", c.one(1, 2))
    _limits(c)


def _truncated(c: Draw, deviations: str) -> None:
    """Draws the parameters of truncated normal numbers."""
    c.data("means", ())
    c.data(deviations, (), 0.5, 2.0)
    c.data("minvals", (), -3.0, -2.0)
    c.data("maxvals", (), 2.0, 3.0)


def _limits(c: Draw) -> None:
    if any(o.name == "minval" for o in c.record.operands):
        c.data("minval", (), 0, 3), c.data("maxval", (), 5, 90)
