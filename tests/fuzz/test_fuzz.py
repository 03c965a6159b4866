"""A sample of what `scripts/fuzz` does, and that its parts do what they say."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from fuzz_lib import cases, judge, motifs, oracles, participants, reducing, told, work  # noqa: E402
from fuzz_lib.draft import Draft  # noqa: E402
from fuzz_lib.oracles import ORACLES, unequal  # noqa: E402
from verify_lib import mutate  # noqa: E402

import axla  # noqa: E402
from axla import hlo  # noqa: E402
from axla.core import flags  # noqa: E402
from axla.core.dtypes import F8E5M2, F32  # noqa: E402
from axla.core.errors import AxlaError  # noqa: E402
from axla.cpu import programs  # noqa: E402
from axla.ir.attributes import CompareType, Direction  # noqa: E402
from axla.ir.graph import Instruction  # noqa: E402
from axla.tools.apart import Apart  # noqa: E402
from axla.tools.bisect import bisect  # noqa: E402
from axla.tools.trial import Question, Trials  # noqa: E402

SLOW = ("ahead", "ptx", "opencl", "xla")


@pytest.mark.parametrize("block", range(4))
def test_a_sample(block):
    """Cases of fixed seeds, by all oracles that need nothing but axla."""
    names = tuple(n for n in ORACLES if n not in SLOW)
    report = work.Report()
    for number in range(block * 4, block * 4 + 4):
        asked = random.Random(number).sample(names, 4)
        work.one(f"ci:{number}", work.Task((), ("cpu", *asked)), report)
    assert report.cases >= 2
    assert not report.failures, report.failures[0].why + report.failures[0].text


def test_a_seed_makes_the_same_case():
    for number in range(12):
        try:
            one, other = (cases.case_of(f"same:{number}") for _ in range(2))
        except cases.Skip:
            continue
        assert one.text == other.text
        for a, b in zip(one.inputs, other.inputs, strict=True):
            assert a.tobytes() == b.tobytes()


def test_modules_are_of_many_kinds():
    opcodes, families = set(), set()
    for number in range(60):
        try:
            case = cases.case_of(f"kinds:{number}")
        except cases.Skip:
            continue
        opcodes |= case.opcodes
        families.add(case.family)
    assert len(opcodes) > 50
    assert {"while", "dot", "reduce", "dynamic-update-slice", "scatter", "transpose"} <= opcodes
    assert len(families) >= 4


def test_reductions_by_what_is_not_commutative_are_not_asked_of_xla():
    for body, wanted in (
        ("ROOT r = f32[] add(a, b)", True),
        ("ROOT r = f32[] subtract(a, b)", False),
        ("ROOT r = f32[] copy(a)", False),
        ("ROOT r = f32[] add(a, a)", False),
    ):
        module = axla.parse(f"""
f {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  {body} }}
ENTRY e {{ x = f32[4] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=f }}""")
        assert all(oracles.combines(c) for c in module.computations if c is not module.entry) == wanted


def test_what_an_op_does_its_inverse_undoes_for_all_types():
    found = set()
    for seed in range(200):
        draft = Draft(random.Random(seed), "undone")
        if motifs.attempt(draft.entry, motifs.undone):
            last = list(draft.entry.computation.instructions)[-1]
            [first] = [
                o for o in last.operands if set(o.operands) & set(last.operands) and len(o.operands) == 2
            ]
            found.add((first.opcode, last.opcode, last.shape.dtype.is_integer))
            assert len(set(first.operands)) == 2
    assert found >= {("add", "subtract", True), ("add", "subtract", False), ("subtract", "add", True)}


def mutated(text: str, seed: int) -> list[Instruction]:
    try:
        return list(mutate.mutant(axla.parse(text), random.Random(seed), F32).entry.instructions)
    except mutate.Unfit:
        return []


def test_mutants_of_a_map_name_all_dimensions():
    """None is all of them too, and is read as such."""
    text = """
add { a = f32[] parameter(0)
  ROOT b = f32[] add(a, a) }
ENTRY e { x = f32[3,4] parameter(0)
  ROOT m = f32[3,4] map(x), dimensions={0,1}, to_apply=add }"""
    for seed in range(60):
        try:
            module = mutate.mutant(axla.parse(text), random.Random(seed), F32)
        except mutate.Unfit:
            continue
        assert [i.op.dimensions for i in module.entry.instructions if i.opcode == "map"] == [(0, 1)]


def test_mutants_do_not_say_that_numbers_are_never_negative():
    text = """
