"""StableHLO, CHLO and the dialects around them as they are written without VHLO: codes of attributes and
types, and the attributes of each operation in the order of their properties. VHLO's operations are made of
StableHLO's here (`vhlo.py`).

No version of this form is promised to be readable by another: it is that of 2026, with a few older ones.
"""

from __future__ import annotations

from axla.stablehlo import mlir
from axla.stablehlo.bytecode import values
from axla.stablehlo.bytecode.builtin import constant
from axla.stablehlo.bytecode.entries import Encoding

_enum, _struct = values.enumeration, values.structure

ATTRIBUTES: dict[int, Encoding] = {
    1: ("ss", _struct("channel_handle")),
    2: ("v", _enum("comparison_direction")),
    3: ("v", _enum("comparison_type")),
    4: ("ssSssSssS", _struct("conv")),
    5: ("SSSS", _struct("dot")),
    6: ("v", _enum("fft_type")),
    7: ("SSSSSs", _struct("gather")),
    8: ("v", _enum("precision")),
    9: ("v", _enum("rng_algorithm")),
    10: ("v", _enum("rng_distribution")),
    11: ("SSSSSs", _struct("scatter")),
    12: ("v", _enum("transpose")),
    13: ("S", values.bounds),
    14: ("SsS", _struct("output_operand_alias")),
    15: ("tttsssy", lambda *fields: _struct("dot_algorithm")(*fields[:6], bool(fields[6]))),
    16: ("v", _enum("result_accuracy_mode")),
    17: ("ffsa", _struct("result_accuracy")),
    18: ("aA", _struct("replica_group_mesh_axes")),
    19: ("ss", _struct("sub_axis_info")),
    20: ("nB", _struct("axis_ref")),
    21: ("ns", _struct("mesh_axis")),
    22: ("aB", _struct("mesh")),
}
TYPES: dict[int, Encoding] = {0: constant(mlir.TokenType()), 1: ("T", mlir.FutureType)}

CHLO_ATTRIBUTES: dict[int, Encoding] = {
    0: ("v", _enum("comparison_direction", "chlo")),
    1: ("v", _enum("comparison_type", "chlo")),
}

