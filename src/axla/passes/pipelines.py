"""All passes by name, the pipelines as data, and the reasons for their order."""

from __future__ import annotations

from axla.passes.expand import effects, markers
from axla.passes.expand.expanders import EXPANDERS
from axla.passes.fuse import fuse, shared
from axla.passes.layout import (
    assignment,
    attention,
    concatenates,
    constants,
    dots,
    merged_dots,
    normalize,
    reductions,
)
from axla.passes.schedule import copies, double_buffer, order
from axla.passes.simplify import algsimp as rules
from axla.passes.simplify import (
    conditionals,
    dedup,
    excess_precision,
    fold,
    inline,
    loop_dots,
    loop_motion,
    loop_sinking,
    loops,
    sinking,
    sorts,
    unroll,
)
from axla.passes.simplify import cse as cse_file
from axla.passes.simplify import dce as dce_file
from axla.passes.steps import Pass, Step, fixpoint

_ORDER = "order: that of a sum is free"
_ROUNDING = "rounding: a sum in another order"
_LOOPS, _CONDITIONALS = frozenset({"while"}), frozenset({"conditional"})
_CUSTOM_CALLS, _DOTS = frozenset({"custom-call"}), frozenset({"dot"})

# Passes that change the structure of computations
call_inliner = Pass("call-inliner", inline.call_inliner, ops=frozenset({"call"}))
defuse = Pass("defuse", inline.defuse, required="kernels are decided by our own fusion pass")
flatten_call_graph = Pass(
    "flatten-call-graph", inline.flatten_call_graph, required="each call has buffers of its own"
)
marker_removal = Pass(
    "marker-removal", markers.marker_removal, required="no library has these custom calls",
    ops=_CUSTOM_CALLS,
)  # fmt: skip
computation_deduplicator = Pass("computation-deduplicator", dedup.computation_deduplicator)
map_inliner = Pass("map-inliner", rules.map_inliner, ops=frozenset({"map"}))
tuple_simplifier = Pass(
    "tuple-simplifier", rules.tuple_simplifier, ops=frozenset({"tuple", "get-tuple-element"})
)
while_loop_simplifier = Pass("while-loop-simplifier", loops.while_loop_simplifier, ops=_LOOPS)
while_loop_invariant_code_motion = Pass(
    "while-loop-invariant-code-motion", loop_motion.while_loop_invariant_code_motion, ops=_LOOPS
)
while_loop_dot_batching = Pass(
    "while-loop-dot-batching", loop_dots.while_loop_dot_batching, ops=_LOOPS, allows=_ORDER
)
while_loop_dot_layout = Pass(
    "while-loop-dot-layout", loop_dots.while_loop_dot_layout, ops=_LOOPS, allows=_ROUNDING
)
while_loop_dot_sinking = Pass(
    "while-loop-dot-sinking", loop_sinking.while_loop_dot_sinking, ops=_LOOPS, allows=_ROUNDING
)
while_loop_fusible_sinking = Pass(
    "while-loop-fusible-sinking", sinking.while_loop_fusible_sinking, ops=_LOOPS
)
while_loop_unroller = Pass("while-loop-unroller", unroll.while_loop_unroller, ops=_LOOPS)
conditional_simplifier = Pass(
    "conditional-simplifier", conditionals.conditional_simplifier, ops=_CONDITIONALS
)
conditional_code_motion = Pass(
    "conditional-code-motion", conditionals.conditional_code_motion, ops=_CONDITIONALS
)
conditional_to_select = Pass("conditional-to-select", conditionals.conditional_to_select, ops=_CONDITIONALS)
simplify_sorts = Pass("simplify-sorts", sorts.simplify_sorts, ops=frozenset({"sort"}))
expand_barriers = Pass(
    "optimization-barrier-expander", rules.expand_barriers, required="no emitter knows opt-barrier",
    ops=frozenset({"opt-barrier"}),
)  # fmt: skip

