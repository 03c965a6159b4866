"""Loads, stores, gathers, lanes and horizontal reductions of values of every type."""

from __future__ import annotations

import elementwise
import numpy as np
import pytest

from axla.codegen.host import host_target, one_lane_target
from axla.codegen.value import Values
from axla.core import dtypes as D
from axla.target.machine import cpu_target

TARGETS = {"host": host_target, "one-lane": one_lane_target, "x86-64": lambda: cpu_target("x86-64")}


def numbers(kind: D.DType, count: int) -> np.ndarray:
    """Different numbers, as far as the type has them."""
    small = np.arange(count) % 2 if kind.bits < 4 or kind.is_pred else np.arange(count) % 7
    return (small + 1j * small[::-1] if kind.is_complex else small).astype(kind.numpy)


@pytest.mark.parametrize("target", TARGETS)
def test_gather_reverses_every_type(target):
    """A gather whose index is a computed vector: lane inserts or the machine's instruction."""
    target = TARGETS[target]()
    count = 64

    def body(kind):
        def write(values: Values, index):
            lanes = values.to_index(index)
            return values.gather(kind, values.f.params["in1"], lanes, readonly=True)

        return write

    # The array gathered from is the second operand; its own load is not used.
    cases = [
        elementwise.Case(
            f"gather_{kind}", (D.S32, kind), kind, min(target.lanes(kind), 16),
            lambda values, index, _, kind=kind: body(kind)(values, index),
        )
        for kind in D.ALL
    ]  # fmt: skip
    compiled = elementwise.Compiled(cases, target)
    order = np.arange(count, dtype=np.int32)[::-1].copy()
    for kind in D.ALL:
        x = numbers(kind, count)
        got = compiled.run(f"gather_{kind}", [order, x])
        assert got.tobytes() == x[::-1].tobytes(), kind


def test_join_lane_and_shuffle_are_inverse():
    target = host_target()

    def body(values: Values, x):
        turned = values.shuffle(x, x, [(k + 1) % x.lanes for k in range(x.lanes)])
        return values.join([values.lane(turned, k) for k in range(x.lanes)])

    kinds = [D.F32, D.BF16, D.PRED, D.C128, D.S4]
    cases = [elementwise.Case(f"turn_{kind}", (kind,), kind, 8, body) for kind in kinds]
    compiled = elementwise.Compiled(cases, target)
    for kind in kinds:
        x = numbers(kind, 8)
        assert (compiled.run(f"turn_{kind}", [x]) == np.roll(x, -1)).all(), kind


@pytest.mark.parametrize("target", TARGETS)
def test_constants_are_converted_as_numpy_converts(target):
    target = TARGETS[target]()
    values = {
        D.U8: 255,
        D.S8: -128,
        D.U64: 2**64 - 1,
        D.S4: -8,
        D.U4: 15,
        D.PRED: True,
        D.BF16: 1.0039,
        D.F8E4M3FN: 3.3,
    }
    values |= {D.F16: 65504.0, D.F32: 0.1, D.F64: -np.inf, D.C64: 1 - 2j, D.F4E2M1FN: 5.0, D.S64: -(2**63)}
    cases = [
        elementwise.Case(
            f"constant_{kind}", (kind,), kind, target.lanes(kind),
            lambda values, x, kind=kind, number=number: values.constant(kind, number, x.lanes),
        )
        for kind, number in values.items()
    ]  # fmt: skip
    compiled = elementwise.Compiled(cases, target)
    for kind, number in values.items():
        want = np.asarray(number).astype(kind.numpy) if kind is not D.U64 else np.uint64(number)
        assert compiled.run(f"constant_{kind}", [numbers(kind, 4)])[0] == want, kind


def test_index_conversions():
    """Unsigned types are extended with zeros on the way to an index, signed ones with their sign."""
    target = host_target()

    def body(values: Values, x):
        return values.from_index(values.to_index(x), D.S64)

    cases = [
        elementwise.Case(f"index_{kind}", (kind,), D.S64, 8, body) for kind in (D.S8, D.U8, D.U32, D.S32)
    ]
    compiled = elementwise.Compiled(cases, target)
    for kind in (D.S8, D.U8, D.U32, D.S32):
        info = np.iinfo(kind.numpy)
        x = np.array([info.min, info.max, 0, 1], kind.numpy)
        assert compiled.run(f"index_{kind}", [x]).tolist() == x.astype(np.int64).tolist()


def test_bitcast_convert_keeps_bits():
    target = host_target()
    pairs = [
        (D.F32, D.U32),
        (D.U32, D.F32),
        (D.BF16, D.F16),
        (D.F8E4M3FN, D.S8),
        (D.U4, D.S4),
        (D.S64, D.F64),
    ]
    cases = [
        elementwise.Case(f"{a}_{b}", (a,), b, 8, lambda values, x, b=b: values.bitcast_convert(x, b))
        for a, b in pairs
    ]
    compiled = elementwise.Compiled(cases, target)
    for a, b in pairs:
        x = numbers(a, 8)
        got = compiled.run(f"{a}_{b}", [x])
        assert (got.view(f"u{a.itemsize}") == x.view(f"u{a.itemsize}")).all(), (a, b)
