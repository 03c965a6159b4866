"""A module written as StableHLO and read back computes the same, and MLIR's own parser accepts the text."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.comparison import random_inputs, run_flat
from axla.core.errors import UnsupportedError, VerifyError
from axla.ir.verify import verify
from axla.stablehlo import export_source, export_text
from axla.stablehlo.text.printer import print_source

EXAMPLES = sorted((Path(__file__).parents[3] / "docs" / "examples").glob("*.hlo"))
REFUSED = {"rng-get-and-update-state"}
ANOTHER_VALUE = {"rng"}  # each time
WAITING = {"infeed", "outfeed"}  # for a host
NEW = {"collective-reduce"}  # in the specification, not yet in jaxlib


@functools.cache
def _context():
    pytest.importorskip("jaxlib")
    jmlir = pytest.importorskip("jax._src.interpreters.mlir")
    return jmlir.make_ir_context()


def accepted(text: str) -> None:
    """MLIR parses and verifies a text, where it is installed."""
    context = _context()
    from jaxlib.mlir import ir

    with context:
        assert ir.Module.parse(text).operation.verify()


def again(text: str) -> tuple[axla.Module, str]:
    """HLO text by way of StableHLO."""
    exported = export_text(axla.parse(text))
    module = axla.parse(exported)
    verify(module)
    return module, exported


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_op_survives(path):
    before = axla.parse(path.read_text())
    if path.stem in REFUSED:
        with pytest.raises(UnsupportedError, match=path.stem):
            export_text(before)
        return
    after, text = again(path.read_text())
    assert "hlo." in text
    if path.stem in WAITING:
        return
    inputs = random_inputs(before)
    wanted, found = (run_flat(m, inputs, "interpreter") for m in (before, after))
    assert [a.dtype for a in found] == [a.dtype for a in wanted]
    if path.stem in ANOTHER_VALUE:
        return
    for a, b in zip(found, wanted, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_mlir_accepts_every_op(path):
    if path.stem not in REFUSED | NEW:
        accepted(export_text(axla.parse(path.read_text())))


def test_names_metadata_and_shardings_are_kept():
    module, text = again("""HloModule named, replica_count=2
ENTRY e {
  weights = f32[4]{0} parameter(0), sharding={replicated}
  ROOT y = f32[4]{0} negate(weights), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=7},
    sharding={devices=[2]0,1}, frontend_attributes={a="b"}
}""")
    assert module.name == "named" and module.config.replica_count == 2
    (parameter,) = module.entry.parameters
    assert parameter.name.startswith("weights") and str(parameter.extra.sharding) == "replicated"
    extra = module.entry.root.extra
    assert extra.location is not None
    assert (extra.location.op_name, extra.location.source_line) == ("jit(f)/neg", 7)
    assert str(extra.sharding) == "devices=[2]0,1" and extra.frontend_attributes == (("a", "b"),)
    accepted(text)
    assert "loc(" not in export_text(module, locations=False)


def test_aliases_donors_and_layouts_are_kept():
    text = """HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }, buffer_donor={ (1, {}) },
  entry_computation_layout={(f32[2]{0}, f32[2,3]{0,1})->(f32[2,3]{0,1}, f32[2]{0})}
ENTRY e {
  x = f32[2]{0} parameter(0)
  y = f32[2,3]{0,1} parameter(1)
  ROOT t = (f32[2,3]{0,1}, f32[2]{0}) tuple(y, x)
}"""
    module, exported = again(text)
    accepted(exported)
    assert [(a.output, a.parameter) for a in module.config.aliases] == [((1,), 0)]
    assert module.config.buffer_donors == ((1, ()),)
    layout = module.config.entry_layout
    assert layout is not None and str(layout.parameters[1].layout) == "{0,1}"  # type: ignore[attr-defined]
    assert str(layout.result.elements[0].layout) == "{0,1}"  # type: ignore[attr-defined]


def test_tuples_are_taken_apart():
    text = """HloModule m, input_output_alias={ {0, 1}: (0, {1}, may-alias) }
ENTRY e {
  p = (f32[], (s32[2], f32[])) parameter(0)
  a = f32[] get-tuple-element(p), index=0
  q = (s32[2], f32[]) get-tuple-element(p), index=1
  t = (f32[], (s32[2], f32[])) tuple(a, q)
  b = (f32[], (s32[2], f32[])) opt-barrier(t)
  c = (s32[2], f32[]) get-tuple-element(b), index=1
  ROOT r = ((s32[2], f32[]), f32[]) tuple(c, a)
}"""
    module, exported = again(text.replace("{0, 1}: (0, {1}", "{0, 0}: (0, {1, 0}"))
    accepted(exported)
    assert "tuple" not in exported
    assert [str(p.shape) for p in module.entry.parameters] == ["f32[]", "s32[2]{0}", "f32[]"]
    assert [(a.output, a.parameter) for a in module.config.aliases] == [((0,), 1)]
    found = module.entry.root.shape
    assert [str(s) for s in found.leaves()] == ["s32[2]{0}", "f32[]", "f32[]"]


def test_custom_calls_keep_what_they_say():
    module, exported = again("""
