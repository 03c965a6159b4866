"""The operations of StableHLO and CHLO, of what checks and traces programs, and those carried along: a record
each, in the words of `foreign/records.py`.

Kinds of operands are letters (`verify/kinds.py`), kinds of attributes words (`verify/attributes.py`), or
`#mnemonic` of a structure, which counts for as many inputs as it has fields. Agreements are functions of
`verify/agreement.py`. Defaults and versions are VHLO's. Pieces of a short form:

    %   an operand                  %*  operands with commas between, maybe none
    %,  operands, each with a comma after it
    {}  a dictionary of attributes, which may be missing; {!}  one that may not
    name:kind  an attribute; the kinds are those of `text/assembly.ATTRIBUTES`
    @types     types of operands and results; see `text/draft.TYPES`
    <part>     something of its own; see `text/assembly.PARTS`
    (? ... | ... ?)  pieces, or others (or none), known by the first one

Anything else is a mark or word that stands there.
"""

from __future__ import annotations

from axla.foreign.records import Record, read_records
from axla.stablehlo.attributes import STRUCTURES

_STABLEHLO = """
abs: operand:sfcq -> sfq ; shape/c1 ; text % {} : @same ; hlo
cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh:
  operand:fcq result_accuracy=result_accuracy?DEFAULT@2 -> fcq ; same/c1 ; text % {} : @same ; hlo
ceil floor round_nearest_afz round_nearest_even: operand:fq -> fq ; same/c1 ; text % {} : @same ; hlo
convert: operand:pifc -> pifc ; shape/c1 ; text % {} : @same ; hlo
count_leading_zeros popcnt: operand:i -> i ; same/c1 ; text % {} : @same ; hlo
imag real: operand:fc -> f ; shape/c1 ; text % {} : @same ; hlo
is_finite: x:fq -> p ; shape/c1 ; text % {} : @same ; hlo
not: operand:pi -> pi ; same/c1 ; text % {} : @same ; hlo
negate: operand:ifcq -> ifcq ; same/c1 ; text % {} : @same ; hlo
sign: operand:sfcq -> sfcq ; same/c1 ; text % {} : @same ; hlo
reduce_precision: operand:fq exponent_bits=i32>0/c2 mantissa_bits=i32>=0/c3 -> fq ; same/c1
  ; text % , format = <format> {} : @same ; hlo exponent_bits mantissa_bits
uniform_quantize: operand:fqag -> qag ; shape/c1 ; text % {} : @same
  ; none rewritten as integers and floats before the import
uniform_dequantize: operand:qag -> f ; shape/c1 ; text % {} : @same
  ; none rewritten as integers and floats before the import
add: lhs:A rhs:A -> A ; shape/c1 ; text % , % {} : @same ; hlo
atan2: lhs:fcq rhs:fcq -> fcq ; same/c1 ; text % , % {} : @same ; hlo
complex: lhs:d rhs:d -> c ; shape/c2 ; text % , % {} : @complex ; hlo
divide power remainder subtract: lhs:ifcq rhs:ifcq -> ifcq ; same/c1 ; text % , % {} : @same ; hlo
maximum minimum multiply: lhs:T rhs:T -> T ; same/c1 ; text % , % {} : @same ; hlo
shift_left shift_right_arithmetic shift_right_logical: lhs:i rhs:i -> i ; same/c1 ; text % , % {} : @same
  ; hlo
and or xor: lhs:pi rhs:pi -> pi ; same/c1 ; text % , % {} : @same ; hlo
compare: lhs:T rhs:T comparison_direction=comparison_direction compare_type=comparison_type?NOTYPE -> p
  ; operands/c1 shape/c2
  ; text comparison_direction:enum , % , % (? , compare_type:enum.comparison_type ?) {} : @function
  ; hlo direction=comparison_direction type=compare_type
select: pred:p on_true:T on_false:T -> T ; text %* {} : @select ; hlo
clamp: min:T operand:T max:T -> T ; elements/c3 ; text % , % , % {} : @same ; hlo
map: inputs...:T dimensions=ints computation{} -> T ; shape/c1 ; hlo dimensions to_apply=computation

constant: value=elements -> Ag! ; text (? ( ) (? < {!} > ?) {} : @function | {} value:elements
  @value ?)
iota: iota_dimension=i64>=0/c1 -> ifcq! ; text dim = iota_dimension:i64 {} : @result ; hlo iota_dimension
dynamic_iota: output_shape:xi1! iota_dimension=i64>=0/c1 -> T
  ; text % , dim = iota_dimension:i64 {} : @function ; static iota =output_shape
rng: a:pif0 b:pif0 shape:xi1! rng_distribution=rng_distribution -> pif
  ; text % , % , % , distribution = rng_distribution:enum {} : @function
  ; hlo distribution=rng_distribution
rng_bit_generator: rng_algorithm=rng_algorithm initial_state:if -> if if!
  ; text % , algorithm = rng_algorithm:enum {} : @function ; hlo algorithm=rng_algorithm

bitcast_convert: operand:A -> A ; text %* {} : @function
broadcast: operand:T broadcast_sizes=ints -> A ; alike/c1
  ; text % , sizes = broadcast_sizes:list {} : @function
broadcast_in_dim: operand:A broadcast_dimensions=ints -> A~ ; elements/c1
  ; text % , dims = broadcast_dimensions:list {} : @function ; hlo Broadcast dimensions=broadcast_dimensions
dynamic_broadcast_in_dim: operand:A output_dimensions:xi1! broadcast_dimensions=ints
  known_expanding_dimensions=ints?[] known_nonexpanding_dimensions=ints?[] -> A ; text % , % , dims =
  broadcast_dimensions:list {} : @function ; static broadcast_in_dim =output_dimensions
reshape: operand:A -> A~ ; elements/c1 ; text %* {} : @function ; hlo
dynamic_reshape: operand:A output_shape:xi1! -> A ; text %* {} : @function ; static reshape =output_shape
transpose: operand:A permutation=ints -> A ; elements/c1 ; text % , dims = permutation:list {} : @function
  ; hlo dimensions=permutation
reverse: operand:T dimensions=ints -> T ; alike/c1 ; text % , dims = dimensions:list {} : @same
  ; hlo dimensions
concatenate: inputs...:T dimension=i64>=0/c4 -> T ; alike/c1 ; text %, dim = dimension:i64 {} : @function
  ; hlo dimensions=dimension
slice: operand:T start_indices=ints limit_indices=ints strides=ints -> T ; alike/c1
  ; text % <slice> {} : @function
  ; hlo slice.starts=start_indices slice.limits=limit_indices slice.strides=strides
real_dynamic_slice: operand:T start_indices:xi1 limit_indices:xi1 strides:xi1 -> T ; text %* {} : @function
  ; none static once its sizes are given ; static slice start_indices limit_indices strides
dynamic_slice: operand:T start_indices...:i0 slice_sizes=ints -> T
  ; text % , %, sizes = slice_sizes:list {} : @function ; hlo dynamic_slice_sizes=slice_sizes
dynamic_update_slice: operand:T update:T start_indices...:i0 -> T ; text %* {} : @function ; hlo
pad: operand:T padding_value:T0 edge_padding_low=ints edge_padding_high=ints interior_padding=ints -> T ;
  alike/c1 ; text % , % , low = edge_padding_low:list , high = edge_padding_high:list , interior =
  interior_padding:list {} : @function ; hlo padding.low=edge_padding_low padding.high=edge_padding_high
  padding.interior=interior_padding
dynamic_pad: operand:T padding_value:T0 edge_padding_low:xi1! edge_padding_high:xi1! interior_padding:xi1!
  -> T ; text %* {} : @function ; none static once its sizes are given
  ; static pad edge_padding_low edge_padding_high interior_padding
get_dimension_size: operand:A dimension=i64>=0/c1 -> s ; text % , dim = dimension:i64 {} : @function
  ; hlo dimensions=dimension
set_dimension_size: operand:T size:s dimension=i64>=0/c1 -> T
  ; text % , % , dim = dimension:i64 {} : @function ; hlo dimensions=dimension
gather: operand:T start_indices:i dimension_numbers=#gather slice_sizes=ints indices_are_sorted=bool?false
  -> T ; hlo *dimension_numbers slice_sizes indices_are_sorted
dynamic_gather: operand:T start_indices:i slice_sizes:i1! dimension_numbers=#gather
  indices_are_sorted=bool?false -> T ; none static once its sizes are given ; static gather slice_sizes
scatter: inputs...:T scatter_indices:pix updates...:T scatter_dimension_numbers=#scatter
  indices_are_sorted=bool?false unique_indices=bool?false update_computation{} -> ...:T
  ; hlo *scatter_dimension_numbers indices_are_sorted unique_indices to_apply=update_computation+
torch_index_select: operand:T index:T dim=i64 batch_dims=i64 -> T
  ; none gather says it, and no frontend writes this one

dot: lhs:T rhs:A precision_config=precisions?DEFAULT -> A
  ; text % , % (? , precision = precision_config:precisions ?) {} : @function
dot_general: lhs:T rhs:A dot_dimension_numbers=#dot precision_config=precisions?DEFAULT
  algorithm=#dot_algorithm?@2 -> A ; text % , % , dot_dimension_numbers:dot (? , (? algorithm =
  algorithm:dot_algorithm | precision = precision_config:precisions (? , algorithm = algorithm:dot_algorithm
  ?) ?) ?) {} : @function
  ; hlo Dot *dot_dimension_numbers operand_precision=precision_config algorithm
einsum: lhs:T rhs:T einsum_config=string -> T ; text % , % , config = einsum_config:string {} : @function
  ; none dot_general and reduce say it, and no frontend writes this one
unary_einsum: operand:T einsum_config=string -> T ; text % , config = einsum_config:string {} : @function
  ; none dot_general and reduce say it, and no frontend writes this one
convolution: lhs:T rhs:A window_strides=ints?1 padding=table?0 lhs_dilation=ints?1 rhs_dilation=ints?1
  window_reversal=bools?0 dimension_numbers=#conv feature_group_count=i64>0/c21 batch_group_count=i64>0/c22
  precision_config=precisions?DEFAULT -> A ; text ( %* ) dim_numbers = dimension_numbers:convolution
  , window = { <window> } {} : @function
  ; hlo window.stride=window_strides window.base_dilation=lhs_dilation window.window_dilation=rhs_dilation
  window.low=padding window.high=padding window.reversal=window_reversal dim_labels=dimension_numbers
  feature_group_count batch_group_count operand_precision=precision_config
dynamic_conv@2: lhs:T rhs:A padding:i2! window_strides=ints?1 lhs_dilation=ints?1 rhs_dilation=ints?1
  window_reversal=bools?0 dimension_numbers=#conv feature_group_count=i64>0/c21 batch_group_count=i64>0/c22
  precision_config=precisions?DEFAULT -> A ; none static once its sizes are given
  ; static convolution padding
fft: operand:fc fft_type=fft_type fft_length=ints -> fc
  ; text % , type = fft_type:enum , length = fft_length:list {} : @function ; hlo fft_type fft_length
cholesky: a:fcq lower=bool?false -> fcq ; elements/c1 ; text % (? , lower = lower:bool ?) {} : @same
  ; hlo lower
triangular_solve: a:fc b:fc left_side=bool lower=bool unit_diagonal=bool transpose_a=transpose -> fc
  ; elements/c1 ; hlo left_side lower unit_diagonal transpose_a
batch_norm_grad: operand:fq scale:fq1 mean:fq1 variance:fq1 grad_output:fq epsilon=f32
  feature_index=i64>=0/c1 -> fq fq1 fq1 ; elements/c2 ; hlo epsilon feature_index
batch_norm_inference: operand:fq scale:fq1 offset:fq1 mean:fq1 variance:fq1 epsilon=f32
  feature_index=i64>=0/c1 -> fq ; elements/c2 ; hlo epsilon feature_index
batch_norm_training: operand:fq scale:fq1 offset:fq1 epsilon=f32 feature_index=i64>=0/c1 -> fq fq1 fq1
  ; elements/c2 ; hlo epsilon feature_index

reduce: inputs...:T init_values...:T dimensions=ints body{} -> ...:T
  ; text <reduced> (? applies <operator> across dimensions = dimensions:list {} : @function <applied>
  | across dimensions = dimensions:list {} : @function reducer <reducer> ?)
  ; hlo dimensions to_apply=body+
reduce_window: inputs...:T init_values...:T window_dimensions=ints window_strides=ints?1
  base_dilations=ints?1 window_dilations=ints?1 padding=table?0 body{} -> ...:T
  ; hlo window.size=window_dimensions window.stride=window_strides window.base_dilation=base_dilations
  window.window_dilation=window_dilations window.low=padding window.high=padding to_apply=body+
select_and_scatter: operand:T source:T init_value:T window_dimensions=ints? window_strides=ints?1
  padding=table?0 select{} scatter{} -> T
  ; hlo window.size=window_dimensions window.stride=window_strides window.low=padding window.high=padding
  select scatter+
sort: inputs...:T dimension=i64?-1 is_stable=bool?false comparator{} -> ...:T ; shape/c3
  ; hlo dimensions=dimension is_stable to_apply=comparator

if: pred:p true_branch{} false_branch{} -> ...:At
case: index:s branches{...} -> ...:At
while: operand...:Atb cond{} body{} -> ...:Atb
  ; text ( <carried> (? : @pairs ?) (? attributes {!} ?) cond <loop> do <loop>
return: results...:Atb -> ; text %* {} (? : @types ?) ; none ends a region
optimization_barrier: operand...:Tt -> ...:Tt ; pairs/c1 ; text {} (? ( ) | %* : @pairs ?)
tuple: val...:Atlb -> l ; text %* {} : @tuple
get_tuple_element: operand:l index=i32>=0/c1 -> Atlb ; text % [ index:i32 ] {} : @function
composite@2: inputs...:Atl name=string composite_attributes=dictionary?[] decomposition=symbol version=i32?0
  composite_regions{*} -> ...:Atl ; text name:string %* (? <regions> ?) {} : @function
custom_call: inputs...:A*btlh call_target_name=string has_side_effect=bool?false backend_config=config?[]
  api_version=i32?1 called_computations=symbols?[] operand_layouts=layouts? result_layouts=layouts?
  output_operand_aliases=aliases?[] result_tilings=any?[]@2 -> ...:A*btlh
  ; text call_target_name:symbol ( %* ) {} : @function

create_token: -> t ; text {} : @result ; hlo AfterAll
after_all: inputs...:t -> t ; text %* {} : @same ; hlo
infeed: token:t infeed_config=string? layout=array?[] -> ...:A!t
outfeed: inputs...:A token:t outfeed_config=string? -> t
send: inputs...:A token:t channel_handle=#channel_handle is_host_transfer=bool?false
  source_target_pairs=table?[]@2 -> t
recv: token:t channel_handle=#channel_handle is_host_transfer=bool?false source_target_pairs=table?[]@2 ->
  ...:A!t
replica_id partition_id: -> u ; text {} : @result ; hlo
all_gather@2: operands...:T all_gather_dim=i64>=0/c1 replica_groups=groups channel_handle=#channel_handle?0
  use_global_device_ids=unit?false -> ...:T ; pair_elements/c6
  ; hlo dimensions=all_gather_dim replica_groups channel_id=channel_handle use_global_device_ids
all_reduce@2: operands...:T replica_groups=groups channel_handle=#channel_handle?0
  use_global_device_ids=unit?false computation{} -> ...:T
  ; hlo replica_groups channel_id=channel_handle use_global_device_ids to_apply=computation+
all_to_all@2: operands...:T split_dimension=i64>=0/c1 concat_dimension=i64>=0/c3 split_count=i64>0/c4
  replica_groups=groups channel_handle=#channel_handle?0 -> ...:T ; pair_elements/c9
  ; hlo dimensions=split_dimension replica_groups channel_id=channel_handle
collective_broadcast: operands...:T replica_groups=groups channel_handle=#channel_handle?0
  has_dynamic_root=unit?false@2 -> ...:T ; hlo replica_groups channel_id=channel_handle has_dynamic_root
collective_reduce: operands...:T replica_groups=groups channel_handle=#channel_handle?0
  use_global_device_ids=unit?false has_dynamic_root=unit?false computation{} -> ...:T
  ; hlo replica_groups channel_id=channel_handle has_dynamic_root to_apply=computation+
collective_permute: operand:T source_target_pairs=table channel_handle=#channel_handle?0 -> T ; alike/c5
  ; hlo source_target_pairs channel_id=channel_handle
cross-replica-sum: operand:T replica_groups=table -> T ; same/c1
  ; none all_reduce says it, and no frontend writes this one
reduce_scatter: operand:T scatter_dimension=i64>=0/c2 replica_groups=groups channel_handle=#channel_handle?0
  use_global_device_ids=unit?false computation{} -> T ; hlo dimensions=scatter_dimension
  replica_groups channel_id=channel_handle use_global_device_ids to_apply=computation+
async_start: operands...:T body{} -> h
async_done: operand:h -> T
"""

