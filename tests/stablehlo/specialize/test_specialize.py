"""Programs with `?`: made for sizes that are given, refused with the reason where they cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla import proto
from axla.core.errors import AxlaError, InvalidArgument, UnsupportedError, VerifyError
from axla.stablehlo.importer.program import functions_of
from axla.stablehlo.modules import DynamicModule
from axla.stablehlo.specialize import specialize
from axla.stablehlo.text import parse

BACKENDS = ("interpreter", "cpu")


def run(text: str, *arguments, dim_args=None, backend: str = "interpreter") -> list[np.ndarray]:
    """The results of a program made for these arguments."""
    values = [np.asarray(a) for a in arguments]
    compiled = axla.compile(axla.parse(text, arg_types=values, dim_args=dim_args), backend=backend)
    return [np.asarray(r) for r in compiled.execute(values)]


def names(text: str, *types: str, dim_args=None) -> list[str]:
    """The operations of what main becomes, constants and returns left out."""
    source = specialize(parse(text), "main", list(types) or None, dim_args)
    block = functions_of(source)["main"].regions[0].blocks[0]
    return [
        op.name.removeprefix("stablehlo.")
        for op in block.operations
        if op.name not in ("stablehlo.constant", "func.return")
    ]


ONES = """
func.func @main(%n: tensor<i64>, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %four = stablehlo.constant dense<4> : tensor<1xi64>
  %rows = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
  %sizes = stablehlo.concatenate %rows, %four, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %ones = stablehlo.dynamic_broadcast_in_dim %one, %sizes, dims = []
    : (tensor<f32>, tensor<2xi64>) -> tensor<?x4xf32>
  %sum = stablehlo.add %x, %ones : tensor<?x4xf32>
  return %sum : tensor<?x4xf32>
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_leading_arguments_become_constants(backend):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (found,) = run(ONES, x, dim_args=[3], backend=backend)
    assert np.array_equal(found, x + 1)
    assert names(ONES, "tensor<3x4xf32>", dim_args=[3]) == ["broadcast_in_dim", "add"]


def test_a_module_with_open_sizes_waits_for_them():
    module = axla.parse(ONES)
    assert isinstance(module, DynamicModule)
    assert repr(module).startswith("<module @main(tensor<i64>, tensor<?x4xf32>) -> tensor<?x4xf32>")
    with pytest.raises(InvalidArgument, match="sizes of @main.*give arg_types"):
        _ = module.entry
    for rows in (2, 5):
        x = np.zeros((rows, 4), np.float32)
        compiled = axla.compile(module, backend="interpreter", arg_types=[x], dim_args=[rows])
        assert np.array_equal(np.asarray(compiled.execute([x])[0]), np.ones((rows, 4)))


@pytest.mark.parametrize(
    "types, dims, message",
    [
        (None, None, "argument 1 is tensor<\\?x4xf32>: arg_types must say its sizes"),
        (["tensor<3x4xf32>"], None, "arg_types has 1 types; @main takes 2 arguments"),
        ("f32[3,4]", None, r"wanted a sequence of types, found 'f32\[3,4\]'"),
        (["tensor<3x5xf32>"], [3], "argument 1 is tensor<\\?x4xf32>, found tensor<3x5xf32>"),
        (["tensor<3x4xf64>"], [3], "argument 1 is tensor<\\?x4xf32>, found tensor<3x4xf64>"),
        ([np.zeros((3, 4), np.int32)], [3], "argument 1 is tensor<\\?x4xf32>, found s32\\[3, 4\\]"),
        ([7], [3], "for argument 1 the text of a type"),
        (["tensor<3x4xf32>"], [1 << 70], "dim_args\\[0\\]=.*a value of tensor<i64>"),
        (["tensor<3x4xf32>"], ["3"], "dim_args\\[0\\]='3'"),
        ([], [3, 4], "argument 1 is tensor<\\?x4xf32>, a scalar integer is wanted"),
        (None, [3, 4, 5], "dim_args has 3 values, @main takes 2 arguments"),
    ],
)
def test_what_is_given_has_to_fit(types, dims, message):
    with pytest.raises(InvalidArgument, match=message):
        axla.compile(axla.parse(ONES), arg_types=types, dim_args=dims)


def test_only_open_programs_take_types():
    module = axla.parse("HloModule a\nENTRY e { ROOT p = f32[] parameter(0) }")
    with pytest.raises(InvalidArgument, match="has no unknown sizes"):
        axla.compile(module, arg_types=[np.float32(1)])


def test_sizes_that_only_the_run_knows_are_refused_by_name():
    with pytest.raises(
        UnsupportedError, match=r"dynamic_broadcast_in_dim at line 7.*known only when.*dim_args"
    ):
        axla.parse(ONES, arg_types=["tensor<i64>", "tensor<3x4xf32>"])


def test_sizes_that_disagree_are_refused():
    with pytest.raises(VerifyError, match="stablehlo.add at line 9.*sizes 3 and 2 in dimension 0"):
        axla.parse(ONES, arg_types=["tensor<3x4xf32>"], dim_args=[2])


def program(body: str, arguments: str, results: str) -> str:
    return f"func.func @main({arguments}) -> {results} {{\n{body}\n}}"


SIZES = """%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %c0 = stablehlo.constant dense<0> : tensor<1xi32>
  %c1 = stablehlo.constant dense<1> : tensor<1xi32>
  %c2 = stablehlo.constant dense<2> : tensor<1xi32>
  %half = stablehlo.divide %r, %c2 : tensor<1xi32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
"""
X = np.arange(1, 6, dtype=np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "operation, name, wanted",
    [
        (
            '"stablehlo.real_dynamic_slice"(%x, %c1, %r, %c2) : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>,'
            " tensor<1xi32>)", "slice", X[1::2],
        ),
        (
            '"stablehlo.dynamic_pad"(%x, %zero, %half, %c1, %c0) : (tensor<?xf32>, tensor<f32>,'
            " tensor<1xi32>, tensor<1xi32>, tensor<1xi32>)",
            "pad", np.array([0, 0, 1, 2, 3, 4, 5, 0], np.float32),
        ),
        ("stablehlo.dynamic_iota %half, dim = 0 : (tensor<1xi32>)", "iota", np.arange(2, dtype=np.float32)),
        (
            "stablehlo.dynamic_reshape %x, %r : (tensor<?xf32>, tensor<1xi32>)", "reshape", X,
        ),
        (
            '"stablehlo.dynamic_gather"(%x, %c1, %half) {dimension_numbers = #stablehlo.gather<'
            "offset_dims = [0], start_index_map = [0]>} : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>)",
            "gather", X[1:3],
        ),
        (
            '"stablehlo.set_dimension_size"(%x, %h) {dimension = 0 : i64} : (tensor<?xf32>, tensor<i32>)',
            "slice", X[:2],
        ),
        (
            '"stablehlo.concatenate"(%x, %x) {dimension = 0 : i64} : (tensor<?xf32>, tensor<?xf32>)',
            "concatenate", np.concatenate([X, X]),
        ),
    ],
)  # fmt: skip
def test_sizes_as_operands(operation, name, wanted, backend):
    body = SIZES + "%h = stablehlo.reshape %half : (tensor<1xi32>) -> tensor<i32>\n"
    body += f"%0 = {operation} -> tensor<?xf32>\nreturn %0 : tensor<?xf32>"
    text = program(body, "%x: tensor<?xf32>", "tensor<?xf32>")
    assert names(text, "tensor<5xf32>") == [name]
    assert np.array_equal(run(text, X, backend=backend)[0], wanted)


def test_a_convolution_whose_padding_is_an_operand():
    body = """%p = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi32>
    %0 = "stablehlo.dynamic_conv"(%x, %k, %p) {batch_group_count = 1 : i64, feature_group_count = 1 : i64,
      dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, window_strides = array<i64: 2>}
      : (tensor<1x2x?xf32>, tensor<3x2x3xf32>, tensor<1x2xi32>) -> tensor<1x3x?xf32>
    return %0 : tensor<1x3x?xf32>"""
    text = program(body, "%x: tensor<1x2x?xf32>, %k: tensor<3x2x3xf32>", "tensor<1x3x?xf32>")
    x, k = np.ones((1, 2, 7), np.float32), np.ones((3, 2, 3), np.float32)
    assert run(text, x, k)[0][0, 0].tolist() == [4, 6, 6, 4]


ASSERTED = """
module {
  func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %ok = func.call @even(%n, %two) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%ok, %n, %two) {api_version = 2 : i32, has_side_effect = true,
      error_message = "found {0}, a multiple of {1} is wanted ({0}, {7})"}
      : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
    return %x : tensor<?xf32>
  }
  func.func private @even(%n: tensor<i32>, %two: tensor<i32>) -> tensor<i1> {
    %r = stablehlo.remainder %n, %two : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %is = stablehlo.compare EQ, %r, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    return %is : tensor<i1>
  }
}
"""


def test_shape_assertions_are_checked():
    assert names(ASSERTED, "tensor<4xf32>") == []
    with pytest.raises(
        InvalidArgument, match=r"shape assertion at line 7, column 5: found 5, a multiple of 2"
    ):
        run(ASSERTED, np.zeros(5, np.float32))
    with pytest.raises(InvalidArgument, match=r"wanted \(5, \{7\}\)"):
        run(ASSERTED, np.zeros(5, np.float32))


def test_an_assertion_about_a_value_of_the_run_is_refused():
    text = program(
        'stablehlo.custom_call @shape_assertion(%p) {error_message = "no", has_side_effect = true}'
        " : (tensor<i1>) -> ()\nreturn %p : tensor<i1>", "%p: tensor<i1>", "tensor<i1>",
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="custom_call at line 2.*a shape assertion depends on values"):
        axla.parse(text)


FUNCTIONS = """
module {
  func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<i32>) {
    %a = func.call @twice(%x) : (tensor<?xf32>) -> tensor<?xf32>
    %b = func.call @twice(%y) : (tensor<?xf32>) -> tensor<?xf32>
    %c = func.call @twice(%a) : (tensor<?xf32>) -> tensor<?xf32>
    %n = func.call @size(%c) : (tensor<?xf32>) -> tensor<i32>
    %d = func.call @negative(%b) : (tensor<?xf32>) -> tensor<?xf32>
    return %c, %d, %n : tensor<?xf32>, tensor<?xf32>, tensor<i32>
  }
  func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.add %x, %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
  func.func private @size(%x: tensor<?xf32>) -> tensor<i32> {
    %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @negative(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.negate %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
"""


def test_a_function_is_made_once_for_the_same_types():
    source = specialize(parse(FUNCTIONS), "main", ["tensor<2xf32>", "tensor<3xf32>"])
    functions = list(functions_of(source))
    assert functions[0] == "main" and sum(name.startswith("twice") for name in functions) == 2
    assert not any(name.startswith("size") for name in functions)  # its result is known
    c, d, n = run(FUNCTIONS, np.ones(2, np.float32), np.ones(3, np.float32))
    assert (c.tolist(), d.tolist(), n.item()) == ([4, 4], [-2, -2, -2], 2)


def test_loops_and_branches():
    body = """%zero = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<?xf32>
    cond {
      %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %more = stablehlo.add %s, %x : tensor<?xf32>
      stablehlo.return %next, %more : tensor<i32>, tensor<?xf32>
    }
    %1 = "stablehlo.if"(%p) ({
      %m = stablehlo.negate %0#1 : tensor<?xf32>
      stablehlo.return %m : tensor<?xf32>
    }, {
      stablehlo.return %0#1 : tensor<?xf32>
    }) : (tensor<i1>) -> tensor<?xf32>
    return %1 : tensor<?xf32>"""
    text = program(body, "%x: tensor<?xf32>, %p: tensor<i1>", "tensor<?xf32>")
    for backend in BACKENDS:
        assert run(text, X[:3], np.bool_(True), backend=backend)[0].tolist() == [-4, -8, -12]


def test_branches_of_different_sizes_are_refused():
    body = """%c = stablehlo.constant dense<1.0> : tensor<2xf32>
    %1 = "stablehlo.if"(%p) ({ stablehlo.return %c : tensor<2xf32> }, {
      stablehlo.return %x : tensor<?xf32> }) : (tensor<i1>) -> tensor<?xf32>
    return %1 : tensor<?xf32>"""
    text = program(body, "%x: tensor<?xf32>, %p: tensor<i1>", "tensor<?xf32>")
    with pytest.raises(VerifyError, match="stablehlo.if at line 3"):
        axla.parse(text, arg_types=["tensor<3xf32>", "tensor<i1>"])


def test_calls_nest_however_deep_but_not_in_themselves():
    count = 3000
    functions = [
        f"func.func private @f{i}(%x: tensor<?xf32>) -> tensor<?xf32> {{\n"
        f"%0 = func.call @f{i + 1}(%x) : (tensor<?xf32>) -> tensor<?xf32>\nreturn %0 : tensor<?xf32> }}"
        for i in range(count)
    ]
    last = f"func.func private @f{count}(%x: tensor<?xf32>) -> tensor<?xf32> {{ return %x : tensor<?xf32> }}"
    text = "\n".join(["module {", *functions, last, "}"])
    assert specialize(parse(text), "f0", ["tensor<2xf32>"]) is not None
    again = text.replace(last, last.replace("return %x", "%0 = func.call @f7(%x) : (tensor<?xf32>) -> "
                                            "tensor<?xf32>\nreturn %x"))  # fmt: skip
    with pytest.raises(VerifyError, match="@f7 calls itself"):
        specialize(parse(again), "f0", ["tensor<2xf32>"])


def test_functions_that_call_each_other_too_often_are_refused(monkeypatch):
    from axla.stablehlo.specialize import calls

    monkeypatch.setattr(calls, "MOST", 1000)
    body = "\n".join(
        f"func.func private @f{i}(%x: tensor<?xf32>, %n: tensor<i32>) -> tensor<?xf32> {{\n"
        "%one = stablehlo.constant dense<1> : tensor<i32>\n%two = stablehlo.constant dense<2> : tensor<i32>\n"
        "%d = stablehlo.multiply %n, %two : tensor<i32>\n%e = stablehlo.add %d, %one : tensor<i32>\n"
        f"%0 = func.call @f{i + 1}(%x, %d) : (tensor<?xf32>, tensor<i32>) -> tensor<?xf32>\n"
        f"%1 = func.call @f{i + 1}(%0, %e) : (tensor<?xf32>, tensor<i32>) -> tensor<?xf32>\n"
        "return %1 : tensor<?xf32> }"
        for i in range(25)
    )
    first = (
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "%one = stablehlo.constant dense<1> : tensor<i32>\n"
        "%0 = func.call @f0(%x, %one) : (tensor<?xf32>, tensor<i32>) -> tensor<?xf32>\n"
        "return %0 : tensor<?xf32> }"
    )
    last = (
        "func.func private @f25(%x: tensor<?xf32>, %n: tensor<i32>) -> tensor<?xf32> "
        "{ return %x : tensor<?xf32> }"
    )
    with pytest.raises(UnsupportedError, match="more than 1000 operations"):
        specialize(parse(f"module {{ {first}\n{body}\n{last} }}"), "main", ["tensor<2xf32>"])


def test_bounded_sizes_stay():
    kind = "tensor<?x3xf32, #stablehlo.bounds<4, ?>>"
    body = f"""%0 = stablehlo.add %x, %x : {kind}
    %n = stablehlo.get_dimension_size %0, dim = 0 : ({kind}) -> tensor<i32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : ({kind}) -> tensor<?x?xf32>
    return %1, %n : tensor<?x?xf32>, tensor<i32>"""
    text = program(body, f"%x: {kind}", "(tensor<?x?xf32>, tensor<i32>)")
    module = axla.parse(text, arg_types=[None])
    assert "f32[3,<=4]" in str(module.entry.root.shape)


def test_set_dimension_size_with_a_value_of_the_run_is_bounded():
    text = program(
        '%0 = "stablehlo.set_dimension_size"(%x, %n) {dimension = 0 : i64} : (tensor<?xf32>, tensor<i32>) -> '
        "tensor<?xf32>\n%1 = stablehlo.negate %0 : tensor<?xf32>\nreturn %1 : tensor<?xf32>",
        "%x: tensor<?xf32>, %n: tensor<i32>", "tensor<?xf32>",
    )  # fmt: skip
    module = axla.parse(text, arg_types=["tensor<4xf32>", "tensor<i32>"])
    assert str(module.entry.root.shape).startswith("f32[<=4]")


def test_shapes_as_other_dialects_compute_them():
    body = """%s = "shape.shape_of"(%x) : (tensor<?x?xf32>) -> tensor<2xindex>
    %c0 = arith.constant 0 : index
    %d = "tensor.dim"(%x, %c0) : (tensor<?x?xf32>, index) -> index
    %e = "tensor.extract"(%s, %c0) : (tensor<2xindex>, index) -> index
    %f = "arith.muli"(%d, %e) : (index, index) -> index
    %t = "tensor.from_elements"(%f, %d) : (index, index) -> tensor<2xindex>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.dynamic_broadcast_in_dim %one, %t, dims = []
      : (tensor<f32>, tensor<2xindex>) -> tensor<?x?xf32>
    return %0 : tensor<?x?xf32>"""
    text = program(body, "%x: tensor<?x?xf32>", "tensor<?x?xf32>")
    assert run(text, np.zeros((3, 2), np.float32))[0].shape == (9, 3)


def test_types_given_as_shapes_arrays_and_texts():
    for given in ("tensor<2x4xf32>", axla.Shape(axla.dtypes.F32, (2, 4)), np.zeros((2, 4), np.float32)):
        module = axla.parse(ONES, arg_types=[given], dim_args=[2])
        assert [p.shape.dims for p in module.entry.parameters] == [(2, 4)]


def test_every_damaged_program_is_an_error_of_ours():
    lines = FUNCTIONS.splitlines()
    for number in range(2, len(lines)):
        text = "\n".join(lines[:number] + lines[number + 1 :])
        try:
            axla.parse(text, arg_types=["tensor<2xf32>", "tensor<3xf32>"])
        except AxlaError:
            continue


def test_types_of_a_program_without_open_sizes_are_those_it_has():
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    assert axla.parse(text, arg_types=["tensor<2xf32>"]).to_string() == axla.parse(text).to_string()
    with pytest.raises(InvalidArgument, match="argument 0 is tensor<2xf32>, found tensor<3xf32>"):
        axla.parse(text, arg_types=["tensor<3xf32>"])


@pytest.mark.parametrize("options", [{"arg_types": []}, {"dim_args": [1]}])
def test_hlo_protos_take_no_types(options):
    content = proto.to_proto(axla.parse("ENTRY e { ROOT p = f32[] parameter(0) }"))
    with pytest.raises(InvalidArgument, match="are for StableHLO only"):
        axla.parse(content, **options)
