"""Whole programs: what is right is left alone; symbols, functions, calls and regions."""

from __future__ import annotations

import pytest
from verified_corpora import corpus

import axla
from axla.core.errors import AxlaError, VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.importer.program import functions_of
from axla.stablehlo.text import parse
from axla.stablehlo.verify import verify

RETURN = "return %a : tensor<2xf32>"
F32 = "tensor<2xf32>"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("function_results", f"func.func @f(%a: {F32}) -> tensor<3xf32> {{ {RETURN} }}"),
        ("function_results", f"func.func @f(%a: {F32}) -> ({F32}, {F32}) {{ {RETURN} }}"),
        ("terminator", f"func.func @f(%a: {F32}) {{ %0 = stablehlo.abs %a : {F32} }}"),
        ("terminator", f"func.func @f(%a: {F32}) -> {F32} {{ {RETURN} {RETURN} }}"),
        ("symbols", f"func.func @f(%a: {F32}) -> {F32} {{ {RETURN} }} func.func @f() {{ return }}"),
        ("call", f"func.func @f(%a: {F32}) -> {F32} {{ %0 = call @g(%a) : ({F32}) -> {F32} {RETURN} }}"),
        (
            "call_operands",
            f"func.func private @g(tensor<f32>) -> {F32}"
            f" func.func @f(%a: {F32}) -> {F32} {{ %0 = call @g(%a) : ({F32}) -> {F32} {RETURN} }}",
        ),
        (
            "call_results",
            f"func.func private @g({F32}) -> tensor<f32>"
            f" func.func @f(%a: {F32}) -> {F32} {{ %0 = call @g(%a) : ({F32}) -> {F32} {RETURN} }}",
        ),
        ("bounds", "func.func private @f(tensor<3xf32, #stablehlo.bounds<3>>)"),
        ("bounds", "func.func private @f(tensor<?x?xf32, #stablehlo.bounds<3>>)"),
        ("quantized_type_c5", "func.func private @f(tensor<3x!quant.uniform<i8:f32, 0.0>>)"),
        (
            "isolated",
            f"""func.func @f(%a: {F32}) {{
              %0 = "stablehlo.async_start"(%a) ({{ ^b(%b: {F32}):
                %1 = "stablehlo.slice"(%a) {{start_indices = array<i64: 0>, limit_indices = array<i64: 2>,
                  strides = array<i64: 1>}} : ({F32}) -> {F32}
                stablehlo.return %1 : {F32} }}) : ({F32}) -> !stablehlo.future<{F32}>
              return }}""",
        ),
    ],
)
def test_a_broken_program(rule, text):
    with pytest.raises(VerifyError, match=rf"^\d+:\d+: [\w.]+: {rule}: "):
        verify(parse(text))


REPEATED = f"""func.func @f(%a: {F32}, %b: tensor<2x3xf32>) {{
  %0 = stablehlo.constant dense<2> : tensor<1xi64>
  %1 = stablehlo.constant dense<3> : tensor<1xi64>
  %2 = stablehlo.dynamic_reshape %a, %0 : ({F32}, tensor<1xi64>) -> tensor<?xf32>
  %3 = stablehlo.reverse %b, dims = [0, 1] : tensor<2x3xf32>
  %4 = stablehlo.add %a, %a : {F32}
  OPERATION
  return }}"""


@pytest.mark.parametrize(
    ("rule", "operation", "right", "wrong"),
    [
        (
            "dynamic_reshape_c2",
            f"dynamic_reshape %a, X : ({F32}, tensor<1xi64>) -> tensor<?xf32>",
            "%0",
            "%1",
        ),
        ("reverse_c2", "reverse %b, dims = [0, X] : tensor<2x3xf32>", "1", "0"),
        ("add_c1", f"add %a, %a : ({F32}, {F32}) -> X", F32, "tensor<2x3xf32>"),
    ],
)
def test_an_operation_like_one_that_is_right_is_checked_again(rule, operation, right, wrong):
    """It differs in the constants that it takes, in an attribute, in a type."""
    text = REPEATED.replace("OPERATION", f"%5 = stablehlo.{operation}")
    verify(parse(text.replace("X", right)))
    with pytest.raises(VerifyError, match=rf"^7:\d+: [\w.]+: {rule}: "):
        verify(parse(text.replace("X", wrong)))


