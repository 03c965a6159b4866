"""The operations of StableHLO and CHLO, of the dialects for checks and debugging, and of others that are only
carried along: a record for each, in the notation of `importers/records.py`.

Kinds of operands are letters (`verify/kinds.py`). Kinds of attributes are words (`verify/attributes.py`), or
`#mnemonic` for a structure, which counts as many inputs as it has fields. Rules are words of
`verify/agreement.py`, with the operands and results that they concern in parentheses, or relations
(`verify/relations.py`); `&name` stands for rules that several records share. Defaults and versions are those
of VHLO. A short form consists of:

    %   an operand                  %*  operands with commas between, maybe none
    %,  operands, each with a comma after it            (%*)  operands in parentheses
    {}  a dictionary of attributes, which may be missing; {!}  one that may not
    name:kind  an attribute; the kinds are those of `text/assembly.ATTRIBUTES`, enumerations among them
    @types     types of operands and results; see `text/draft.TYPES`
    <part>     a special part; see `text/assembly.PARTS`
    (? ... | ... ?)  alternatives, or an optional sequence; the first element of each decides

Anything else is literal text.
"""

from __future__ import annotations

import re

from axla.importers.records import Record, read_records
from axla.stablehlo.attributes import STRUCTURES

_STABLEHLO = """
abs: operand:sfcq -> sfq ; shape/c1 real/c2 ; text % {} : @same ; hlo
cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh:
  operand:fcq result_accuracy=result_accuracy?DEFAULT@2 -> fcq ; same/c1 ; text % {} : @same ; hlo
ceil floor round_nearest_afz round_nearest_even: operand:fq -> fq ; same/c1 ; text % {} : @same ; hlo
convert: operand:pifc -> pifc ; shape/c1 ; text % {} : @same ; hlo
count_leading_zeros popcnt: operand:i -> i ; same/c1 ; text % {} : @same ; hlo
imag real: operand:fc -> f ; shape/c1 real/c2 ; text % {} : @same ; hlo
is_finite: x:fq -> p ; shape/c1 ; text % {} : @same ; hlo
not: operand:pi -> pi ; same/c1 ; text % {} : @same ; hlo
negate: operand:ifcq -> ifcq ; same/c1 ; text % {} : @same ; hlo
sign: operand:sfcq -> sfcq ; same/c1 ; text % {} : @same ; hlo
reduce_precision: operand:fq exponent_bits=i32>0/c2 mantissa_bits=i32>=0/c3 -> fq ; same/c1
  ; text % , format = <format> {} : @same ; hlo exponent_bits mantissa_bits
uniform_quantize: operand:fqag -> qag ; shape/c1 expressed/c2 ; text % {} : @same
  ; none rewritten as integers and floats before the import
uniform_dequantize: operand:qag -> f ; shape/c1 expressed/c2 ; text % {} : @same
  ; none rewritten as integers and floats before the import
add: lhs:A rhs:A -> A ; shape/c1 ; text % , % {} : @same ; hlo
atan2: lhs:fcq rhs:fcq -> fcq ; same/c1 ; text % , % {} : @same ; hlo
complex: lhs:d rhs:d -> c ; shape/c2 alike(lhs,rhs)/c1 real/c3 ; text % , % {} : @complex ; hlo
divide power remainder subtract: lhs:ifcq rhs:ifcq -> ifcq ; same/c1 ; text % , % {} : @same ; hlo
maximum minimum multiply: lhs:T rhs:T -> T ; same/c1 ; text % , % {} : @same ; hlo
shift_left shift_right_arithmetic shift_right_logical: lhs:i rhs:i -> i ; same/c1 ; text % , % {} : @same
  ; hlo
and or xor: lhs:pi rhs:pi -> pi ; same/c1 ; text % , % {} : @same ; hlo
compare: lhs:T rhs:T comparison_direction=comparison_direction compare_type=comparison_type?NOTYPE -> p
  ; elements(lhs,rhs)/c1 shape/c2
  ; text comparison_direction:comparison_direction , % , % (? , compare_type:comparison_type ?) {} : @function
  ; hlo direction=comparison_direction type=compare_type
select: pred:p on_true:T on_false:T -> T ; same(on_true,on_false)/c2 scalar_or(on_true,pred)/c1
  ; text %* {} : @select ; hlo
clamp: min:T operand:T max:T -> T
  ; elements/c3 scalar_or(operand,min)/c1 scalar_or(operand,max)/c2 follow(operand)/c4
  ; text % , % , % {} : @same ; hlo
map: inputs...:T dimensions=ints computation{} -> T
  ; 0<count(inputs)/c2 shape/c1 is_sorted(dimensions)/c3 is_permutation(dimensions,rank(inputs))/c3
  ; hlo dimensions to_apply=computation

constant: value=elements -> Ag! ; text (? ( ) (? < {!} > ?) {} : @function | {} value:elements
  @value ?)
iota: iota_dimension=i64>=0/c1 -> ifcq! ; iota_dimension<rank(result)/c1
  ; text dim = iota_dimension:i64 {} : @result ; hlo iota_dimension
dynamic_iota: output_shape:xi1! iota_dimension=i64>=0/c1 -> T
  ; iota_dimension<rank(result)/c1 size(output_shape)==rank(result)/c2 0<=output_shape/c2
  result=output_shape/c2 ; text % , dim = iota_dimension:i64 {} : @function ; static iota =output_shape
rng: a:pif0 b:pif0 shape:xi1! rng_distribution=rng_distribution -> pif
  ; alike(a,b,result)/c1 size(shape)==rank(result)/c3 0<=shape/c3 result=shape/c3
  ; text % , % , % , distribution = rng_distribution:rng_distribution {} : @function
  ; hlo distribution=rng_distribution
rng_bit_generator: rng_algorithm=rng_algorithm initial_state:if -> if if!
  ; shapes(initial_state,result)/c1 alike(initial_state,result)/c1
  ; text % , algorithm = rng_algorithm:rng_algorithm {} : @function ; hlo algorithm=rng_algorithm

bitcast_convert: operand:A -> A ; text %* {} : @function
broadcast: operand:T broadcast_sizes=ints -> A
  ; alike/c1 0<=broadcast_sizes/c1 result=broadcast_sizes+shape(operand)/c2
  ; text % , sizes = broadcast_sizes:list {} : @function
broadcast_in_dim: operand:A broadcast_dimensions=ints -> A~ ; elements/c1 scale/c1 &broadcasting
  ; text % , dims = broadcast_dimensions:list {} : @function ; hlo Broadcast dimensions=broadcast_dimensions
dynamic_broadcast_in_dim: operand:A output_dimensions:xi1! broadcast_dimensions=ints
  known_expanding_dimensions=ints?[] known_nonexpanding_dimensions=ints?[] -> A
  ; elements(operand,result)/c1 scale(operand,result)/c1 rank(operand)<=rank(result)/c3 &broadcasting
  size(output_dimensions)==rank(result)/c7 0<=output_dimensions/c7 result=output_dimensions/c7
  is_unique(known_expanding_dimensions+known_nonexpanding_dimensions)/c8
  0<=known_expanding_dimensions<rank(operand)/c9 0<=known_nonexpanding_dimensions<rank(operand)/c10
  ; text % , % , dims = broadcast_dimensions:list {} : @function ; static broadcast_in_dim =output_dimensions
reshape: operand:A -> A~ ; elements/c1 scales/c1 ; text %* {} : @function ; hlo
dynamic_reshape: operand:A output_shape:xi1! -> A
  ; elements(operand,result)/c1 scales(operand,result)/c1 size(output_shape)==rank(result)/c4
  0<=output_shape/c4 result=output_shape/c4 ; text %* {} : @function ; static reshape =output_shape
transpose: operand:A permutation=ints -> A
  ; elements/c1 is_permutation(permutation,rank(operand))/c2 scales/c1 result=shape(operand)[permutation]/c3
  ; text % , dims = permutation:list {} : @function ; hlo dimensions=permutation
reverse: operand:T dimensions=ints -> T
  ; alike/c1 is_unique(dimensions)/c2 0<=dimensions<rank(operand)/c3 follow/c1
  ; text % , dims = dimensions:list {} : @same ; hlo dimensions
concatenate: inputs...:T dimension=i64>=0/c4 -> T ; alike/c1 0<count(inputs)/c3 dimension<rank(inputs)/c4
  ; text %, dim = dimension:i64 {} : @function ; hlo dimensions=dimension
slice: operand:T start_indices=ints limit_indices=ints strides=ints -> T
  ; alike/c1 size(start_indices)==size(limit_indices)==size(strides)==rank(operand)/c2
  0<=start_indices<=limit_indices<=shape(operand)/c3 0<strides/c4 ; text % <slice> {} : @function
  ; hlo slice.starts=start_indices slice.limits=limit_indices slice.strides=strides
real_dynamic_slice: operand:T start_indices:xi1 limit_indices:xi1 strides:xi1 -> T
  ; types(start_indices,limit_indices,strides)/c1 size(start_indices)==rank(operand)/c2
  alike(operand,result)/c3 rank(operand)==rank(result)/c3 0<=start_indices<=limit_indices<=shape(operand)/c4
  0<strides/c4 ; text %* {} : @function ; none static once its sizes are given
  ; static slice start_indices limit_indices strides
dynamic_slice: operand:T start_indices...:i0 slice_sizes=ints -> T
  ; count(start_indices)==size(slice_sizes)==rank(operand)/c2 alike(start_indices)/c3
  0<=slice_sizes<=shape(operand)/c4 alike(operand,result)/c1 result=slice_sizes/c5
  ; text % , %, sizes = slice_sizes:list {} : @function ; hlo dynamic_slice_sizes=slice_sizes
dynamic_update_slice: operand:T update:T start_indices...:i0 -> T
  ; alike(operand,update)/c2 rank(update)==rank(operand)/c3 count(start_indices)==rank(operand)/c4
  alike(start_indices)/c5 shape(update)<=shape(operand)/c6 alike(operand,result)/c1 follow(operand)/c1
  ; text %* {} : @function ; hlo
pad: operand:T padding_value:T0 edge_padding_low=ints edge_padding_high=ints interior_padding=ints -> T
  ; alike/c1 &padding
  ; text % , % , low = edge_padding_low:list , high = edge_padding_high:list , interior =
  interior_padding:list {} : @function
  ; hlo padding.low=edge_padding_low padding.high=edge_padding_high padding.interior=interior_padding
dynamic_pad: operand:T padding_value:T0 edge_padding_low:xi1! edge_padding_high:xi1! interior_padding:xi1!
  -> T
  ; alike(operand,padding_value,result)/c1 rank(operand)==rank(result)/c2
  types(edge_padding_low,edge_padding_high,interior_padding)/c2 &padding ; text %* {} : @function
  ; none static once its sizes are given ; static pad edge_padding_low edge_padding_high interior_padding
get_dimension_size: operand:A dimension=i64>=0/c1 -> n0 ; dimension<rank(operand)/c1
  ; text % , dim = dimension:i64 {} : @function ; hlo dimensions=dimension
set_dimension_size: operand:T size:n0 dimension=i64>=0/c1 -> T ; dimension<rank(operand)/c1
  ; text % , % , dim = dimension:i64 {} : @function ; hlo dimensions=dimension
gather: operand:T start_indices:i dimension_numbers=#gather slice_sizes=ints indices_are_sorted=bool?false
  -> T ; &gather ; hlo *dimension_numbers slice_sizes indices_are_sorted
dynamic_gather: operand:T start_indices:i slice_sizes:i1! dimension_numbers=#gather
  indices_are_sorted=bool?false -> T ; &gather ; none static once its sizes are given
  ; static gather slice_sizes
scatter: inputs...:T scatter_indices:pix updates...:T scatter_dimension_numbers=#scatter
  indices_are_sorted=bool?false unique_indices=bool?false update_computation{} -> ...:T
  ; 0<count(inputs)/c5 shapes(inputs)/c1 shapes(updates)/c3 0<=index_vector_dim<=rank(scatter_indices)/c22
  size(update_window_dims+inserted_window_dims+input_batching_dims)==rank(inputs)/c2
  is_sorted(update_window_dims)/c7 is_unique(update_window_dims)/c7 0<=update_window_dims<rank(updates)/c8
  is_unique(inserted_window_dims+input_batching_dims)/c9 is_sorted(inserted_window_dims)/c10
  0<=inserted_window_dims<rank(inputs)/c11 is_sorted(input_batching_dims)/c12
  0<=input_batching_dims<rank(inputs)/c13 is_unique(scatter_indices_batching_dims)/c14
  0<=scatter_indices_batching_dims<rank(scatter_indices)/c15
  is_unique(scatter_indices_batching_dims+index_vector_dim)/c16
  size(input_batching_dims)==size(scatter_indices_batching_dims)/c17
  shape(inputs)[input_batching_dims]==shape(scatter_indices)[scatter_indices_batching_dims]/c18
  is_unique(scatter_dims_to_operand_dims+input_batching_dims)/c20
  0<=scatter_dims_to_operand_dims<rank(inputs)/c21 count(results)==count(inputs)/results
  ; hlo *scatter_dimension_numbers indices_are_sorted unique_indices to_apply=update_computation+
torch_index_select: operand:T index:T dim=i64 batch_dims=i64 -> T
  ; none gather says it, and no frontend writes this one

dot: lhs:T rhs:A precision_config=precisions?DEFAULT -> A
  ; size(precision_config)<=2/i3 1<=rank(lhs)<=2/c1 1<=rank(rhs)<=2/c1 shape(lhs)[-1]==shape(rhs)[0]/c1
  ; text % , % (? , precision = precision_config:precisions ?) {} : @function
dot_general: lhs:T rhs:A dot_dimension_numbers=#dot precision_config=precisions?DEFAULT
  algorithm=#dot_algorithm?@2 -> A ; size(precision_config)<=2/c11 &product
  ; text % , % , dot_dimension_numbers:dot (? , (? algorithm = algorithm:dot_algorithm | precision =
  precision_config:precisions (? , algorithm = algorithm:dot_algorithm ?) ?) ?) {} : @function
  ; hlo Dot *dot_dimension_numbers operand_precision=precision_config algorithm
einsum: lhs:T rhs:T einsum_config=string -> T ; text % , % , config = einsum_config:string {} : @function
  ; none dot_general and reduce say it, and no frontend writes this one
unary_einsum: operand:T einsum_config=string -> T ; text % , config = einsum_config:string {} : @function
  ; none dot_general and reduce say it, and no frontend writes this one
convolution: lhs:T rhs:A window_strides=ints?1 padding=table?0 lhs_dilation=ints?1 rhs_dilation=ints?1
  window_reversal=bools?0 dimension_numbers=#conv feature_group_count=i64>0/c21 batch_group_count=i64>0/c22
  precision_config=precisions?DEFAULT -> A ; &convolution
  ; text (%*) dim_numbers = dimension_numbers:convolution , window = { <window> } {} : @function
  ; hlo window.stride=window_strides window.base_dilation=lhs_dilation window.window_dilation=rhs_dilation
  window.low=padding window.high=padding window.reversal=window_reversal dim_labels=dimension_numbers
  feature_group_count batch_group_count operand_precision=precision_config
dynamic_conv@2: lhs:T rhs:A padding:i2! window_strides=ints?1 lhs_dilation=ints?1 rhs_dilation=ints?1
  window_reversal=bools?0 dimension_numbers=#conv feature_group_count=i64>0/c21 batch_group_count=i64>0/c22
  precision_config=precisions?DEFAULT -> A
  ; &convolution shape(padding)[0]==rank(lhs)-2/c4 shape(padding)[1]==2/c4
  ; none static once its sizes are given ; static convolution padding
fft: operand:fc fft_type=fft_type fft_length=ints -> fc
  ; 1<=size(fft_length)<=3/c3 size(fft_length)<=rank(operand)/c1
  ; text % , type = fft_type:fft_type , length = fft_length:list {} : @function ; hlo fft_type fft_length
cholesky: a:fcq lower=bool?false -> fcq ; elements/c1 2<=rank(a)/c2 shape(a)[-2]==shape(a)[-1]/c3 follow/c1
  ; text % (? , lower = lower:bool ?) {} : @same ; hlo lower
triangular_solve: a:fc b:fc left_side=bool lower=bool unit_diagonal=bool transpose_a=transpose -> fc
  ; elements/c1 2<=rank(a)==rank(b)/c2 shape(a)[-2]==shape(a)[-1]/c3 follow(b)/c4
  ; hlo left_side lower unit_diagonal transpose_a
batch_norm_grad: operand:fq scale:fq1 mean:fq1 variance:fq1 grad_output:fq epsilon=f32 feature_index=i64>=0/c1
  -> fq fq1 fq1
  ; elements/c2 feature_index<rank(operand)/c1 shape(grad_output)==shape(operand)/c3
  shapes(scale,mean,variance)/c4 size(scale)==shape(operand)[feature_index]/c5
  size(mean)==shape(operand)[feature_index]==size(variance)/c4 result=shape(operand)/c3
  result1=shape(operand)[feature_index]/c4 result2=shape(operand)[feature_index]/c4
  ; hlo epsilon feature_index
batch_norm_inference: operand:fq scale:fq1 offset:fq1 mean:fq1 variance:fq1 epsilon=f32
  feature_index=i64>=0/c1 -> fq
  ; elements/c2 feature_index<rank(operand)/c1 size(scale)==shape(operand)[feature_index]/c3
  size(scale)==size(offset)==shape(operand)[feature_index]/c4
  size(scale)==size(mean)==shape(operand)[feature_index]/c5
  size(scale)==size(variance)==shape(operand)[feature_index]/c6 result=shape(operand)/c7
  ; hlo epsilon feature_index
batch_norm_training: operand:fq scale:fq1 offset:fq1 epsilon=f32 feature_index=i64>=0/c1 -> fq fq1 fq1
  ; elements/c2 feature_index<rank(operand)/c1 size(scale)==shape(operand)[feature_index]/c3
  size(scale)==size(offset)==shape(operand)[feature_index]/c4 result=shape(operand)/c7
  result1=shape(operand)[feature_index]/c5 result2=shape(operand)[feature_index]/c6
  ; hlo epsilon feature_index

reduce: inputs...:T init_values...:T dimensions=ints body{} -> ...:T
  ; 0<count(inputs)/c3 count(results)==count(inputs)/c3 shapes(inputs)/c1 0<=dimensions<rank(inputs)/c4
  is_unique(dimensions)/c5
  ; text <reduced> (? applies <operator> across dimensions = dimensions:list {} : @function <applied> | across
  dimensions = dimensions:list {} : @function reducer <reducer> ?) ; hlo dimensions to_apply=body+
reduce_window: inputs...:T init_values...:T window_dimensions=ints window_strides=ints?1 base_dilations=ints?1
  window_dilations=ints?1 padding=table?0 body{} -> ...:T
  ; 0<count(inputs)/c1 count(results)==count(inputs)/c1 shapes(inputs)/c2
  size(window_dimensions)==rank(inputs)/c4
  ; hlo window.size=window_dimensions window.stride=window_strides window.base_dilation=base_dilations
  window.window_dilation=window_dilations window.low=padding window.high=padding to_apply=body+
select_and_scatter: operand:T source:T init_value:T window_dimensions=ints? window_strides=ints?1
  padding=table?0 select{} scatter{} -> T ; size(window_dimensions)==rank(operand)/c4
  ; hlo window.size=window_dimensions window.stride=window_strides window.low=padding window.high=padding
  select scatter+
sort: inputs...:T dimension=i64?-1 is_stable=bool?false comparator{} -> ...:T
  ; 0<count(inputs)/c1 count(results)==count(inputs)/c2 shape/c3 follow/c2
  0-rank(inputs)<=dimension<rank(inputs)/c4 ; hlo dimensions=dimension is_stable to_apply=comparator

if: pred:p0 true_branch{} false_branch{} -> ...:At
case: index:n0 branches{...} -> ...:At
while: operand...:Atb cond{} body{} -> ...:Atb
  ; text ( <carried> (? : @pairs ?) (? attributes {!} ?) cond <loop> do <loop>
  ; hlo condition=cond body
return: results...:Atb -> ; text %* {} (? : @types ?) ; none ends a region
optimization_barrier: operand...:Tt -> ...:Tt ; count(results)==count(operand)/c1 pairs/c1
  ; text {} (? ( ) | %* : @pairs ?)
tuple: val...:Atlb -> l ; text %* {} : @tuple ; hlo
get_tuple_element: operand:l index=i32>=0/c1 -> Atlb ; text % [ index:i32 ] {} : @function ; hlo index
composite@2: inputs...:Atl name=string composite_attributes=dictionary?[] decomposition=symbol version=i32?0
  composite_regions{*} -> ...:Atl ; text name:string %* (? <regions> ?) {} : @function
custom_call: inputs...:A*btlh call_target_name=string has_side_effect=bool?false backend_config=config?[]
  api_version=i32?1 called_computations=symbols?[] operand_layouts=layouts? result_layouts=layouts?
  output_operand_aliases=aliases?[] result_tilings=any?[]@2 -> ...:A*btlh ; 0<=api_version<=4/i5
  ; text call_target_name:symbol (%*) {} : @function

create_token: -> t ; text {} : @result ; hlo AfterAll
after_all: inputs...:t -> t ; text %* {} : @same ; hlo
infeed: token:t infeed_config=string? layout=array?[] -> ...:A!t ; 0<count(results)/c1 ; hlo infeed_config
outfeed: inputs...:A token:t outfeed_config=string? -> t ; hlo outfeed_config
send: inputs...:A token:t channel_handle=#channel_handle is_host_transfer=bool?false
  source_target_pairs=table?[]@2 -> t
recv: token:t channel_handle=#channel_handle is_host_transfer=bool?false source_target_pairs=table?[]@2
  -> ...:A!t ; 0<count(results)/results
replica_id partition_id: -> m0 ; text {} : @result ; hlo
all_gather@2: operands...:T all_gather_dim=i64>=0/c1 replica_groups=groups channel_handle=#channel_handle?0
  use_global_device_ids=unit?false -> ...:T
  ; count(results)==count(operands)/c6 pair_elements/c6 rank(operands)==rank(results)/c6
  all_gather_dim<rank(operands)/c1 0<shape(operands)[all_gather_dim]/c1
  shape(results)[all_gather_dim]%shape(operands)[all_gather_dim]==0/c6
  ; hlo dimensions=all_gather_dim replica_groups channel_id=channel_handle use_global_device_ids
all_reduce@2: operands...:T replica_groups=groups channel_handle=#channel_handle?0
  use_global_device_ids=unit?false computation{} -> ...:T ; count(results)==count(operands)/c6
  ; hlo replica_groups channel_id=channel_handle use_global_device_ids to_apply=computation+
all_to_all@2: operands...:T split_dimension=i64>=0/c1 concat_dimension=i64>=0/c3 split_count=i64>0/c4
  replica_groups=groups channel_handle=#channel_handle?0 -> ...:T
  ; count(results)==count(operands)/c9 pair_elements/c9 split_dimension<rank(operands)/c1
  concat_dimension<rank(operands)/c3 shape(operands)[split_dimension]%split_count==0/c2
  ; hlo dimensions=split_dimension replica_groups channel_id=channel_handle
collective_broadcast: operands...:T replica_groups=groups channel_handle=#channel_handle?0
  has_dynamic_root=unit?false@2 -> ...:T ; hlo replica_groups channel_id=channel_handle has_dynamic_root
collective_reduce: operands...:T replica_groups=groups channel_handle=#channel_handle?0
  use_global_device_ids=unit?false has_dynamic_root=unit?false computation{} -> ...:T
  ; hlo replica_groups channel_id=channel_handle has_dynamic_root to_apply=computation+
collective_permute: operand:T source_target_pairs=table channel_handle=#channel_handle?0 -> T
  ; alike/c5 follow/c5 ; hlo source_target_pairs channel_id=channel_handle
cross-replica-sum: operand:T replica_groups=table -> T ; same/c1
  ; none all_reduce says it, and no frontend writes this one
reduce_scatter: operand:T scatter_dimension=i64>=0/c2 replica_groups=groups channel_handle=#channel_handle?0
  use_global_device_ids=unit?false computation{} -> T
  ; rank(operand)==rank(result)/c8 scatter_dimension<rank(operand)/c2 0<shape(operand)[scatter_dimension]/c1
  0<shape(result)[scatter_dimension]/c1
  shape(operand)[scatter_dimension]%shape(result)[scatter_dimension]==0/c8
  ; hlo dimensions=scatter_dimension replica_groups channel_id=channel_handle use_global_device_ids
  to_apply=computation+
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
broadcast_complex: lhs:f* rhs:f* broadcast_dimensions=ints? -> c* ; elements(lhs,rhs)/c1 real/c2
  ; text % , % {} : @function
broadcast_compare: lhs:A* rhs:A* broadcast_dimensions=ints? comparison_direction=comparison_direction
  compare_type=comparison_type? -> p* ; elements(lhs,rhs)/c1
broadcast_select: pred:p on_true:A* on_false:A* -> A*
  ; elements(on_true,on_false)/c1 elements(on_true,result)/c2 ; text % , % , % {} : @function
constant: value=elements -> T! ; text {} value:elements @value
constant_like: value=any operand:A* -> A* ; shape/c1
ragged_dot: lhs:A* rhs:A* group_sizes:i ragged_dot_dimension_numbers=#ragged_dot precision_config=precisions?
  -> A*
  ; size(precision_config)<=2/i5 &product size(lhs_ragged_dimensions)==1/c11
  0<=lhs_ragged_dimensions<rank(lhs)/c12 1<=rank(group_sizes)/c13 0<=rhs_group_dimensions<rank(rhs)/c15
  is_unique(rhs_group_dimensions+rhs_batching_dimensions)/c16
  is_unique(rhs_group_dimensions+rhs_contracting_dimensions)/c17
  ; hlo *ragged_dot_dimension_numbers operand_precision=precision_config
top_k: operand:A* k=i64 is_stable=bool?@2 -> A* A*
  ; text ( % , k = k:i64 (? , is_stable = is_stable:bool ?) ) {} : @types -> @results ; hlo TopK k
scan: inputs...:A* inits...:A* dimension=i64>=0/c1 scan_dim_size=i64>=0? is_reverse=bool? is_associative=bool?
  body{} operandSegmentSizes=segments? resultSegmentSizes=segments? -> ...:A* ; dimension<rank(inputs)/c1
  ; text (%*) inits ( <carries> ) dimension = dimension:i64 (? attributes {!} ?) <region> : <scan>
  ; hlo dimensions=dimension is_reverse is_associative num_carries=operandSegmentSizes
  num_carries=resultSegmentSizes to_apply=body
"""

