"""A program of any size, for work counts."""

from __future__ import annotations

_VALUES, _NUMBER = "tensor<8x16xf32>", "tensor<f32>"


def big_text(count: int) -> str:
    """About `count` operations in a row: elementwise, broadcasts of constants, transposes, reductions."""
    lines = ["module {", f"  func.func @main(%v0: {_VALUES}) -> {_VALUES} {{"]
    steps = count // 8
    for n in range(steps):
        lines += [
            f"    %c{n} = stablehlo.constant dense<{n}.5> : {_NUMBER}",
            f"    %b{n} = stablehlo.broadcast_in_dim %c{n}, dims = [] : ({_NUMBER}) -> {_VALUES}",
            f"    %s{n} = stablehlo.add %v{n}, %b{n} : {_VALUES} loc(\"step{n}/add\")",
            f"    %t{n} = stablehlo.transpose %s{n}, dims = [1, 0] : ({_VALUES}) -> tensor<16x8xf32>",
            f"    %u{n} = stablehlo.tanh %t{n} : tensor<16x8xf32>",
            f"    %r{n} = stablehlo.reduce(%u{n} init: %c{n}) applies stablehlo.maximum "
            f"across dimensions = [0] : (tensor<16x8xf32>, {_NUMBER}) -> tensor<8xf32>",
            f"    %w{n} = stablehlo.broadcast_in_dim %r{n}, dims = [0] : (tensor<8xf32>) -> {_VALUES}",
            f"    %v{n + 1} = stablehlo.multiply %s{n}, %w{n} : {_VALUES}",
        ]  # fmt: skip
    return "\n".join([*lines, f"    return %v{steps} : {_VALUES}", "  }", "}"])
