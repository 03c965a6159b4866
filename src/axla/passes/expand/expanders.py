"""The expansions as passes, in the order in which they run: what one builds, a later one may expand."""

from __future__ import annotations

from axla.passes.driver import Pass
from axla.passes.expand import batch_norm, convolution, scan, stochastic_convert, topk

_WHY = "no emitter knows the op"

EXPANDERS: tuple[Pass, ...] = (
    Pass("batchnorm-expander", batch_norm.batchnorm_expander, required=_WHY),
    Pass("topk-decomposer", topk.topk_decomposer, required=_WHY),
    Pass("stochastic-convert-decomposer", stochastic_convert.stochastic_convert_decomposer, required=_WHY),
    Pass("scan-expander", scan.scan_expander, required=_WHY),
    Pass("convolution-canonicalize", convolution.convolution_canonicalize, required=_WHY),
)