_OTHERS = {
    "check": """
expect_almost_eq: lhs:fc* rhs:fc* tolerance=f64? -> ; types/c1
  ; text % , % (? , tolerance = tolerance:f64 ?) {} : @first ; none a check, which `axla check` carries out
expect_almost_eq_const: lhs:fc* value=elements tolerance=f64? ->
  ; text % , value:elements (? , tolerance = tolerance:f64 ?) {} @as_value
  ; none a check, which `axla check` carries out
expect_eq: lhs:T rhs:T -> ; types/c1 ; text % , % {} : @first ; none a check, which `axla check` carries out
expect_eq_const: lhs:T value=elements -> ; text % , value:elements {} @as_value
  ; none a check, which `axla check` carries out
expect_close: actual:f* expected:f* -> ; types/c1
  ; text % , % , max_ulp_difference = max_ulp_difference:ui64 (? , min_ulp_difference =
  min_ulp_difference:ui64 ?) : {} @types ; none a check, which `axla check` carries out
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
  ; text callee:reference (%*) {} : @function
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
  ; text (%*) in_shardings = in_shardings:sdy.sharding_per_value
  out_shardings = out_shardings:sdy.sharding_per_value manual_axes = manual_axes:sdy<manual_axes
  <body> {} : @function
mesh: sym_name=any mesh=any ; text sym_name:symbol = mesh:sdy.mesh {}
named_computation: name=any in_shardings=any? out_shardings=any?
  ; text < name:string > (%*) (? in_shardings = in_shardings:sdy.sharding_per_value ?)
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


_SHARED = {
    "broadcasting": "size(broadcast_dimensions)==rank(operand)/c2 is_unique(broadcast_dimensions)/c4"
    " 0<=broadcast_dimensions<rank(result)/c3",
    "padding": "size(edge_padding_low)==size(edge_padding_high)==size(interior_padding)==rank(operand)/c2"
    " 0<=interior_padding/c3",
    "gather": """
  size(offset_dims+collapsed_slice_dims+operand_batching_dims)==rank(operand)/c1
  0<=index_vector_dim<=rank(start_indices)/c2 is_sorted(offset_dims)/c4 is_unique(offset_dims)/c4
  0<=offset_dims<rank(result)/c5 is_unique(collapsed_slice_dims+operand_batching_dims)/c6
  is_sorted(collapsed_slice_dims)/c7 0<=collapsed_slice_dims<rank(operand)/c8
  is_sorted(operand_batching_dims)/c10 0<=operand_batching_dims<rank(operand)/c11
  is_unique(start_indices_batching_dims)/c13 0<=start_indices_batching_dims<rank(start_indices)/c14
  is_unique(start_indices_batching_dims+index_vector_dim)/c15
  size(operand_batching_dims)==size(start_indices_batching_dims)/c16
  shape(operand)[operand_batching_dims]==shape(start_indices)[start_indices_batching_dims]/c17
  is_unique(start_index_map+operand_batching_dims)/c18 0<=start_index_map<rank(operand)/c19
  size(slice_sizes)==rank(operand)/c20 slice_sizes[collapsed_slice_dims]<=1/c9
  slice_sizes[operand_batching_dims]<=1/c12 0<=slice_sizes<=shape(operand)/c21 alike(operand,result)/c23""",
    "product": """
  size(lhs_batching_dimensions)==size(rhs_batching_dimensions)/c1
  size(lhs_contracting_dimensions)==size(rhs_contracting_dimensions)/c2
  is_unique(lhs_batching_dimensions+lhs_contracting_dimensions)/c3
  is_unique(rhs_batching_dimensions+rhs_contracting_dimensions)/c4
  0<=lhs_batching_dimensions<rank(lhs)/c5 0<=lhs_contracting_dimensions<rank(lhs)/c6
  0<=rhs_batching_dimensions<rank(rhs)/c7 0<=rhs_contracting_dimensions<rank(rhs)/c8
  shape(lhs)[lhs_batching_dimensions]==shape(rhs)[rhs_batching_dimensions]/c9
  shape(lhs)[lhs_contracting_dimensions]==shape(rhs)[rhs_contracting_dimensions]/c10""",
    "convolution": """
  2<=rank(lhs)==rank(rhs)/c1 size(precision_config)<=2/c24 min(feature_group_count+batch_group_count)==1/c23
  size(input_spatial_dimensions)==rank(lhs)-2/c12
  is_permutation(input_batch_dimension+input_feature_dimension+input_spatial_dimensions,rank(lhs))/c13
  size(kernel_spatial_dimensions)==rank(lhs)-2/c17
  is_unique(kernel_input_feature_dimension+kernel_output_feature_dimension+kernel_spatial_dimensions)/c18
  0<=kernel_input_feature_dimension+kernel_output_feature_dimension+kernel_spatial_dimensions<rank(lhs)/c18
  size(output_spatial_dimensions)==rank(lhs)-2/c19
  is_permutation(output_batch_dimension+output_feature_dimension+output_spatial_dimensions,rank(lhs))/c20
  shape(lhs)[input_batch_dimension]%batch_group_count==0/c10
  shape(lhs)[input_feature_dimension]%feature_group_count==0/c11
  shape(rhs)[kernel_output_feature_dimension]%batch_group_count==0/c15
  shape(rhs)[kernel_output_feature_dimension]%feature_group_count==0/c16
  shape(rhs)[kernel_input_feature_dimension]*feature_group_count==shape(lhs)[input_feature_dimension]/c14""",
}
"""The rules that several operations share, by the names that records use: `&padding`."""


def _width(kind: str) -> int:
    return len(STRUCTURES[kind[1:]]) if kind.startswith("#") else 1


def _read() -> dict[str, Record]:
    found: dict[str, Record] = {}
    for dialect, table in {"stablehlo": _STABLEHLO, "chlo": _CHLO, **_OTHERS}.items():
        whole = re.sub(r"&(\w+)", lambda word: _SHARED[word[1]], table)
        found |= read_records(dialect, whole, _width)
    return found


OPERATIONS = _read()
"""Every operation, by its full name."""
CUSTOM_CALL = read_records("stablehlo", _CALL, _width)["stablehlo.custom_call"]
"""The record of the attribute CALL of custom calls, which has the facts that HLO has and StableHLO does not
have.
"""