ENTRY e { x = s8[4,4] parameter(0)
  ROOT d = s32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    backend_config={"lhs":"never negative"} }"""
    found = [i for seed in range(20) for i in mutated(text, seed) if i.opcode == "dot"]
    assert found and not any(i.extra.backend_config for i in found)


def test_sorts_have_an_order_for_nan():
    draft = Draft(random.Random(1), "sorts")
    scope = draft.entry
    x = scope.parameter(axla.parse("ENTRY e { ROOT x = f8e8m0fnu[9] parameter(0) }").entry.root.shape)
    orders = [draft.order([x.shape.dtype], 0, "LT", False) for _ in range(2)]
    for order, array in zip(orders, (x, motifs.without_nan(scope, x)), strict=True):
        scope.add(hlo.Sort((0,), True, order), array)
    cases._orders(draft)
    assert [order.root.op.is_total_order for order in orders] == [True, False]
    draft.module.entry.set_root(motifs.without_nan(scope, x))
    (found,) = axla.compile(draft.module, backend="interpreter").execute(
        [np.full(9, np.nan, x.shape.dtype.numpy)]
    )
    assert (np.asarray(found) == 1).all()


@pytest.mark.parametrize(
    "sorts",
    (
        "ROOT s = s32[9] sort(x), dimensions={0}, to_apply=less",
        'ROOT s = s32[9] custom-call(x), custom_call_target="ApproxTopK", called_computations={less}',
    ),
    ids=("sort", "custom-call"),
)
def test_mutants_of_a_sort_have_its_order(sorts):
    text = f"""
less {{ a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }}
ENTRY e {{ x = s32[9] parameter(0)
  {sorts} }}"""
    found = set()
    for seed in range(80):
        try:
            module = mutate.mutant(axla.parse(text), random.Random(seed), F32)
        except mutate.Unfit:
            continue
        tests = [i for c in module.computations for i in c.instructions if i.opcode == "compare"]
        found |= {(repr(i), i.op.direction) for i in tests}
    assert found == {("%l = pred[] compare(%a, %b)", Direction.LT)}


def test_mutants_have_groups():
    text = """
ENTRY e { x = f32[3,5] parameter(0)
  ROOT t = (f32[3,2], s32[3,2]) custom-call(x), custom_call_target="TopK" }"""
    found = set()
    for seed in range(800):
        try:
            root = mutate.mutant(axla.parse(text), random.Random(seed), F32).entry.root
        except mutate.Unfit:
            continue
        if root.opcode == "custom-call":
            found.add((root.op.feature_group_count, root.op.batch_group_count))
    assert found == {(1, 1), (1, 2), (2, 1)}


def case_from(text: str, *inputs: np.ndarray) -> cases.Case:
    return cases.Case("test", axla.parse(text), list(inputs), text=text)


ZERO = "ENTRY e { x = f32[4] parameter(0)\n ROOT y = f32[4] negate(x) }"


def test_another_zero_is_a_difference():
    case = case_from(ZERO, np.zeros(4, np.float32))
    wanted = case.wanted
    assert not judge.differs(case, wanted)
    assert "in bits" in judge.differs(case, ([np.zeros(4, np.float32)], wanted[1]))


def test_what_hangs_on_rounding_says_nothing():
    """A sum that cancels, made large; and one that does not."""
    text = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[1000] parameter(0)
  z = f32[] constant(0)
  s = f32[] reduce(x, z), dimensions={0}, to_apply=add
  k = f32[] constant(1e6)
  m = f32[] multiply(s, k)
  ROOT f = f32[] floor(m) }"""
    rng = np.random.default_rng(0)
    half = rng.uniform(1, 2, 500).astype(np.float32)
    cancels = case_from(text, np.concatenate([half, -half]))
    other = [cancels.wanted[0][0] + 30]
    assert not judge.differs(cancels, (other, cancels.wanted[1]))
    plain = case_from(text, rng.uniform(1, 2, 1000).astype(np.float32))
    assert judge.differs(plain, ([plain.wanted[0][0] * np.float32(1.01)], plain.wanted[1]))


def test_what_overflows_in_one_order_says_nothing():
    text = """
multiply { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] multiply(a, b) }
ENTRY e { x = f32[4] parameter(0)
  one = f32[] constant(1)
  ROOT p = f32[] reduce(x, one), dimensions={0}, to_apply=multiply }"""
    case = case_from(text, np.array([1e30, 1e30, 1e-30, 1e-30], np.float32))
    wanted, heard = case.wanted
    assert np.isinf(wanted[0])
    assert not judge.differs(case, ([np.array(1, np.float32)], heard))
    plain = case_from(text, np.array([4, 4, 0.25, 0.25], np.float32))
    assert judge.differs(plain, ([np.array(2, np.float32)], heard))


@pytest.mark.parametrize(
    ("reduction", "large", "small"),
    [
        ("f32[] reduce(x, one), dimensions={0}", (1, 11), (0, 12)),
        ("f32[1] reduce-window(x, one), window={size=100}", (10, 11), (0, 20)),
    ],
    ids=["reduce", "reduce-window"],
)
def test_what_overflows_in_one_group_of_factors_says_nothing(reduction, large, small):
    """From the first to the last, all partial products are small."""
    text = f"""
multiply {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] multiply(a, b) }}
ENTRY e {{ x = f32[100] parameter(0)
  one = f32[] constant(1)
  ROOT p = {reduction}, to_apply=multiply }}"""
    for power, may in ((36, True), (1, False)):
        values = np.ones(100, np.float32)
        values[list(large)], values[list(small)] = 10.0**power, 10.0**-power
        case = case_from(text, values)
        (wanted,), heard = case.wanted
        assert np.allclose(wanted, 1)
        assert bool(judge.differs(case, ([wanted * np.float32(np.nan)], heard))) is not may


