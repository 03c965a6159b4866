"""The expansions as passes, in the order in which they run: what one builds, a later one may expand."""

from __future__ import annotations

from axla.passes.expand import (
    applied,
    argmax,
    asynchronous,
    batch_norm,
    cholesky,
    convolution,
    declared,
    dynamic_padder,
    fourier,
    grouped_dot,
    inverse_functions,
    parallel,
    ragged_exchange,
    random_bits,
    random_numbers,
    reduce_window,
    scan,
    select_and_scatter,
    single_replica,
    stochastic_convert,
    topk,
    transfers,
    triangular,
)
from axla.passes.steps import Pass

_WHY = "no emitter knows the op"

EXPANDERS: tuple[Pass, ...] = (
    Pass(
        "parallel-programs", parallel.parallel_programs, required=_WHY,
        allows="anything: the host runs what it makes",
    ),
    Pass("async-unwrapper", asynchronous.async_unwrapper, required=_WHY),
    Pass(
        "op-expander", declared.op_expander, required=_WHY,
        allows="nothing: no op of axla's own has a method expand",
    ),
    Pass("dynamic-padder", dynamic_padder.dynamic_padder, required="generated code knows static shapes"),
    Pass("single-replica-collectives", single_replica.collectives_removal, required=_WHY),
    Pass("ragged-all-to-all-expander", ragged_exchange.ragged_exchange, required=_WHY),
    Pass("transfer-rewriter", transfers.transfer_rewriter, required=_WHY),
    Pass("argmax-rewriter", argmax.argmax_rewriter),
    Pass(
        "rng-expander", random_numbers.rng_expander, required=_WHY,
        allows="anything: the numbers are random",
    ),
    Pass("rng-bit-generator-expander", random_bits.rng_bit_generator_expander, required=_WHY),
    Pass(
        "batchnorm-expander", batch_norm.batchnorm_expander, required=_WHY,
        allows="rounding: sums and products in another order",
    ),
    Pass("cholesky-expander", cholesky.cholesky_expander, required=_WHY, allows="rounding: by blocks"),
    Pass(
        "triangular-solve-expander", triangular.triangular_solve_expander, required=_WHY,
        allows="rounding: by blocks",
    ),
    Pass("topk-decomposer", topk.topk_decomposer, required=_WHY),
    Pass(
        "inverse-function-expander", inverse_functions.inverse_function_expander, required=_WHY,
        allows="rounding: by other functions",
    ),
    Pass("stochastic-convert-decomposer", stochastic_convert.stochastic_convert_decomposer, required=_WHY),
    Pass(
        "ragged-dot-rewriter", grouped_dot.ragged_dot_rewriter, required=_WHY,
        allows="order: what other groups give is added as 0",
    ),
    Pass("scaled-dot-rewriter", grouped_dot.scaled_dot_rewriter, required=_WHY),
    Pass("scan-expander", scan.scan_expander, required=_WHY),
    Pass("select-and-scatter-expander", select_and_scatter.select_and_scatter_expander, required=_WHY),
    Pass("fft-expander", fourier.fft_expander, required=_WHY, allows="rounding: as a convolution"),
    Pass(
        "reduce-window-rewriter", reduce_window.reduce_window_rewriter,
        allows="order: that of a window is free",
    ),
    Pass(
        "convolution-canonicalize", convolution.convolution_canonicalize, required=_WHY,
        allows="finite: padding is multiplied, too, and 0 * inf is NaN",
    ),
    Pass("application-expander", applied.application_expander, required="kernels have straight-line code"),
)  # fmt: skip