f { ROOT x = f32[2,3]{1,0} parameter(0) }
ENTRY e {
  x = f32[2,3]{1,0} parameter(0)
  one = (f32[2,3]{0,1}, s32[]) custom-call(x), custom_call_target="target", api_version=API_VERSION_TYPED_FFI,
    operand_layout_constraints={f32[2,3]{0,1}}, output_to_operand_aliasing={{0}: (0, {})},
    custom_call_has_side_effect=true, backend_config={flag = true, n = 3 : i64}, called_computations={f}
  single = (s32[]) custom-call(), custom_call_target="s", backend_config="opaque text"
  n = s32[] get-tuple-element(single), index=0
  y = f32[2,3]{0,1} get-tuple-element(one), index=0
  ROOT t = (f32[2,3]{0,1}, s32[]) tuple(y, n)
}""")
    accepted(exported)
    call = next(i for i in module.entry.instructions if getattr(i.op, "custom_call_target", "") == "target")
    assert str(call.shape) == "(f32[2,3]{0,1}, s32[])"
    assert str(call.op.operand_layout_constraints[0]) == "f32[2,3]{0,1}"  # type: ignore[attr-defined]
    assert call.extra.backend_config == "{flag = true, n = 3 : i64}"
    assert call.op.custom_call_has_side_effect and call.op.called_computations  # type: ignore[attr-defined]
    assert call.op.output_to_operand_aliasing[0].output == (0,)  # type: ignore[attr-defined]


@pytest.mark.parametrize("said", [
    "window={size=3x3 stride=2x1 pad=1_2x0_0 lhs_dilate=2x2 rhs_dilate=1x3 rhs_reversal=1x0}",
    "window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=3, batch_group_count=2",
    "window={}, dim_labels=bf_io->bf, operand_precision={high,default}", "padding_type=PADDING_SAME",
    "literal=(s32[2]{0} {4, 128}, pred[] true)", "schedule=SCHEDULE_LATEST",
])  # fmt: skip
def test_custom_calls_keep_what_stablehlo_has_no_words_for(said):
    source = f"""ENTRY e {{
  x = f32[2] parameter(0)
  ROOT y = f32[2] custom-call(x, x), custom_call_target="t", {said}
}}"""
    module, exported = again(source)
    accepted(exported)
    assert module.entry.root.op == axla.parse(source).entry.root.op


@pytest.mark.parametrize("given, message", [
    ('{schedule = "SOON"}', "SOON"), ("{window_dimensions = 3 : i64}", "window_dimensions"),
    (
        "{window_dimensions = array<i64: 3>, window_strides = array<i64: 1, 2>}",
        "stride has 2 entries, but size has 1",
    ),
    ('{dimension_numbers = "b0f"}', "dimension_numbers"), ("3 : i64", "dictionary"),
])  # fmt: skip
def test_what_is_wrong_in_them_is_refused(given, message):
    call = f"stablehlo.custom_call @t(%x) {{axla.custom_call = {given}}} : (tensor<2xf32>) -> tensor<2xf32>"
    with pytest.raises(VerifyError, match=message):
        axla.parse(
            f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ %0 = {call} return %0 : tensor<2xf32> }}"
        )


def test_composites_and_calls_are_functions():
    module, exported = again("""