@pytest.mark.parametrize(
    "text",
    [
        # sizes unknown on one side, bounds that shrink
        """func.func @f(%a: tensor<?xf32, #stablehlo.bounds<4>>, %b: tensor<?xf32>) {
          %0 = "stablehlo.add"(%a, %b) : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<?xf32>) -> tensor<3xf32>
          %1 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<?xf32, #stablehlo.bounds<4>>,
            tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<?xf32, #stablehlo.bounds<8>>
          %2 = chlo.broadcast_add %a, %b : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<?xf32>)
            -> tensor<?xf32>
          return }""",
        # unranked tensors in CHLO, other dialects, declarations
        """func.func private @g(tensor<*xi10>)
        func.func @f(%a: tensor<*xf32>) -> tensor<*xf32> {
          %0 = chlo.erf %a : tensor<*xf32> -> tensor<*xf32>
          %1 = "other.op"(%0) ({ "other.end"() : () -> () }) : (tensor<*xf32>) -> !other.type
          return %0 : tensor<*xf32> }""",
        # the same symbol in two modules, a call within
        """module { module @a { func.func @f() { return } func.func @g() { call @f() : () -> () return } }
                    module @b { func.func @f() { return } } }""",
        # quantized weights of a convolution, a number of which has an axis
        """func.func @f(%a: tensor<1x6x6x3x!quant.uniform<i8:f32, 0.5:3>>,
                       %b: tensor<3x3x3x2x!quant.uniform<i8:f32:3, {0.5, 0.25}>>) {
          %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
            window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<1x6x6x3x!quant.uniform<i8:f32, 0.5:3>>,
               tensor<3x3x3x2x!quant.uniform<i8:f32:3, {0.5, 0.25}>>)
            -> tensor<1x4x4x2x!quant.uniform<i32:f32:3, {0.5, 0.25}>>
          return }""",
    ],
    ids=["bounds", "unranked", "modules", "quantized"],
)
def test_a_right_program_is_left_alone(text):
    verify(parse(text))


def test_parse_verifies_before_it_imports():
    text = f"func.func @main(%a: {F32}) -> {F32} {{ %0 = stablehlo.not %a : {F32} return %0 : {F32} }}"
    with pytest.raises(VerifyError, match=r"^1:\d+: stablehlo.not: not_i1: operand operand must be a tensor"):
        axla.parse(text)


def test_without_a_position_the_location_says_where():
    text = f'func.func @main(%a: {F32}) {{ %0 = stablehlo.not %a : {F32} loc("n"("model.py":7:3)) return }}'
    source = parse(text)
    functions_of(source)["main"].regions[0].blocks[0].operations[0].position = (0, 0)  # as in bytecode
    with pytest.raises(VerifyError, match=r"^model.py:7:3: stablehlo.not: not_i1: "):
        verify(source)


def test_deep_nesting_and_many_blocks_need_no_recursion():
    inner = mlir.Operation("other.end", [], ())
    for _ in range(20_000):
        block = mlir.Block()
        block.operations = [inner]
        inner = mlir.Operation("other.op", [], (), None, [mlir.Region([block])])
    block = mlir.Block()
    block.operations = [inner]
    verify(mlir.Source(mlir.Operation("builtin.module", [], (), {}, [mlir.Region([block])])))


@pytest.mark.corpus
@pytest.mark.parametrize("folder", ["static", "dynamic", "quantized", "interpret", "interpret-original"])
def test_the_corpus_holds_all_rules(folder):
    for name, text in corpus(folder).items():
        try:
            verify(parse(text))
        except AxlaError as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.corpus
def test_the_invalid_corpus_is_refused():
    cases = corpus("invalid")
    accepted = []
    for name, text in cases.items():
        try:
            verify(parse(text))
            accepted.append(name)
        except AxlaError as error:
            assert "malformed" not in str(error), name
    assert len(cases) > 400 and len(accepted) <= len(cases) // 100, accepted