def test_denormal_products_say_little():
    text = """
multiply { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] multiply(a, b) }
ENTRY e { x = f32[151] parameter(0)
  one = f32[] constant(1)
  p = f32[] reduce(x, one), dimensions={0}, to_apply=multiply
  n = f32[] negate(p)
  ROOT f = f32[] floor(n) }"""
    for first, may in ((1.25, True), (0.7, True), (30, False)):
        case = case_from(text, np.array([first] * 3 + [0.5] * 148, np.float32))
        wanted, heard = case.wanted
        other = np.array(0 if wanted[0] else -1, np.float32)
        assert bool(judge.differs(case, ([other], heard))) is not may


def test_zeros_of_partial_products_say_nothing():
    """In one order they are reached before the infinity that the product begins with."""
    text = """
multiply { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] multiply(a, b) }
ENTRY e { x = f32[2000] parameter(0)
  start = f32[] constant(inf)
  ROOT p = f32[] reduce(x, start), dimensions={0}, to_apply=multiply }"""
    case = case_from(text, np.full(2000, 0.5, np.float32))
    heard = case.wanted[1]
    for number in (np.nan, np.inf):
        assert not judge.differs(case, ([np.array(number, np.float32)], heard))
    for length in (2000, 200):
        zero = text.replace("inf", "-0").replace("2000", str(length))
        case = case_from(zero, np.full(length, 2, np.float32))
        for number in (np.nan, -0.0):
            assert not judge.differs(case, ([np.array(number, np.float32)], heard))
    plain = case_from(text.replace("inf", "1"), np.full(2000, 0.999, np.float32))
    assert judge.differs(plain, ([np.array(np.nan, np.float32)], heard))


def test_sums_of_short_floats_say_little():
    text = """
add { a = f8e5m2[] parameter(0)
  b = f8e5m2[] parameter(1)
  ROOT c = f8e5m2[] add(a, b) }
ENTRY e { x = f8e5m2[40,5] parameter(0)
  zero = f8e5m2[] constant(0)
  ROOT s = f8e5m2[5] reduce(x, zero), dimensions={0}, to_apply=add }"""
    executable = axla.compile(axla.parse(text))
    values = np.random.default_rng(16).uniform(-2, 2, (40, 5)).astype(F8E5M2.numpy)
    case = case_from(text, values)
    assert not judge.differs(case, case.run(executable, [values]))


@pytest.mark.parametrize("dtype", ("bf16", "f16", "f32"))
def test_results_far_from_those_of_all_roundings_are_wrong(dtype):
    """Any other rounding moves results of short floats by more than the tolerance; not all of them pass."""
    module = axla.parse(f"""HloModule m

ENTRY main {{
  x = {dtype}[4,8] parameter(0)
  y = {dtype}[8,4] parameter(1)
  ROOT d = {dtype}[4,4] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")
    kind = module.entry.root.shape.dtype.numpy
    draw = np.random.default_rng(0)
    case = cases.Case("1:1", module, [draw.uniform(1, 2, dims).astype(kind) for dims in ((4, 8), (8, 4))])
    [wanted], heard = case.wanted
    assert judge.differs(case, ([(wanted * 1.5).astype(kind)], heard))
    near = wanted.astype(float) * (1 + 2 * float(module.entry.root.shape.dtype.finfo.eps))
    assert not judge.differs(case, ([near.astype(kind)], heard))


@pytest.mark.parametrize(("number", "may"), ((1e-30, True), (2.0, False)))
def test_the_sign_of_a_zero_of_a_product_of_matrices_says_nothing(number, may):
    """The product of two tiny numbers is a zero, whose inverse is an infinity."""
    case = case_from(
        """
ENTRY e { x = f32[1] parameter(0)
  y = f32[1] parameter(1)
  d = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  one = f32[] constant(1)
  ROOT q = f32[] divide(one, d) }""",
        *[np.array([n], np.float32) for n in (-number, number)],
    )
    (wanted,), heard = case.wanted
    assert bool(judge.differs(case, ([-wanted], heard))) is not may


def test_infinities_of_partial_sums_say_nothing():
    """A product of matrices whose partial sums overflow upwards in one order, to both sides in another."""
    case = case_from(
        """
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT d = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0} }""",
        np.array([3e38, 3e38, -3e38, -3e38], np.float32),
        np.array([2, 2, 2, 2], np.float32),
    )
    heard = case.wanted[1]
    for number in (np.nan, np.inf, -np.inf):
        assert not judge.differs(case, ([np.float32(number)], heard))
    assert judge.differs(case, ([np.float32(0)], heard))


@pytest.mark.parametrize(
    "product",
    [
        "f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f32[1,1,1] convolution(a, b), window={size=4}, dim_labels=bf0_io0->bf0",
    ],
    ids=["dot", "convolution"],
)
def test_partial_sums_that_overflow_say_nothing(product):
    text = f"""