_CHLO = """
acos acosh asin asinh atanh cosh sinh tan: operand:fc* -> fc* ; same/c1 ; text % {} : @types -> @result
  ; hlo
atan bessel_i1e conj square: operand:fc* -> fc* ; same/c1 ; text % {} : @types -> @result
_asin_acos_kernel: operand:c* -> c* ; same/c1 ; text % {} : @types -> @result
  ; none a part of asin and acos, which no frontend writes alone
digamma erf_inv erfc lgamma: operand:f* -> f* ; same/c1 ; text % {} : @types -> @result
erf: operand:f* -> f* ; same/c1 ; text % {} : @types -> @result ; hlo
is_inf is_neg_inf is_pos_inf: operand:f* -> p* ; shape/c1 ; text % {} : @types -> @result
next_after polygamma zeta: x:f* y:f* -> f* ; same/c1 ; text % , % {} : @types -> @result
mulhi: lhs:i rhs:i -> i ; same/c1 ; text % , % {} : @types -> @result ; hlo
broadcast_add broadcast_maximum broadcast_minimum: lhs:A* rhs:A* broadcast_dimensions=ints? -> A*
  ; elements/c1 ; text % , % {} : @function
broadcast_atan2 broadcast_divide broadcast_multiply broadcast_next_after broadcast_polygamma broadcast_power
  broadcast_remainder broadcast_shift_left broadcast_shift_right_arithmetic broadcast_shift_right_logical
  broadcast_subtract: lhs:A* rhs:A* broadcast_dimensions=ints? -> A* ; alike/c1 ; text % , % {} : @function
broadcast_zeta: lhs:f* rhs:f* broadcast_dimensions=ints? -> f* ; alike/c1 ; text % , % {} : @function
broadcast_and broadcast_or broadcast_xor: lhs:pi* rhs:pi* broadcast_dimensions=ints? -> A* ; elements/c1
  ; text % , % {} : @function
broadcast_complex: lhs:f* rhs:f* broadcast_dimensions=ints? -> c* ; text % , % {} : @function
broadcast_compare: lhs:A* rhs:A* broadcast_dimensions=ints? comparison_direction=comparison_direction
  compare_type=comparison_type? -> p*
broadcast_select: pred:p on_true:A* on_false:A* -> A* ; text % , % , % {} : @function
constant: value=elements -> T! ; text {} value:elements @value
constant_like: value=any operand:A* -> A* ; shape/c1
ragged_dot: lhs:A* rhs:A* group_sizes:i ragged_dot_dimension_numbers=#ragged_dot
  precision_config=precisions? -> A* ; hlo *ragged_dot_dimension_numbers operand_precision=precision_config
top_k: operand:A* k=i64 is_stable=bool?@2 -> A* A*
  ; text ( % , k = k:i64 (? , is_stable = is_stable:bool ?) ) {} : @types -> @results ; hlo TopK k
scan: inputs...:A* inits...:A* dimension=i64>=0/c1 scan_dim_size=i64>=0? is_reverse=bool?
  is_associative=bool? body{} operandSegmentSizes=segments?
  resultSegmentSizes=segments? -> ...:A* ; text ( %* ) inits ( <carries> )
  dimension = dimension:i64 (? attributes {!} ?) <region> : <scan>
  ; hlo dimensions=dimension is_reverse is_associative num_carries=operandSegmentSizes
  num_carries=resultSegmentSizes to_apply=body
"""