f { x = f32[] parameter(0) ROOT y = f32[] sine(x) }
ENTRY e {
  x = f32[] parameter(0)
  a = f32[] call(x), to_apply=f
  ROOT b = f32[] call(a), to_apply=f, is_composite=true, frontend_attributes={
    composite.attributes={n = 2 : i64},composite.name="lib.op",composite.version="3"}
}""")
    accepted(exported)
    assert exported.count('"func.func"') == 2 and '"stablehlo.composite"' in exported
    assert dict(module.entry.root.extra.frontend_attributes)["composite.version"] == "3"


def test_bounds_of_dynamic_sizes():
    module, exported = again("""ENTRY e {
  x = f32[<=5] parameter(0)
  n = s32[] constant(3)
  c = f32[5] constant({1,2,3,4,5})
  ROOT y = f32[<=5] set-dimension-size(c, n), dimensions={0}
}""")
    accepted(exported)
    assert "tensor<?xf32, #stablehlo.bounds<5>>" in exported
    assert str(module.entry.root.shape).startswith("f32[<=5]")


def test_shared_branches_do_not_multiply():
    """Each of 30 computations branches to the next one twice: written out, there would be 2^30."""
    lines = ["c0 { ROOT x = f32[] parameter(0) }"]
    for n in range(1, 31):
        lines.append(
            f"c{n} {{ x = f32[] parameter(0) z = f32[] constant(0) p = pred[] compare(x, z), direction=GT\n"
            f"  ROOT y = f32[] conditional(p, x, x), true_computation=c{n - 1}, false_computation=c{n - 1} }}"
        )
    lines.append("ENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=c30 }")
    source = export_source(axla.parse("\n".join(lines)))
    assert len(source.body) <= 32 and len(print_source(source)) < 60_000


def test_deep_nesting_becomes_functions():
    """150 loops in one another: MLIR's parser and ours have limits."""
    lines = ["b0 { ROOT x = s32[] parameter(0) }"]
    for n in range(1, 151):
        lines.append(f"k{n} {{ x = s32[] parameter(0) ROOT p = pred[] constant(false) }}")
        lines.append(
            f"b{n} {{ x = s32[] parameter(0) ROOT y = s32[] while(x), condition=k{n}, body=b{n - 1} }}"
        )
    lines.append("ENTRY e { x = s32[] parameter(0) ROOT y = s32[] call(x), to_apply=b150 }")
    module, exported = again("\n".join(lines))
    accepted(exported)
    assert run_flat(module, [np.int32(7)], "interpreter")[0] == 7


LACKING = {
    "rng-get-and-update-state %s": """
  s = u64[2] rng-get-and-update-state(), delta=1
  ROOT r = f32[] constant(0)""",
    "dot %d: a dot of sparse operands": """
  a = f32[2,8] constant(0)
  b = f32[16,2] constant(0)
  m = u16[2,2] constant(0)
  ROOT d = f32[2,2] dot(a, b, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sparsity=L.1@2:4""",
    "scatter %s: a region that combines elements in a type not wider than theirs": """
  p = f32[9] constant(0)
  i = s32[1,1] constant(0)
  u = f32[1] constant(0)
  ROOT s = f32[9] scatter(p, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second""",
    "batch-norm-training %n: .* operands of another type": """
  x = bf16[9,3] constant(0)
  f = f16[3] constant(0)
  ROOT n = (bf16[9,3], f16[3], f16[3]) batch-norm-training(x, f, f), epsilon=1, feature_index=1""",
    "sort %s: a comparator or operands of another type": """
  p = f32[9] constant(0)
  ROOT s = f32[9] sort(p), dimensions={0}, to_apply=less""",
}
SHORT = """
second { a = bf16[] parameter(0)  ROOT b = bf16[] parameter(1) }
less { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT l = pred[] compare(a, b), direction=LT }"""


@pytest.mark.parametrize("said, text", LACKING.items())
def test_what_stablehlo_lacks_is_named(said, text):
    module = axla.parse(f"{SHORT} ENTRY e {{ {text} }}")
    with pytest.raises(UnsupportedError, match=said):
        export_text(module)


def test_operands_of_a_convolution_get_one_type():
    text = "ENTRY e {{ x = f32[2,1,4] parameter(0)  k = bf16[1,2,2] parameter(1)  {} }}"
    how = "window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2"
    module = axla.parse(text.format(f"ROOT c = f32[2,1,2] convolution(x, k), {how}"))
    again = axla.parse(export_text(module))
    inputs = random_inputs(module)
    one, other = (axla.compile(m, backend="interpreter").execute(inputs)[0] for m in (module, again))
    assert (np.array(one) == np.array(other)).all()
    with pytest.raises(UnsupportedError, match="rounded to a narrower"):
        export_text(axla.parse(text.format(f"ROOT c = bf16[2,1,2] convolution(x, k), {how}")))