ENTRY e {{ x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[1,1,4] reshape(x)
  b = f32[1,1,4] reshape(y)
  ROOT d = {product} }}"""
    case = case_from(text, np.full(4, 3e38, np.float32), np.array([1, 1, -0.5, -0.5], np.float32))
    heard = case.wanted[1]
    shape = case.wanted[0][0].shape
    assert not judge.differs(case, ([np.full(shape, np.inf, np.float32)], heard))
    assert not judge.differs(case, ([np.full(shape, 3e38, np.float32)], heard))
    assert judge.differs(case, ([np.full(shape, 1e30, np.float32)], heard))
    plain = case_from(text, np.full(4, 3, np.float32), np.array([1, 1, -0.5, -0.5], np.float32))
    assert judge.differs(plain, ([np.full(shape, np.inf, np.float32)], heard))


def test_products_of_short_floats_in_long_ones_say_nothing():
    """They overflow from both ends, and code may multiply all elements in f32, and round once."""
    text = """
multiply { a = f8e4m3b11fnuz[] parameter(0)
  b = f8e4m3b11fnuz[] parameter(1)
  ROOT c = f8e4m3b11fnuz[] multiply(b, a) }
ENTRY e { x = f8e4m3b11fnuz[24] parameter(0)
  one = f8e4m3b11fnuz[] constant(1)
  ROOT p = f8e4m3b11fnuz[] reduce(x, one), dimensions={0}, to_apply=multiply }"""
    dtype = axla.parse(text).entry.root.shape.dtype.numpy
    case = case_from(text, np.array([2] * 6 + [0.5] * 12 + [2] * 6, dtype))
    wanted, heard = case.wanted
    assert np.isnan(float(wanted[0]))
    assert not judge.differs(case, ([np.array(1, dtype)], heard))


def test_what_one_rounding_per_step_changes_says_nothing():
    """Code rounds p * x + c once, where p is such a sum, too."""
    text = """
ENTRY e { x = f64[4] parameter(0)
  c = f64[] constant(1)
  b = f64[4] broadcast(c), dimensions={}
  s = f64[4] multiply(x, x)
  p = f64[4] add(s, b)
  m = f64[4] multiply(p, x)
  ROOT r = f64[4] add(m, b) }"""
    case = case_from(text, np.array([0.16042016, 1, 2, 3]))
    (wanted,), heard = case.wanted
    assert not judge.differs(case, ([np.nextafter(wanted, 9)], heard))
    assert judge.differs(case, ([wanted * (1 + 1e-8)], heard))
    one = case_from(text.replace("multiply(p, x)", "negate(p)"), *case.inputs)
    assert "in bits" in judge.differs(one, ([np.nextafter(one.wanted[0][0], 9)], heard))


def test_the_side_of_a_branch_cut_says_nothing():
    text = "ENTRY e { y = c64[] parameter(0)\n x = c64[] parameter(1)\n ROOT a = c64[] atan2(y, x) }"
    for x, may in ((-1 + 1j, True), (1, False)):
        case = case_from(text, np.array(not may, np.complex64), np.array(x, np.complex64))
        (wanted,), heard = case.wanted
        assert abs(wanted) > 0.5
        assert bool(judge.differs(case, ([-wanted], heard))) is not may


def test_what_the_host_hears_may_hang_on_rounding():
    text = """
ENTRY e { x = f32[2] parameter(0)
  t = token[] after-all()
  s = f32[2] sine(x)
  o = token[] outfeed(s, t), outfeed_shape=f32[2]
  q = token[] outfeed(x, o), outfeed_shape=f32[2]
  ROOT r = f32[] constant(0) }"""
    case = case_from(text, np.array([1e9, 1e8], np.float32))
    results, (first, second) = case.wanted
    assert not judge.differs(case, (results, [-first, second]))
    assert judge.differs(case, (results, [first, -second]))


def test_the_sign_of_a_nan_says_nothing():
    text = """
ENTRY e { x = f32[4] parameter(0)
  c = f32[] constant(-1)
  b = f32[4] broadcast(c), dimensions={}
  m = f32[4] multiply(b, x)
  ROOT r = u32[4] bitcast-convert(m) }"""
    case = case_from(text, np.array([np.nan, 1, 2, 3], np.float32))
    wanted, heard = case.wanted
    other = wanted[0] ^ np.array([1 << 31, 0, 0, 0], np.uint32)
    assert not judge.differs(case, ([other], heard))
    plain = case_from(text, np.array([0, 1, 2, 3], np.float32))
    assert judge.differs(plain, ([plain.wanted[0][0] ^ np.uint32(1 << 31)], heard))


@pytest.mark.parametrize("dtype", ["f8e5m2", "f8e4m3fn", "f16", "f64"])
def test_the_place_of_a_nan_of_arithmetic_in_an_order_says_nothing(dtype):
    text = f"""
