"""The batch-norm ops: generated code against the interpreter, and the interpreter against the formulas."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from three_ways import agree, near

EPSILON = 0.001
SHAPES = [((2, 3, 4, 2), 1), ((7, 5), 1), ((3,), 0), ((0, 3), 1), ((3, 0), 1), ((9, 17, 5), 2)]
TYPES = {
    ("f32", "f32"): 1e-5,
    ("f64", "f64"): 1e-13,
    ("bf16", "f32"): 2**-7,
    ("f16", "f16"): 2**-9,
}
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def program(op: str, shape: tuple[int, ...], feature: int, data: str, kind: str) -> str:
    whole, each = f"{data}[{','.join(map(str, shape))}]", f"{kind}[{shape[feature]}]"
    operands = {
        "inference": [whole, each, each, each, each],
        "training": [whole, each, each],
        "grad": [whole, each, each, each, whole],
    }[op]
    result = whole if op == "inference" else f"({whole}, {each}, {each})"
    lines = [f"p{n} = {s} parameter({n})" for n, s in enumerate(operands)]
    names = ", ".join(f"p{n}" for n in range(len(operands)))
    attributes = f"epsilon={EPSILON}, feature_index={feature}"
    lines.append(f"ROOT r = {result} batch-norm-{op}({names}), {attributes}")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


def inputs(op: str, shape: tuple[int, ...], feature: int, data: str, kind: str) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    each = [rng.random(shape[feature]) + 0.5 for _ in range(4)]
    whole = [rng.random(shape) * 4 - 1.5 for _ in range(2)]
    made = {
        "inference": [whole[0], *each],
        "training": [whole[0], *each[:2]],
        "grad": [whole[0], *each[:3], whole[1]],
    }

    def kind_of(x: np.ndarray) -> type:
        return NUMPY[data if any(x is w for w in whole) else kind]

    return [x.astype(kind_of(x)) for x in made[op]]


@pytest.mark.parametrize("op", ["inference", "training", "grad"])
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom")
def test_backends_agree(op, types):
    for shape, feature in SHAPES:
        if len(shape) == 1 and types[0] != types[1]:
            continue
        given = (op, shape, feature, *types)
        agree(program(*given), inputs(*given), TYPES[types])


def test_training_is_the_mean_and_the_variance_of_the_batch():
    shape = (6, 3, 5)
    x, scale, offset = inputs("training", shape, 1, "f64", "f64")
    found = agree(program("training", shape, 1, "f64", "f64"), [x, scale, offset], 1e-13)
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    factor = scale / np.sqrt(variance + EPSILON)
    wanted = (x - mean[:, None]) * factor[:, None] + offset[:, None]
    for a, b in zip(found, (wanted, mean, variance), strict=True):
        near(a, b, 1e-13)


def test_grad_is_the_derivative_of_training():
    """Finite differences of the training result along random directions."""
    shape, step = (4, 3, 5), 1e-6
    rng = np.random.default_rng(5)
    x, scale, offset = inputs("training", shape, 1, "f64", "f64")
    weights = rng.random(shape)

    def loss(x, scale, offset):
        factor = scale / np.sqrt(x.var((0, 2)) + EPSILON)
        return (((x - x.mean((0, 2))[:, None]) * factor[:, None] + offset[:, None]) * weights).sum()

    given = [x, scale, x.mean((0, 2)), x.var((0, 2)), weights]
    gradients = agree(program("grad", shape, 1, "f64", "f64"), given, 1e-12)
    point = [x, scale, offset]
    for n, gradient in enumerate(gradients):
        direction = rng.random(gradient.shape) - 0.5
        ends = [[p + (s * step * direction if k == n else 0) for k, p in enumerate(point)] for s in (1, -1)]
        slope = (loss(*ends[0]) - loss(*ends[1])) / (2 * step)
        assert slope == pytest.approx((gradient * direction).sum(), rel=1e-6)