# The attributes of operations in the order of their names, `?` where one can be missing, `+` for the sizes of
# segments. A name that comes again has several forms, the newest first.
_OPERATIONS = """
abs add after_all and async_done async_start atan2 bitcast_convert case ceil clamp complex convert
  count_leading_zeros create_token divide dynamic_pad dynamic_reshape dynamic_update_slice floor if imag
  is_finite maximum minimum multiply negate not optimization_barrier or partition_id popcnt power real
  real_dynamic_slice remainder replica_id reshape return round_nearest_afz round_nearest_even select
  shift_left shift_right_arithmetic shift_right_logical sign subtract tuple uniform_dequantize
  uniform_quantize while xor:
all_gather: all_gather_dim channel_handle? replica_groups use_global_device_ids?
all_reduce: channel_handle? replica_groups use_global_device_ids?
all_to_all: channel_handle? concat_dimension replica_groups split_count split_dimension
batch_norm_grad batch_norm_inference batch_norm_training: epsilon feature_index
broadcast: broadcast_sizes
broadcast_in_dim: broadcast_dimensions
cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh:
  result_accuracy?
cholesky: lower?
collective_broadcast: channel_handle? has_dynamic_root? replica_groups
collective_broadcast: channel_handle? replica_groups
collective_permute: channel_handle? source_target_pairs
collective_reduce: channel_handle? has_dynamic_root? replica_groups use_global_device_ids?
compare: compare_type? comparison_direction
composite: composite_attributes? decomposition name version?
concatenate get_dimension_size set_dimension_size: dimension
constant chlo.constant chlo.constant_like sdy.constant: value
convolution: batch_group_count dimension_numbers feature_group_count lhs_dilation? padding?
  precision_config? rhs_dilation? window_reversal? window_strides?
cross-replica-sum: replica_groups
custom_call: api_version? backend_config? call_target_name called_computations? has_side_effect?
  operand_layouts? output_operand_aliases? result_layouts? result_tilings?
custom_call: api_version? backend_config? call_target_name called_computations? has_side_effect?
  operand_layouts? output_operand_aliases? result_layouts?
dot: precision_config?
dot_general: algorithm? dot_dimension_numbers precision_config?
dynamic_broadcast_in_dim: broadcast_dimensions known_expanding_dimensions? known_nonexpanding_dimensions?
dynamic_conv: batch_group_count dimension_numbers feature_group_count lhs_dilation? precision_config?
  rhs_dilation? window_reversal? window_strides?
dynamic_gather: dimension_numbers indices_are_sorted?
dynamic_slice: slice_sizes
einsum unary_einsum: einsum_config
fft: fft_length fft_type
gather: dimension_numbers indices_are_sorted? slice_sizes
get_tuple_element: index
infeed: infeed_config? layout?
iota dynamic_iota: iota_dimension
map reduce reverse: dimensions
outfeed: outfeed_config?
pad: edge_padding_high edge_padding_low interior_padding
recv send: channel_handle is_host_transfer? source_target_pairs?
reduce_precision: exponent_bits mantissa_bits
reduce_scatter: channel_handle? replica_groups scatter_dimension use_global_device_ids?
reduce_window: base_dilations? padding? window_dilations? window_dimensions window_strides?
rng: rng_distribution
rng_bit_generator: rng_algorithm
scatter: indices_are_sorted? scatter_dimension_numbers unique_indices?
select_and_scatter: padding? window_dimensions? window_strides?
slice: limit_indices start_indices strides
sort: dimension? is_stable?
torch_index_select: batch_dims dim
transpose: permutation
triangular_solve: left_side lower transpose_a unit_diagonal
builtin.module: sym_name? sym_visibility?
func.func: arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?
func.func: arg_attrs? function_type res_attrs? sym_name sym_visibility?
func.call: arg_attrs? callee no_inline? res_attrs?
func.call: callee no_inline?
func.call: callee
chlo.broadcast_add chlo.broadcast_and chlo.broadcast_atan2 chlo.broadcast_complex chlo.broadcast_divide
  chlo.broadcast_maximum chlo.broadcast_minimum chlo.broadcast_multiply chlo.broadcast_next_after
  chlo.broadcast_or chlo.broadcast_polygamma chlo.broadcast_power chlo.broadcast_remainder
  chlo.broadcast_shift_left chlo.broadcast_shift_right_arithmetic chlo.broadcast_shift_right_logical
  chlo.broadcast_subtract chlo.broadcast_xor chlo.broadcast_zeta: broadcast_dimensions?
chlo.broadcast_compare: broadcast_dimensions? compare_type? comparison_direction
chlo.ragged_dot: precision_config? ragged_dot_dimension_numbers
chlo.scan: dimension is_associative? is_reverse? scan_dim_size? +operandSegmentSizes +resultSegmentSizes
chlo.top_k: is_stable? k
chlo.top_k: k
sdy.all_gather: gathering_axes out_sharding
sdy.all_reduce: out_sharding reduction_axes reduction_op?
sdy.all_reduce: out_sharding reduction_axes
sdy.all_slice: out_sharding slicing_axes
sdy.all_to_all: out_sharding params
sdy.collective_permute: out_sharding
sdy.data_flow_edge: sharding?
sdy.manual_computation: in_shardings manual_axes out_shardings
sdy.mesh: mesh sym_name
sdy.named_computation: in_shardings? name out_shardings?
sdy.propagation_barrier: allowed_direction
sdy.reduce_scatter: out_sharding reduce_scatter_axes reduction_op?
sdy.reduce_scatter: out_sharding reduce_scatter_axes
sdy.replicated_to_unreduced sdy.sharded_to_unreduced: axes out_sharding
sdy.reshard sdy.sharding_constraint: sharding
sdy.sharding_group: group_id
"""


def _forms() -> dict[str, list[tuple[str, ...]]]:
    forms: dict[str, list[tuple[str, ...]]] = {}
    for line in _OPERATIONS.replace("\n  ", " ").strip().splitlines():
        names, attributes = line.split(":")
        for name in names.split():
            full = name if "." in name else f"stablehlo.{name}"
            forms.setdefault(full, []).append(tuple(attributes.split()))
    return forms


FORMS = _forms()
