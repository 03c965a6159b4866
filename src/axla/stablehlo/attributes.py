"""The structured attributes and enumerations of StableHLO and CHLO, and the test for default values."""

from __future__ import annotations

from typing import Any

from axla.stablehlo import mlir

# Structured attributes: mnemonic -> fields with the kinds of their values. A field with / is optional, one
# with @2 was added in the second version of the operation.
#
# The kinds: i integer, l list of integers, t type, b boolean, f float, s string, a attribute, A attributes,
# m axes of a mesh, x part of an axis.
_STRUCTURES = {
    "channel_handle": "handle:i type:i",
    "dot": "lhs_batching_dimensions:l/ rhs_batching_dimensions:l/ lhs_contracting_dimensions:l/"
    " rhs_contracting_dimensions:l/",
    "dot_algorithm": "lhs_precision_type:t rhs_precision_type:t accumulation_type:t lhs_component_count:i"
    " rhs_component_count:i num_primitive_operations:i allow_imprecise_accumulation:b",
    "gather": "offset_dims:l/ collapsed_slice_dims:l/ operand_batching_dims:l/@2"
    " start_indices_batching_dims:l/@2 start_index_map:l/ index_vector_dim:i/",
    "scatter": "update_window_dims:l/ inserted_window_dims:l/ input_batching_dims:l/@2"
    " scatter_indices_batching_dims:l/@2 scatter_dims_to_operand_dims:l/ index_vector_dim:i/",
    "conv": "input_batch_dimension:i/ input_feature_dimension:i/ input_spatial_dimensions:l/"
    " kernel_input_feature_dimension:i/ kernel_output_feature_dimension:i/ kernel_spatial_dimensions:l/"
    " output_batch_dimension:i/ output_feature_dimension:i/ output_spatial_dimensions:l/",
    "ragged_dot": "lhs_batching_dimensions:l/ rhs_batching_dimensions:l/ lhs_contracting_dimensions:l/"
    " rhs_contracting_dimensions:l/ lhs_ragged_dimensions:l/ rhs_group_dimensions:l/",
    "output_operand_alias": "output_tuple_indices:l operand_index:i operand_tuple_indices:l",
    "result_accuracy": "atol:f/ rtol:f/ ulps:i/ mode:a",
    "type_extensions": "bounds:l",
    "replica_group_mesh_axes": "mesh:a axes:A",
    "sub_axis_info": "pre_size:i size:i",
    "axis_ref": "name:s sub_axis_info:x/",
    "mesh_axis": "name:s size:i",
    "mesh": "axes:m device_ids:a/",
}
STRUCTURES: dict[str, dict[str, str]] = {
    mnemonic: dict(field.partition("@")[0].split(":") for field in fields.split())
    for mnemonic, fields in _STRUCTURES.items()
}
LATER_FIELDS: dict[str, set[str]] = {
    mnemonic: {field.partition(":")[0] for field in fields.split() if "@" in field}
    for mnemonic, fields in _STRUCTURES.items()
}

CONVOLUTION = {
    "input": {"b": "batch", "f": "feature"},
    "kernel": {"i": "input_feature", "o": "output_feature"},
    "output": {"b": "batch", "f": "feature"},
}
"""The letters of `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, for input, kernel and output."""

# Enumerations: mnemonic -> values.
ENUMERATIONS = {
    "comparison_direction": "EQ NE GE GT LE LT",
    "comparison_type": "NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED",
    "fft_type": "FFT IFFT RFFT IRFFT",
    "precision": "DEFAULT HIGH HIGHEST",
    "rng_algorithm": "DEFAULT THREE_FRY PHILOX",
    "rng_distribution": "UNIFORM NORMAL",
    "transpose": "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT",
    "result_accuracy_mode": "DEFAULT HIGHEST TOLERANCE",
}

LONGEST_LIST = 4096  # the most dimensions in a list: many operations can refer to one list


def is_default(default: str, attribute: Any) -> bool:
    """Whether an attribute equals the `default` of a record: a number (for all elements of a tensor),
    `false`, a word of an enumeration (for all items of a list), or `[]` for an empty list.
    """
    if isinstance(attribute, mlir.StructAttr):
        return all(field == 0 or is_default(default, field) for field in attribute.fields.values())
    if isinstance(attribute, mlir.EnumAttr):
        return attribute.value == default
    if isinstance(attribute, bool):
        return default == "false" and not attribute
    if isinstance(attribute, mlir.IntegerAttr):
        return str(attribute.value) == default
    if isinstance(attribute, mlir.DenseElements):
        elements = attribute.values
        if default == "[]" or not 0 < elements.size <= LONGEST_LIST:
            return default == "[]" and elements.size == 0
        return bool((elements == int(default)).all())
    if isinstance(attribute, tuple) and default != "[]":
        return all(is_default(default, item) for item in attribute)
    return isinstance(attribute, str | tuple | dict) and not attribute
