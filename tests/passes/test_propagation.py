"""Shardings that follow from others: as Shardy's propagation has them."""

import pytest

import axla
from axla.passes.expand.propagation import Propagation

AXES = {(): "-", (0, 1): "x", (2,): "y", (0, 1, 2): "xy", (2, 0, 1): "yx"}
"""The axes of the grid, of sizes 2, by those of the mesh."""


def program(arguments: list[str], results: list[str], body: str) -> str:
    """Types are `8x8xf32`, or with a sharding behind: `8x8xf32 [{"x"}, {}]`."""

    def typed(text: str) -> str:
        shape, _, sharding = text.partition(" ")
        said = f" {{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}" if sharding else ""
        return f"tensor<{shape}>{said}"

    taken = ", ".join(f"%{name}: {typed(text)}" for name, text in zip("abcd", arguments, strict=False))
    types = ", ".join(f"tensor<{text.partition(' ')[0]}>" for text in results)
    return f"""module @m attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
      sdy.mesh @mesh = <["x"=4, "y"=2]>
      func.func public @main({taken}) -> ({", ".join(map(typed, results))}) {{
        {body} : {types}
      }} }}"""


def propagated(arguments: list[str], results: list[str], body: str) -> tuple[str, str]:
    """The axes of arguments and of results, dimension by dimension."""
    found = Propagation(axla.parse(program(arguments, results, body)))

    def shown(shardings) -> str:
        ranks = [text.partition(" ")[0].count("x") for text in arguments + results]
        ranks = ranks[: len(arguments)] if shardings is found.arguments else ranks[len(arguments) :]
        cuttings = [found.grid.cutting(s, r) if s else None for s, r in zip(shardings, ranks, strict=True)]
        return " ".join("".join(AXES[axes] for axes in one.dims) if one else "?" for one in cuttings)

    return shown(found.arguments), shown(found.results)


X_, _X, _Y, YX = '8x8xf32 [{"x"}, {}]', '8x8xf32 [{}, {"x"}]', '8x8xf32 [{}, {"y"}]', '8x8xf32 [{"y"}, {"x"}]'
PLAIN = "8x8xf32"
BINARY = "%0 = stablehlo.add %a, %b : tensor<8x8xf32>\nreturn %0"
DOT = """%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
  : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
return %0"""


def unary(op: str, result: str, of: str = "8x8xf32") -> str:
    return f"%0 = {op} : (tensor<{of}>) -> tensor<{result}>\nreturn %0"


@pytest.mark.parametrize(
    ("argument", "result", "op", "expected"),
    [
        (X_, PLAIN, "stablehlo.negate %a", "x-"),
        (YX, PLAIN, "stablehlo.transpose %a, dims = [1, 0]", "xy"),
        (X_, "4x2x8xf32", "stablehlo.reshape %a", "x--"),
        (X_, "64xf32", "stablehlo.reshape %a", "x"),
        (_X, "64xf32", "stablehlo.reshape %a", "?"),
        (X_, "8x1x2x4xf32", "stablehlo.reshape %a", "x---"),
        (X_, "2x4x8xf32", "stablehlo.reshape %a", "---"),  # a half of x, which results are not cut along
        (X_, "8x3x8xf32", "stablehlo.broadcast_in_dim %a, dims = [0, 2]", "x--"),
        (X_, "4x8xf32", "stablehlo.slice %a [2:6, 0:8]", "x-"),
        (YX, "7x8xf32", "stablehlo.slice %a [1:8, 0:8]", "-x"),  # no parts of one size
        (X_, "8x8xf64", "stablehlo.convert %a", "x-"),
    ],
)
def test_of_one_operand(argument, result, op, expected):
    assert propagated([argument], [result], unary(op, result))[1] == expected


@pytest.mark.parametrize(
    ("arguments", "body", "expected"),
    [
        ([X_, PLAIN], BINARY, ("x- x-", "x-")),
        ([X_, _Y], BINARY, ("x- -y", "xy")),
        ([X_, YX], BINARY, ("x- yx", "-x")),  # the conflict in the major dimension leaves it uncut
        (["8x8xf32 [{\"x\", ?}, {?}]", YX], BINARY, ("x- yx", "-x")),
        ([X_, _Y], DOT, ("x- -y", "xy")),
        ([_X, _Y], DOT, ("-x -y", "-y")),
        ([X_, _X], DOT, ("x- -x", "x-")),  # x is taken by the first operand's dimension
        ([X_, "8x8xf32 [{?}, {}]"], BINARY, ("x- x-", "x-")),
        ([X_, "8x8xf32 [{}, {?}]"], BINARY, ("x- --", "x-")),
    ],
)  # fmt: skip
def test_of_two_operands(arguments, body, expected):
    assert propagated(arguments, ["8x8xf32"], body) == expected


def test_results_that_are_said_reach_arguments_that_are_not():
    body = "%0 = stablehlo.negate %a : tensor<8x8xf32>\nreturn %0"
    assert propagated([PLAIN], [YX], body) == ("yx", "yx")


def test_reductions_lose_the_dimension():
    body = """%0 = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = stablehlo.reduce(%a init: %0) applies stablehlo.add across dimensions = [0]
        : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
      return %1"""
    assert propagated([YX], ["8xf32"], body)[1] == "x"


def test_a_constraint_is_where_it_stands_and_what_is_open_may_get_more():
    body = """%0 = stablehlo.negate %a : tensor<8x8xf32>
      %1 = sdy.sharding_constraint %0 <@mesh, [{?}, {"y"}]> : tensor<8x8xf32>
      %2 = sdy.sharding_constraint %a <@mesh, [{}, {"x"}]> : tensor<8x8xf32>
      return %1, %2"""
    assert propagated([X_], [PLAIN, PLAIN], body)[1] == "xy -x"


def test_loops_branches_and_calls_hand_on():
    body = """%0 = stablehlo.constant dense<0> : tensor<i32>
      %1:2 = stablehlo.while(%i = %0, %v = %a) : tensor<i32>, tensor<8x8xf32> cond {
        %9 = stablehlo.compare LT, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %9 : tensor<i1>
      } do {
        %9 = func.call @f(%v) : (tensor<8x8xf32>) -> tensor<8x8xf32>
        stablehlo.return %i, %9 : tensor<i32>, tensor<8x8xf32>
      }
      %2 = "stablehlo.case"(%0) ({
        %9 = func.call @f(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
        stablehlo.return %9 : tensor<8x8xf32>
      }, {
        stablehlo.return %b : tensor<8x8xf32>
      }) : (tensor<i32>) -> tensor<8x8xf32>
      return %1#1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
    }
    func.func private @f(%v: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %0 = stablehlo.negate %v : tensor<8x8xf32>
      return %0 : tensor<8x8xf32>"""
    text = program([X_, _Y], [PLAIN, PLAIN], body).replace(
        " : tensor<8x8xf32>, tensor<8x8xf32>\n      }", "\n}"
    )
    found = Propagation(axla.parse(text))
    assert [found.grid.cutting(s, 2).dims for s in found.results] == [((0, 1), ()), ((), (2,))]


def test_constants_are_cut_as_each_user_is():
    body = """%0 = stablehlo.iota dim = 0 : tensor<8x8xf32>
      %1 = stablehlo.add %a, %0 : tensor<8x8xf32>
      %2 = stablehlo.add %b, %0 : tensor<8x8xf32>
      return %1, %2, %0"""
    assert propagated([X_, _X], [PLAIN] * 3, body)[1] == "x- -x ?"