def test_what_stablehlo_lacks_of_a_window_is_named():
    text = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[8] parameter(0)
  z = f32[] constant(0)
  ROOT y = f32[6] reduce-window(x, z), window={size=3%s}, to_apply=add
}"""
    export_text(axla.parse(text % ""))
    with pytest.raises(UnsupportedError, match="reduce-window %y: window=.*reversal"):
        export_text(axla.parse(text % " rhs_reversal=1"))


@pytest.mark.parametrize("body, message", [
    ("p = (f32[], f32[]) parameter(0)  ROOT q = f32[] get-tuple-element(p), index=2", "index=2 is not one"),
    ("p = f32[] parameter(0)  ROOT q = f32[] call(), to_apply=f", "f has 1 parameters, 0 are wanted"),
    ("p = f32[2] parameter(0)  ROOT q = f32[] negate(p)", "negate gives"),
])  # fmt: skip
def test_modules_that_are_not_in_order_are_refused(body, message):
    callee = "f { p = f32[] parameter(0)  ROOT n = f32[] negate(p) }"
    with pytest.raises(VerifyError, match=message):
        export_text(axla.parse(f"HloModule m\n{callee}\nENTRY e {{ {body} }}"))


def test_the_module_is_not_changed():
    text = (EXAMPLES[0].parent / "scaled-dot.hlo").read_text()
    module = axla.parse(text)
    before = module.to_string()
    assert "scaled-dot" not in export_text(module)
    assert module.to_string() == before


MIXED = {
    "a reducer of a wider type": """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = bf16[4] parameter(0)  ROOT y = bf16[4] all-reduce(x), replica_groups={{0}}, to_apply=add }""",
    "a scatter computed in a wider type": """
take { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = bf16[3,2] parameter(0)
  at = s32[1] constant({1})
  y = bf16[1,2] parameter(1)
  ROOT s = bf16[3,2] scatter(x, at, y), to_apply=take, update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1
}""",
    "integers times floats": """
ENTRY e {
  x = f32[2,3] parameter(0)
  y = s8[3,2] parameter(1)
  ROOT d = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""",
    "several arrays to all": """HloModule m, replica_count=1
ENTRY e {
  x = f32[2] parameter(0)
  a = (f32[2]) all-to-all(x), replica_groups={}
  ROOT y = f32[2] get-tuple-element(a), index=0
}""",
    "smallest elements": "ENTRY e { x = f32[2,6] parameter(0)  ROOT t = topk(x), k=2, largest=false }",
    "few of many smallest elements": (
        "ENTRY e { x = f32[2,40] parameter(0)  ROOT t = topk(x), k=2, largest=false }"
    ),
    "a vector of start indices": """
ENTRY e {
  x = f32[4,5] parameter(0)
  at = s32[2] constant({1, 2})
  ROOT y = f32[2,2] dynamic-slice(x, at), dynamic_slice_sizes={2,2}
}""",
    "memory read in another order": """
ENTRY e {
  x = f32[2,3]{1,0} parameter(0)
  b = s32[3,2]{0,1} bitcast(x)
  ROOT y = u8[3,2,4]{2,0,1} bitcast(b)
}""",
}


@pytest.mark.parametrize("text", MIXED.values(), ids=MIXED.keys())
def test_what_stablehlo_says_differently(text):
    before, (after, exported) = axla.parse(text), again(text)
    accepted(exported)
    inputs = random_inputs(before)
    if "bitcast" in text:  # our interpreter knows no layouts: what NumPy says
        wanted = [inputs[0].view(np.uint8).reshape(2, 3, 4).transpose(1, 0, 2)]
    else:
        wanted = run_flat(before, inputs, "interpreter")
    for a, b in zip(run_flat(after, inputs, "interpreter"), wanted, strict=True):
        assert a.tobytes() == b.tobytes()


def test_shardings_count_results():
    module, exported = again("""
ENTRY e {
  t = token[] after-all()
  in = ((f32[4], s32[2]), token[]) infeed(t), sharding={{maximal device=0}, {replicated}, {maximal device=0}}
  data = (f32[4], s32[2]) get-tuple-element(in), index=0
  ROOT x = f32[4] get-tuple-element(data), index=0
}""")
    accepted(exported)
    assert str(module.entry.root.shape) == "f32[4]{0}"


def test_each_of_several_operands_keeps_its_own_root():
    module = axla.parse("""HloModule m, replica_count=2
ENTRY e {
  x = f32[3] parameter(0)
  y = s32[4] parameter(1)
  root = s32[2] parameter(2)
  ROOT c = (f32[3], s32[4]) collective-broadcast(x, y, root), replica_groups={{0,1}}, has_dynamic_root=true
}""")
    roots = np.array([1, 0], np.int32)
    inputs = [[np.full(3, k, np.float32), np.full(4, k, np.int32), roots] for k in range(2)]
    for program in (module, axla.parse(export_text(module))):
        run = axla.compile(program, backend="interpreter", num_replicas=2)
        for x, y in run.execute_replicated(inputs):
            assert x.tolist() == [1, 1, 1] and y.tolist() == [0, 0, 0, 0]
