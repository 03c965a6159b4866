"""The expansions as passes, in the order in which they run: a later one may expand the result of an earlier
one.
"""

from __future__ import annotations

from axla.passes.expand import asynchronous, declared, dynamic_padder, single_replica
from axla.passes.steps import Pass

_WHY = "no emitter knows the op"


def _of(ops: str, name: str, home: str, required: str = _WHY, allows: str = "") -> Pass:
    """Declares the pass that expands the ops `ops` (opcodes separated by spaces). `home` is the path of its
    function in this package; the other arguments are fields of Pass.
    """
    return Pass(name, f"expand.{home}", required, ops=frozenset(ops.split()), allows=allows)


EXPANDERS: tuple[Pass, ...] = (
    _of(
        "custom-call", "parallel-programs", "parallel:parallel_programs",
        allows="anything: the host runs what it makes",
    ),
    Pass("async-unwrapper", asynchronous.async_unwrapper, required=_WHY),
    Pass(
        "op-expander", declared.op_expander, required=_WHY,
        allows="nothing: no op of axla's own has a method expand",
    ),
    Pass("dynamic-padder", dynamic_padder.dynamic_padder, required="generated code knows static shapes"),
    Pass("single-replica-collectives", single_replica.collectives_removal, required=_WHY),
    _of("ragged-all-to-all", "ragged-all-to-all-expander", "ragged_exchange:ragged_exchange"),
    _of("infeed outfeed recv recv-done send send-done", "transfer-rewriter", "transfers:transfer_rewriter"),
    _of("reduce", "argmax-rewriter", "argmax:argmax_rewriter", ""),
    _of("rng", "rng-expander", "random_numbers:rng_expander", allows="anything: the numbers are random"),
    _of("rng-bit-generator", "rng-bit-generator-expander", "random_bits:rng_bit_generator_expander"),
    _of(
        "batch-norm-inference batch-norm-training batch-norm-grad", "batchnorm-expander",
        "batch_norm:batchnorm_expander", allows="rounding: sums and products in another order",
    ),
    _of("cholesky", "cholesky-expander", "cholesky:cholesky_expander", allows="rounding: by blocks"),
    _of(
        "triangular-solve", "triangular-solve-expander", "triangular:triangular_solve_expander",
        allows="rounding: by blocks",
    ),
    _of("topk custom-call", "topk-decomposer", "topk:topk_decomposer"),
    _of(
        "acos acosh asin asinh atanh", "inverse-function-expander",
        "inverse_functions:inverse_function_expander", allows="rounding: by other functions",
    ),
    _of(
        "stochastic-convert", "stochastic-convert-decomposer",
        "stochastic_convert:stochastic_convert_decomposer",
    ),
    _of(
        "ragged-dot", "ragged-dot-rewriter", "grouped_dot:ragged_dot_rewriter",
        allows="order: what other groups give is added as 0",
    ),
    _of("scaled-dot", "scaled-dot-rewriter", "grouped_dot:scaled_dot_rewriter"),
    _of(
        "scan", "scan-expander", "scan:scan_expander",
        allows="rounding: that of another order, where the scan is associative",
    ),
    _of(
        "select-and-scatter", "select-and-scatter-expander",
        "select_and_scatter:select_and_scatter_expander",
    ),
    _of("fft", "fft-expander", "fourier:fft_expander", allows="rounding: as a convolution"),
    _of(
        "reduce-window", "reduce-window-rewriter", "reduce_window:reduce_window_rewriter", "",
        allows="order: that of a window is free",
    ),
    _of(
        "convolution", "convolution-canonicalize", "convolution:convolution_canonicalize",
        allows="finite: padding is multiplied, too, and 0 * inf is NaN",
    ),
    _of(
        "map reduce reduce-window scatter sort", "application-expander", "applied:application_expander",
        "kernels have straight-line code",
    ),
)  # fmt: skip