# Passes that change instructions
effect_order = Pass(
    "effect-order", effects.effect_order, required="every backend has the same order of effects"
)
rng_bit_generator_check = Pass(
    "rng-bit-generator-check", "expand.random_bits:rng_bit_generator_check",
    required="it rejects unsupported algorithms", ops=frozenset({"rng-bit-generator"}),
    allows="nothing: it refuses, or leaves a module as it is",
)  # fmt: skip
approx_topk_decomposer = Pass(
    "approx-topk-decomposer", "expand.topk:approx_topk_decomposer",
    required="no library has this custom call", ops=_CUSTOM_CALLS,
    allows="anything: the interpreter does not have this custom call",
)  # fmt: skip
lapack_expander = Pass(
    "lapack-expander", "linalg.expander:lapack_expander", ops=_CUSTOM_CALLS,
    allows="anything: eigenvectors and the like may have another sign",
)  # fmt: skip
float_normalization = Pass(
    "float-normalization-bf16", excess_precision.float_normalization, allows="rounding: less of it, as in XLA"
)
algsimp = Pass("algsimp", rules.algsimp)
constant_folding = Pass("constant-folding", fold.constant_folding)
cse = Pass("cse", cse_file.cse)
dce = Pass("dce", dce_file.dce)

# Passes that prepare kernels and memory
layout_normalization = Pass(
    "layout-normalization", normalize.layout_normalization, required="no emitter knows layouts"
)
layout_assignment = Pass("layout-assignment", assignment.layout_assignment, ops=frozenset({"transpose"}))
dot_canonicalize = Pass(
    "dot-canonicalize", dots.dot_canonicalize, required="the dot emitter knows one form", ops=_DOTS,
    allows=_ORDER,
)  # fmt: skip
attention_blocking = Pass("attention-blocking", attention.attention_blocking, ops=_DOTS, allows=_ROUNDING)
dot_exchange = Pass("dot-exchange", dots.dot_exchange, ops=_DOTS, allows=_ROUNDING)
dot_merger = Pass("dot-merger", merged_dots.dot_merger, ops=_DOTS, allows=_ORDER)
concatenate_canonicalize = Pass(
    "concatenate-canonicalize", concatenates.concatenate_canonicalize, ops=frozenset({"concatenate"})
)
constant_layout = Pass("constant-layout", constants.constant_layout)
reduce_canonicalize = Pass(
    "reduce-canonicalize", reductions.reduce_canonicalize, ops=frozenset({"reduce"}),
    allows="order: that of a reduction is free",
)  # fmt: skip
fusion = Pass("fusion", fuse.fusion)
fusion_deduplicator = Pass("fusion-deduplicator", shared.fusion_deduplicator)
schedule = Pass("schedule", order.schedule, required="buffers need an order of execution")
double_buffer_loop_unrolling = Pass(
    "double-buffer-loop-unrolling", double_buffer.double_buffer_loop_unrolling
)
copy_insertion = Pass(
    "copy-insertion", copies.copy_insertion, required="without copies, values needed later are overwritten"
)

PASSES: dict[str, Pass] = {p.name: p for p in (
    algsimp, approx_topk_decomposer, attention_blocking, call_inliner, computation_deduplicator,
    concatenate_canonicalize, conditional_code_motion, conditional_simplifier, conditional_to_select,
    constant_folding, constant_layout, copy_insertion, cse, dce, defuse, dot_canonicalize, dot_exchange,
    dot_merger, double_buffer_loop_unrolling, effect_order, expand_barriers,
    flatten_call_graph, float_normalization, fusion, fusion_deduplicator, lapack_expander, layout_assignment,
    layout_normalization, map_inliner, marker_removal, reduce_canonicalize, rng_bit_generator_check, schedule,
    simplify_sorts, tuple_simplifier, while_loop_dot_batching, while_loop_dot_layout, while_loop_dot_sinking,
    while_loop_fusible_sinking, while_loop_invariant_code_motion, while_loop_simplifier,
    while_loop_unroller, *EXPANDERS,
)}  # fmt: skip
"""Every pass by name. Where XLA has the pass, the name is XLA's."""

EXPAND: tuple[Step, ...] = EXPANDERS

PREPARE: tuple[Step, ...] = (
    effect_order, approx_topk_decomposer, lapack_expander(missing_only=True), float_normalization,
)  # fmt: skip
"""The passes that decide which values a program computes (order of effects, precision). Every backend runs
them, on the unchanged module.
"""

IMPORT: tuple[Step, ...] = (
    *PREPARE, marker_removal, layout_normalization, defuse, *EXPAND, call_inliner, map_inliner,
    layout_assignment,
)  # fmt: skip

SIMPLIFY: tuple[Step, ...] = (
    fixpoint(
        "simplification", tuple_simplifier, call_inliner, algsimp, constant_folding, while_loop_simplifier,
        while_loop_fusible_sinking, conditional_simplifier, conditional_to_select, while_loop_dot_batching,
        while_loop_dot_sinking, while_loop_dot_layout, while_loop_invariant_code_motion, while_loop_unroller,
        conditional_code_motion, simplify_sorts, computation_deduplicator, cse, dce,
    ),
)  # fmt: skip