ENTRY e {{ x = {dtype}[4] parameter(0)
  y = {dtype}[4] atanh(x)
  t = ({dtype}[1], s32[1]) topk(y), k=1, largest=true
  ROOT i = s32[1] get-tuple-element(t), index=1 }}"""
    dtype = axla.parse(text).entry.parameters[0].shape.dtype.numpy
    for values, may in (([0.5, 0.25, -2, 0], True), ([0.5, 0.25, -0.5, 0], False)):
        case = case_from(text, np.array(values, dtype))
        (wanted,), heard = case.wanted
        other = np.array([2 if wanted[0] != 2 else 0], np.int32)
        assert bool(judge.differs(case, ([other], heard))) is not may


def test_signs_of_several_nan_of_one_operation_say_nothing():
    text = """
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] subtract(x, x)
  t = (f32[2], s32[2]) topk(y), k=2, largest=true
  ROOT i = s32[2] get-tuple-element(t), index=1 }"""
    case = case_from(text, np.array([np.inf, np.inf, np.nan, np.inf], np.float32))
    heard = case.wanted[1]
    for places in ([0, 1], [2, 3], [1, 3]):
        assert not judge.differs(case, ([np.array(places, np.int32)], heard))
    plain = case_from(text, np.zeros(4, np.float32))
    assert judge.differs(plain, ([np.array([1, 3], np.int32)], heard))


def test_the_sign_of_a_nan_that_passes_two_operations_says_nothing():
    """Of which each may change it."""
    text = """
larger { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
ENTRY e { x = f32[2,4] parameter(0)
  z = f32[] constant(0)
  y = f32[4] reduce(x, z), dimensions={0}, to_apply=larger
  t = (f32[1], s32[1]) topk(y), k=1, largest=true
  ROOT i = s32[1] get-tuple-element(t), index=1 }"""
    case = case_from(text, np.array([[0.5, 0.25, np.nan, 0], [0, 1, 2, 3]], np.float32))
    (wanted,), heard = case.wanted
    other = np.array([2 if wanted[0] != 2 else 3], np.int32)
    assert not judge.differs(case, ([other], heard))


XLA_RULES = {
    "ROOT p = s32[] power(n, n)": "power",
    "ROOT d = s32[] dot(n, x)": "several types",
    "c = f32[] constant(-0)\n ROOT m = f32[] multiply(x, c)": "-0",
    "c = f32[] constant(1e-40)\n ROOT m = f32[] multiply(x, c)": "denormals",
    "z = f32[] constant(3)\n b = f32[2] broadcast(x)\n REDUCE": "neutral",
    "z = f32[] constant(0)\n b = f32[1] broadcast(x)\n REDUCE": "one element",
    "z = f32[] constant(0)\n b = f32[2] broadcast(x)\n REDUCE": "",
    "c = f32[] constant(2)\n ROOT m = f32[] power(x, c)": "",
    "b = f32[2] broadcast(x)\n"
    "ROOT m = f32[2] batch-norm-inference(b, b, b, b, b), epsilon=0.1, feature_index=0": "subtracts the mean",
    "b = f32[4] broadcast(x)\n d = f32[3] dynamic-slice(b, n), dynamic_slice_sizes={3}\n"
    "ROOT e = f32[2] dynamic-slice(d, n), dynamic_slice_sizes={2}": "slice of a slice",
}


@pytest.mark.parametrize(("body", "said"), XLA_RULES.items())
def test_what_xla_has_rules_of_its_own_for(body, said):
    text = f"""
o {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }}
ENTRY e {{ x = f32[] parameter(0)
  n = s32[] parameter(1)
  {body.replace("broadcast(x)", "broadcast(x), dimensions={}")} }}"""
    text = text.replace("REDUCE", "ROOT r = f32[] reduce(b, z), dimensions={0}, to_apply=o")
    found = oracles.has_other_rules(case_from(text, np.float32([1])[0], np.int32(2)))
    assert said in found if said else not found


def test_elements_that_tie_under_another_type_keep_their_order():
    draft = Draft(random.Random(1), "sorts")
    x = draft.entry.parameter(axla.parse("ENTRY e { ROOT x = f32[9] parameter(0) }").entry.root.shape)
    for dtype, stable in ((F8E5M2, True), (F32, False)):
        draft.entry.add(hlo.Sort((0,), False, draft.order([dtype], 0, "LT", True)), x)
        cases._orders(draft)
        assert next(reversed(draft.module.entry.instructions)).op.is_stable is stable


def test_long_sums_are_off_by_more():
    """By the square root of the number of terms, as in code that adds one after the other."""
    text = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[SIZE] parameter(0)
  zero = f32[] constant(0)
  s = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  c = f32[] constant(MOST)
  ROOT d = f32[] subtract(s, c) }"""
    for size, may in ((150_000, True), (100, False)):
        case = case_from(
            text.replace("SIZE", str(size)).replace("MOST", str(size * 0.9)), np.ones(size, "f4")
        )
        (wanted,), heard = case.wanted
        assert bool(judge.differs(case, ([np.float32(wanted * (1 + 3e-4))], heard))) is not may