_OTHERS = {
    "check": """
expect_almost_eq: lhs:fc* rhs:fc* tolerance=f64? -> ; pairs_equal/c1
  ; text % , % (? , tolerance = tolerance:f64 ?) {} : @first ; none a check, which `axla check` carries out
expect_almost_eq_const: lhs:fc* value=elements tolerance=f64? ->
  ; text % , value:elements (? , tolerance = tolerance:f64 ?) {} @as_value
  ; none a check, which `axla check` carries out
expect_eq: lhs:T rhs:T -> ; pairs_equal/c1 ; text % , % {} : @first
  ; none a check, which `axla check` carries out
expect_eq_const: lhs:T value=elements -> ; text % , value:elements {} @as_value
  ; none a check, which `axla check` carries out
expect_close: actual:f* expected:f* -> ; pairs_equal/c1 ; text % , % , max_ulp_difference =
  max_ulp_difference:ui64 (? , min_ulp_difference = min_ulp_difference:ui64 ?) : {} @types
  ; none a check, which `axla check` carries out
expect_serialized_eq:
  ; text % , probe_id = probe_id:string (? , iter = iteration:ui32 ?) {} : @types
""",
    "interpreter": """
print: operand:T -> ; text % {} : @types
probe: operand:T probe_id=string -> T ; same/c1 ; text % , probe_id = probe_id:string {} : @same
run_parallel: inputs...:Tt infeed=array? programs=array -> ...:Tt
""",
    "builtin": """
module: sym_name=any? sym_visibility=any? ; text <visibility> <name> (? attributes {!} ?) <region>
""",
    "func": """
func: sym_name=any sym_visibility=any?[] function_type=any arg_attrs=any?[] res_attrs=any?[] no_inline=any?@2
  ; text <visibility> sym_name:symbol <signature> (? attributes {!} ?) <definition>
call: callee=any no_inline=any?@2 arg_attrs=any?@3 res_attrs=any?@3
  ; text callee:reference ( %* ) {} : @function
return: ; text {} %* (? : @types ?)
""",
    "arith": """
constant: value=any ; text {} value:elements @value
""",
    "sdy": """
all_gather: gathering_axes=any out_sharding=any
  ; text gathering_axes:sdy<list_of_axis_ref_lists % out_sharding = out_sharding:sdy.sharding {} : @same
all_reduce: reduction_axes=any out_sharding=any reduction_op=any?@2
  ; text reduction_axes:sdy<axis_ref_list % out_sharding = out_sharding:sdy.sharding {} : @same
all_slice: slicing_axes=any out_sharding=any
all_to_all: params=any out_sharding=any
collective_permute: out_sharding=any
constant: value=any ; text {} value:elements @value
data_flow_edge: sharding=any? ; text % (? sharding = sharding:sdy.sharding ?) {} : @same
manual_computation: in_shardings=any out_shardings=any manual_axes=any
  ; text ( %* ) in_shardings = in_shardings:sdy.sharding_per_value
  out_shardings = out_shardings:sdy.sharding_per_value manual_axes = manual_axes:sdy<manual_axes
  <body> {} : @function
mesh: sym_name=any mesh=any ; text sym_name:symbol = mesh:sdy.mesh {}
named_computation: name=any in_shardings=any? out_shardings=any?
  ; text < name:string > ( %* ) (? in_shardings = in_shardings:sdy.sharding_per_value ?)
  (? out_shardings = out_shardings:sdy.sharding_per_value ?) <body> {} : @function
propagation_barrier: allowed_direction=any ; text % allowed_direction = allowed_direction:direction {} : @same
reduce_scatter: reduce_scatter_axes=any out_sharding=any reduction_op=any?@2
replicated_to_unreduced sharded_to_unreduced: axes=any out_sharding=any
reshard sharding_constraint: sharding=any ; text % sharding:sdy.sharding {} : @same
return: ; text %* {} (? : @types ?)
sharding_group: group_id=any ; text % group_id = group_id:i64 {} : @types
""",
}

