"""The opcodes and attribute names of the HLO language, whether axla implements them or not."""

from __future__ import annotations

HLO_OPCODES = frozenset(
    """
    abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce
    all-reduce-done all-reduce-start all-to-all and asin asinh async-done async-start async-update atan2
    atanh batch-norm-grad batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast
    call cbrt ceil cholesky clamp collective-broadcast collective-permute collective-permute-done
    collective-permute-start collective-reduce compare complex concatenate conditional constant convert
    convolution copy copy-done copy-start cosh cosine count-leading-zeros custom-call divide domain dot
    dynamic-reshape dynamic-slice dynamic-update-slice erf exponential exponential-minus-one fft floor
    fusion gather get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one
    logistic map maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter
    partition-id popcnt power ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision
    reduce-scatter reduce-window remainder replica-id reshape reverse rng rng-bit-generator
    rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt scaled-dot scan scatter select
    select-and-scatter send send-done set-dimension-size shift-left shift-right-arithmetic
    shift-right-logical sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh topk
    transpose triangular-solve tuple while xor
    """.split()  # noqa: SIM905  a list of words reads better than quotes around each
)

_ASYNC = ("-start", "-update", "-done")
_NEVER_ASYNC = frozenset(["all-gather", "all-reduce", "collective-permute", "copy", "send", "recv"])


def is_opcode(name: str) -> bool:
    """Whether a name is an opcode of HLO, or the short form of an asynchronous one: call-done."""
    if name in HLO_OPCODES:
        return True
    for suffix in _ASYNC:
        if name.endswith(suffix):
            base = name[: -len(suffix)]
            return base in HLO_OPCODES and base not in _NEVER_ASYNC
    return False


COMPUTATION_ATTRIBUTES = frozenset(
    """
    body branch_computations called_computations calls condition false_computation scatter select
    to_apply true_computation update_computation
    """.split()  # noqa: SIM905
)

VALUE_ATTRIBUTES = frozenset(
    """
    algorithm api_version async_execution_thread batch_group_count broadcast_sizes channel_id
    collapsed_slice_dims comparison_direction composite.attributes composite.name composite.version
    constrain_layout convolution_kind cross_program_prefetch_index custom_call_has_side_effect
    custom_call_target delta dim_labels dimensions direction distribution domain dynamic_slice_sizes
    entry epsilon exit exponent_bits feature_group_count feature_index fft_length fft_type group_devices
    group_mode has_dynamic_root index index_vector_dim indices_are_sorted inferred_dimension infeed_config
    input_batching_dims inserted_window_dims iota_dimension is_associative is_composite
    is_cross_program_prefetch is_host_transfer is_pipelined is_reverse is_stable k kind largest
    left_side lhs_batch_dims lhs_contracting_dims lhs_ragged_dims literal lower mantissa_bits
    offset_dims operand_batching_dims operand_layout_constraints operand_precision origin original_value
    output_streaming output_to_operand_aliasing outfeed_config outfeed_shape outer_dimension_partitions
    padding padding_type parameter_number parameter_replication precision_config ragged_dims
    raw_backend_config_str replica_groups result_accuracy rhs_batch_dims rhs_contracting_dims
    rhs_group_dims rng_algorithm num_carries schedule scatter_dims_to_operand_dims
    scatter_indices_batching_dims select_has_side_effect slice slice_sizes source_target_pairs sparsity
    sparsity_config split_dimension start_index_map start_indices_batching_dims statistics transpose_a type
    unique_indices unit_diagonal update_window_dims use_global_device_ids window
    """.split()  # noqa: SIM905
)
"""Attributes without computations, of any op."""

TEXT_ATTRIBUTES = frozenset(
    ["origin", "original_value", "parameter_replication", "result_accuracy", "statistics"]
)
"""Attributes that no op declares: they are kept as text."""

PRINTED_ATTRIBUTES = {("copy-start", "output_to_operand_aliasing")}
"""Attributes that XLA prints at an op that does not have them (an async-start of a copy): kept as text."""