def test_signs_of_two_nan_that_are_compared_say_nothing():
    text = """
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] minimum(x, y)
  b = f32[4] maximum(y, a)
  ROOT l = pred[4] compare(a, b), direction=LT, type=TOTALORDER }"""
    case = case_from(text, np.array([np.nan, 1, 2, 3], np.float32), np.ones(4, np.float32))
    (wanted,), heard = case.wanted
    assert not judge.differs(case, ([wanted ^ [True, False, False, False]], heard))
    plain = case_from(text, np.arange(4, dtype=np.float32), np.ones(4, np.float32))
    assert judge.differs(plain, ([plain.wanted[0][0] ^ [True, False, False, False]], heard))


def test_a_lost_control_edge_is_a_difference():
    text = """
ENTRY e { x = s32[] parameter(0)
  a = s32[] custom-call(x, x), custom_call_target="fuzz.told"
  b = s32[] custom-call(x, x), custom_call_target="fuzz.told", control-predecessors={a}
  ROOT c = s32[] add(a, b) }"""
    module = axla.parse(text)
    assert not unequal(module, axla.parse(module.to_string()))
    assert "follows" in unequal(module, axla.parse(text.replace(", control-predecessors={a}", "")))


ORDERED = """
order { a = s32[] parameter(0)
  b = s32[] parameter(1)
  k = s32[] constant(1)
  c = s32[] add(a, k)
  d = s32[] add(b, k)
  ROOT less = pred[] compare(c, d), direction=LT }
sum { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
ENTRY e { x = s32[8] parameter(0)
  z = s32[] constant(0)
  y = s32[8] sort(x), dimensions={0}, is_stable=true, to_apply=order
  s = s32[] reduce(y, z), dimensions={0}, to_apply=sum
  ROOT r = (s32[8], s32[]) tuple(y, s) }"""


def test_a_twin_sorts_by_an_order_and_reduces_by_what_is_associative():
    """Where they do not, results depend on what is compared or combined first."""
    case, known = case_from(ORDERED, np.arange(8, dtype=np.int32)), set()
    case.text = case.module.to_string()
    order = next(c for c in case.module.computations if c.name == "order")
    inside = {str(i.op) for i in order.instructions if i is not order.root}
    for seed in range(120):
        case.draw = random.Random(seed)
        made = cases.twin(case)
        if made is not None:
            by_name = {c.name: c for c in made.computations}
            order, total = by_name["order"], by_name["sum"]
            known |= {str(order.root.op.direction), total.root.opcode}
            assert {str(i.op) for i in order.instructions if i is not order.root} == inside
    assert known == {"LT", "GT", "add", "multiply", "maximum", "minimum"}


SMALLEST = """
less { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e { x = s32[9] parameter(0)
  i = s32[9] iota(), iota_dimension=0
  none = s32[] constant(99)
  ROOT r = (s32[2], s32[2]) custom-call(x, i, none, none), custom_call_target="ApproxTopK", \
called_computations={less}, backend_config={"top_k": 2, "reduction_dim": 0, "recall_target": 0.95, \
"aggregate_to_topk": true, "reduction_input_size_override": -1} }"""


def test_a_twin_of_an_approximate_topk_has_an_order():
    case, known = case_from(SMALLEST, np.arange(9, dtype=np.int32)), set()
    case.text = case.module.to_string()
    for seed in range(120):
        case.draw = random.Random(seed)
        made = cases.twin(case)
        if made is not None:
            known.add(str(next(c for c in made.computations if c.name == "less").root.op.direction))
    assert known == {"LT", "GT"}


def test_an_approximate_topk_has_an_order_for_nan():
    module = axla.parse(SMALLEST.replace("s32[] par", "f32[] par").replace("x = s32", "x = f32"))
    cases._orders(SimpleNamespace(module=module))
    assert [
        i.op.is_total_order for c in module.computations for i in c.instructions if i.opcode == "compare"
    ] == [True]


TURNED = """
from axla.ir.graph import NO_EXTRA
from axla.passes.added import add_pass

def turned(module):
    entry = module.entry
    calls = [i for i in entry.instructions if i.opcode == "custom-call"]
    extras = [i.extra for i in calls]
    for call in calls:
        entry.set_extra(call, NO_EXTRA)
    entry.set_extra(calls[0], extras[1].__class__(control_predecessors=(calls[1],)))

add_pass(turned, after="cse")
"""


def limits_here():
    from axla.backends.cpu import CpuBackend
    from axla.backends.options import CompileOptions

    target = CpuBackend().target(CompileOptions())
    return target.name, target.limits


def test_bisect_compiles_for_the_target_that_an_oracle_drew(tmp_path):
    path = tmp_path / "compiled.py"
    for seed in range(2):
        target = oracles.some_target(random.Random(seed))
        path.write_text(oracles.loading(target, {}))
        with Apart(60.0, load=[str(path)]) as child:
            assert child.call(limits_here) == (target.name, target.limits)


def how(tmp_path, module, oracle, seed):
    """How an oracle compiled a module."""
    reducing.asked_noting(tmp_path / "latest", module, [], oracle, str(seed), "", "")
    return reducing.noted(tmp_path / "latest", module)