LOWER: tuple[Step, ...] = (expand_barriers, flatten_call_graph, dce, rng_bit_generator_check)

KERNELS: tuple[Step, ...] = (
    dot_exchange, attention_blocking, dot_merger, dot_canonicalize, constant_layout, reduce_canonicalize,
    concatenate_canonicalize, cse, dce, fusion, fusion_deduplicator, schedule, double_buffer_loop_unrolling,
    copy_insertion,
)  # fmt: skip

CPU: tuple[Step, ...] = (*IMPORT, *SIMPLIFY, *LOWER, *KERNELS)

PIPELINES: dict[str, tuple[Step, ...]] = {
    "prepare": PREPARE, "expand": EXPAND, "import": IMPORT, "simplify": SIMPLIFY, "lower": LOWER,
    "kernels": KERNELS, "cpu": CPU,
}  # fmt: skip

ORDER: tuple[tuple[Pass, Pass, str], ...] = (
    (effect_order, approx_topk_decomposer, "instructions that passes add come last in the text"),
    (float_normalization, layout_normalization, "removed roundings do not depend on later passes"),
    (defuse, algsimp, "rules do not look into fusions"),
    (call_inliner, algsimp, "rules do not look through calls"),
    (algsimp, constant_folding, "constants are on the right and uniform ones are broadcasts"),
    (constant_folding, while_loop_simplifier, "constants that a loop carries are known"),
    (while_loop_simplifier, while_loop_fusible_sinking, "it is known which elements do not change"),
    (while_loop_simplifier, while_loop_invariant_code_motion, "it is known which elements do not change"),
    (while_loop_dot_batching, while_loop_unroller, "one product for all trips is faster than one for each"),
    (while_loop_invariant_code_motion, conditional_code_motion, "invariant values are computed once"),
    (while_loop_invariant_code_motion, dce, "the body still contains the moved instructions"),
    (computation_deduplicator, cse, "loops of equal computations are equal"),
    (cse, dce, "instructions that cse leaves unused are dead"),
    (algsimp, expand_barriers, "barriers stay until all is simplified"),
    (cse, expand_barriers, "barriers keep equal values apart until then"),
    (call_inliner, flatten_call_graph, "calls that are inlined need no computation of their own"),
    (call_inliner, layout_assignment, "regions do not reach into calls"),
    (layout_assignment, algsimp, "transposes of broadcasts and dots are still there"),
    (layout_normalization, algsimp, "rules need not keep layouts"),
    (algsimp, attention_blocking, "rules would merge the blocks of the loop again"),
    (flatten_call_graph, attention_blocking, "a computation outside of kernels has one caller"),
    (dot_exchange, attention_blocking, "a transpose comes after the loop"),
    (algsimp, dot_exchange, "transposes fold into dots of any form"),
    (attention_blocking, dot_canonicalize, "blocks of products are products"),
    (algsimp, dot_merger, "rules of slices would take products apart again"),
    (algsimp, dot_canonicalize, "transposes fold into dots of any form"),
    (dot_canonicalize, constant_layout, "products have their final form"),
    (constant_layout, cse, "equal constants are stored once"),
    (constant_layout, fusion, "a product is read in its final form"),
    (dot_canonicalize, fusion, "a dot takes its epilogue in its own form"),
    (reduce_canonicalize, fusion, "reductions of rows and columns fuse with operands"),
    (algsimp, concatenate_canonicalize, "readers of slices of concatenated arrays are simple"),
    (concatenate_canonicalize, fusion, "groups of concatenated arrays become kernels"),
    (layout_normalization, fusion, "access patterns are those of default layouts"),
    (fusion, fusion_deduplicator, "the constants in kernels are known"),
    (fusion_deduplicator, schedule, "constants that become operands are scheduled"),
    (fusion, schedule, "kernels are scheduled, not their instructions"),
    (fusion, copy_insertion, "fusion removes values that would have needed a copy"),
    (flatten_call_graph, schedule, "each computation that runs has one caller and one order"),
    (schedule, copy_insertion, "the order decides which copies are needed"),
    (schedule, double_buffer_loop_unrolling, "the order decides which copies are needed"),
    (double_buffer_loop_unrolling, copy_insertion, "unrolled loops need no copies between two trips"),
    (flatten_call_graph, dce, "computations that were copied for each caller may be unused"),
)  # fmt: skip
"""(earlier, later, reason): the first run of the pass `earlier` must be before the last run of `later`. It
applies to every pipeline that contains both.
"""