_CALL = """
custom_call: window_dimensions=ints? window_strides=ints? padding=table? lhs_dilation=ints? rhs_dilation=ints?
  window_reversal=bools? dimension_numbers=#conv? feature_group_count=i64? batch_group_count=i64?
  precision_config=precisions? padding_type=string? literal=string? schedule=string?
  ; hlo window.size=window_dimensions window.stride=window_strides window.base_dilation=lhs_dilation
  window.window_dilation=rhs_dilation window.low=padding window.high=padding window.reversal=window_reversal
  dim_labels=dimension_numbers operand_precision=precision_config feature_group_count batch_group_count
  padding_type literal schedule
"""


def _width(kind: str) -> int:
    return len(STRUCTURES[kind[1:]]) if kind.startswith("#") else 1


def _read() -> dict[str, Record]:
    found: dict[str, Record] = {}
    for dialect, table in {"stablehlo": _STABLEHLO, "chlo": _CHLO, **_OTHERS}.items():
        found |= read_records(dialect, table, _width)
    return found


OPERATIONS = _read()
"""Every operation, by its full name."""
CUSTOM_CALL = read_records("stablehlo", _CALL, _width)["stablehlo.custom_call"]
"""The attribute of custom calls with what HLO says of them and StableHLO does not, as an operation."""