def test_bisect_is_told_what_an_oracle_donated(tmp_path):
    case = case_from(ZERO, np.ones(4, np.float32))
    found = [how(tmp_path, case.module, "donated", seed) for seed in range(6)]
    assert {donated for _, _, donated in found} == {(), (0,)} and not any(
        "TARGET" in text for _, text, _ in found
    )


EDGES = """
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] exponential(x)
  ROOT r = f32[4] add(a, b) }"""


def test_bisect_is_told_the_flags_and_control_edges_that_an_oracle_added(tmp_path):
    case, path = case_from(EDGES, np.ones(4, np.float32)), tmp_path / "compiled.py"
    found = [how(tmp_path, case.module, "some-passes", seed) for seed in range(6)]
    edges = {any(i.extra.control_predecessors for i in module.entry.instructions) for module, _, _ in found}
    assert edges == {False, True}
    path.write_text(found[0][1])
    with Apart(60.0, load=[str(path)]) as child:
        current = child.call(flags.current)
        assert current.verify and current.shuffle is not None and current.disable_hlo_passes


def test_a_process_that_crashes_and_one_that_hangs_are_two_kinds():
    kinds = [
        reducing.kind_of(f"{work.ENDED} {how}") for how in ("with exit code -11", "SIGSEGV", work.BY_FORCE)
    ]
    assert kinds[0] == kinds[1] != kinds[2]


def test_bisect_is_told_how_an_oracle_compiled_what_ends_the_process(tmp_path, monkeypatch):
    class Ends(BaseException):
        pass

    def ends(*_, **__):
        raise Ends

    case = case_from(EDGES, np.ones(4, np.float32))
    monkeypatch.setattr(oracles, "ran", ends)
    with pytest.raises(Ends):
        how(tmp_path, case.module, "some-passes", 0)
    assert "axla_verify" in reducing.noted(tmp_path / "latest", case.module)[1]


STALE = """
from axla.cpu import programs

programs._constants = lambda module: "the same for all"
"""


def test_bisect_tells_an_entry_of_another_program(tmp_path, monkeypatch):
    """A cache may confuse a program with its twins, also with those that differ in a large constant."""
    monkeypatch.setenv("AXLA_VERIFY", "0")  # with it programs are compiled again
    monkeypatch.setenv("AXLA_CACHE_DIR", "")
    path = tmp_path / "stale.py"
    path.write_text(STALE)
    values = ", ".join(str(n / 2) for n in range(24))
    module = axla.parse(f"""
ENTRY e {{ x = f32[24] parameter(0)
  c = f32[24] constant({{{values}}})
  ROOT r = f32[24] add(x, c) }}""")
    said = reducing.bisected(module, [np.ones(24, np.float32)], "cache", [str(path)])
    assert said.startswith("cache: an entry of kind program")


def test_what_earlier_candidates_left_in_the_cache_is_not_asked(monkeypatch):
    monkeypatch.setenv("AXLA_VERIFY", "0")
    monkeypatch.setattr(programs, "_constants", lambda module: "the same for all")
    said = []
    for value in (1, 2):  # neither has a twin
        module = axla.parse(f"ENTRY e {{ ROOT c = f32[2] constant({{{value}, {value}}}) }}")
        said.append(reducing.asked(module, [], "cache", "1:1", "", "differs"))
    assert said == ["", ""]


def test_bisect_sees_in_which_order_the_host_is_called(tmp_path):
    path = tmp_path / "turned.py"
    path.write_text(TURNED)
    module = axla.parse("""
ENTRY e { x = s32[] parameter(0)
  k = s32[] constant(1)
  a = s32[] custom-call(x, x), custom_call_target="fuzz.told", custom_call_has_side_effect=true
  b = s32[] custom-call(x, k), custom_call_target="fuzz.told", custom_call_has_side_effect=true, \
control-predecessors={a}
  ROOT c = s32[] add(a, b) }""")
    with Trials(60.0, load=[told.__file__]) as trials:
        assert trials.ask(module, Question()).kind == "agrees"
    with Trials(60.0, load=[told.__file__, str(path)]) as trials:
        found = bisect(module, trials, Question())
    assert (found.culprit, found.name) == ("pass", "turned") and "outfeed" in found.outcome.text


def test_an_argument_that_is_written_is_a_failure():
    case = case_from(ZERO, np.ones(4, np.float32))

    class Writing:
        def execute(self, inputs, **options):
            inputs[0][2] = 7
            return [-np.ones(4, np.float32)]

    with pytest.raises(cases.Changed, match="argument 0"):
        case.run(Writing(), case.inputs)
    assert (case.inputs[0] == 1).all()


def test_the_type_of_a_comparison_need_not_be_said():
    text = "ENTRY e {{ x = f32[2] parameter(0) ROOT c = pred[2] compare(x, x), direction=EQ{} }}"
    plain, said, total = (axla.parse(text.format(kind)) for kind in ("", ", type=FLOAT", ", type=TOTALORDER"))
    plain.entry.set_op(plain.entry.root, hlo.Compare(Direction.EQ, CompareType.FLOAT))
    assert not unequal(plain, said)
    assert "type is TOTALORDER" in unequal(plain, total)


def test_cases_have_no_type_of_a_comparison_that_texts_leave_out():
    module = axla.parse("ENTRY e { x = f32[2] parameter(0)\n ROOT c = pred[2] compare(x, x), direction=EQ }")
    for kind, left in ((CompareType.FLOAT, None), (CompareType.TOTAL_ORDER, CompareType.TOTAL_ORDER)):
        module.entry.set_op(module.entry.root, hlo.Compare(Direction.EQ, kind))
        cases._forms(SimpleNamespace(module=module))
        assert module.entry.root.op.type is left


@pytest.mark.parametrize("name", ["devices", "asynchronous"])
def test_other_arguments_of_a_loop_without_end_say_nothing(name, monkeypatch):
    monkeypatch.setattr(cases, "SECONDS", 0.2)
    text = """
b { p = f32[2] parameter(0)
  ROOT n = f32[2] negate(p) }
c { p = f32[2] parameter(0)
  a = f32[1] slice(p), slice={[0:1]}
  s = f32[] reshape(a)
  z = f32[] constant(0)
  ROOT f = pred[] compare(s, z), direction=NE }
ENTRY e { x = f32[2] parameter(0)
  ROOT w = f32[2] while(x), condition=c, body=b }"""
    case = case_from(text, np.array([0, 3], np.float32))
    found = Counter()
    for seed in range(6):
        case.draw = random.Random(seed)
        try:
            assert not ORACLES[name].check(case)
            found["fine"] += 1
        except cases.Skip:
            found["skipped"] += 1
    assert found["skipped"]


@pytest.mark.parametrize("name", ("asynchronous", "ahead"))
def test_a_loop_without_end_says_nothing(monkeypatch, name):
    """Passes of the interpreter may have dropped the loop, whose results are known."""
    monkeypatch.setattr(cases, "SECONDS", 0.1)
    case = case_from(
        """
body { s = (s32[]) parameter(0)
  x = s32[] get-tuple-element(s), index=0
  y = s32[] negate(x)
  ROOT t = (s32[]) tuple(y) }
cond { s = (s32[]) parameter(0)
  x = s32[] get-tuple-element(s), index=0
  ROOT g = pred[] compare(x, x), direction=EQ }
ENTRY e { x = s32[] parameter(0)
  t = (s32[]) tuple(x)
  ROOT w = (s32[]) while(t), condition=cond, body=body }""",
        np.array(3, np.int32),
    )
    case.__dict__["wanted"] = ([np.array(3, np.int32)], [])
    with pytest.raises(cases.Skip):
        oracles.ORACLES[name].check(case)


def test_collectives_agree_with_the_model():
    for seed in range(6):
        assert not participants.modelled(random.Random(seed))


def test_the_model_tells_groups_apart(monkeypatch):
    """Groups that are read in another order are found."""
    from axla.ir import devices

    right = devices.ReplicaGroups.group_of

    def turned(self, member):
        found = right(self, member)
        return found and tuple(reversed(found))

    monkeypatch.setattr(devices.ReplicaGroups, "group_of", turned)
    found = 0
    for seed in range(12):
        try:
            found += bool(participants.modelled(random.Random(seed)))
        except AxlaError:
            continue
    assert found


CRASHING = """
import os, sys
sys.path[:0] = {paths!r}
from fuzz_lib import oracles, work


class Dies(oracles.Oracle):
    name = "dies"

    def check(self, case):
        os._exit(9)


if __name__ == "__main__":
    tasks = [work.Task(("crash:{first}",), ("dies",)), work.Task(("crash:{first}",), ("text",))]
    for report in work.reports(iter(tasks), 1):
        print(report.cases, [(f.seed, f.oracle, f.why) for f in report.failures], flush=True)
"""


def test_a_crash_is_named(tmp_path):
    """A process that dies is replaced, its case is a failure, and what follows is asked."""
    first = next(n for n in range(20) if can_run(f"crash:{n}"))
    file = tmp_path / "crashing.py"
    file.write_text(CRASHING.format(paths=[str(ROOT / n) for n in ("scripts", "tests", "src")], first=first))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert lines == [
        f"0 [('crash:{first}', 'dies', 'the process ended with exit code 9')]", "1 []",
    ], done.stdout + done.stderr  # fmt: skip


def can_run(seed: str) -> bool:
    try:
        return bool(cases.case_of(seed).wanted[0])
    except cases.Skip:
        return False


def test_a_named_oracle_draws_what_it_drew_in_a_run(monkeypatch):
    drawn = []

    class Drawing(oracles.Oracle):
        name, share = "", 0.5

        def check(self, case):
            drawn.append(case.draw.random())
            return ""

    monkeypatch.setattr(oracles, "ORACLES", {"drawing": Drawing()})
    seeds = [f"draws:{number}" for number in range(12)]
    for seed in seeds:
        work.one(seed, work.Task((), ()), work.Report())
    some = list(drawn)
    for seed in seeds:
        work.one(seed, work.Task((), ("drawing",)), work.Report())
    assert 0 < len(some) < len(drawn[len(some) :]) and set(some) <= set(drawn[len(some) :])
