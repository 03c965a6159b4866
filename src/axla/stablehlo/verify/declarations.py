"""The operations of StableHLO and CHLO: inputs in the order of the specification, results, rules for types.

    names: inputs -> results ; rules

An input is an operand `name:kind` (`kinds.py` says how kinds are written; `...` takes any number), an
attribute `name=kind` (`?` may be missing; `attributes.py` has the kinds) or a region `name{}` (`{...}` any
number, `{*}` any number of any content). Its place is its label: the second input of `add` is `add_i2`; a
structure counts as many as it has fields. `/c1` names the constraint instead. The rules are functions of
`agreement.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from axla.stablehlo.text.attributes import STRUCTURES
from axla.stablehlo.verify.kinds import Kind, kind

_STABLEHLO = """
abs: operand:sfcq -> sfq ; shape/c1
cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh: \
operand:fcq result_accuracy=result_accuracy? -> fcq ; same/c1
ceil floor round_nearest_afz round_nearest_even: operand:fq -> fq ; same/c1
convert: operand:pifc -> pifc ; shape/c1
count_leading_zeros popcnt: operand:i -> i ; same/c1
imag real: operand:fc -> f ; shape/c1
is_finite: x:fq -> p ; shape/c1
not: operand:pi -> pi ; same/c1
negate: operand:ifcq -> ifcq ; same/c1
sign: operand:sfcq -> sfcq ; same/c1
reduce_precision: operand:fq exponent_bits=i32>0/c2 mantissa_bits=i32>=0/c3 -> fq ; same/c1
uniform_quantize: operand:fqag -> qag ; shape/c1
uniform_dequantize: operand:qag -> f ; shape/c1
add: lhs:A rhs:A -> A ; shape/c1
atan2: lhs:fcq rhs:fcq -> fcq ; same/c1
complex: lhs:d rhs:d -> c ; shape/c2
divide power remainder subtract: lhs:ifcq rhs:ifcq -> ifcq ; same/c1
maximum minimum multiply: lhs:T rhs:T -> T ; same/c1
shift_left shift_right_arithmetic shift_right_logical: lhs:i rhs:i -> i ; same/c1
and or xor: lhs:pi rhs:pi -> pi ; same/c1
compare: lhs:T rhs:T comparison_direction=comparison_direction compare_type=comparison_type? -> p ; \
operands/c1 shape/c2
select: pred:p on_true:T on_false:T -> T
clamp: min:T operand:T max:T -> T ; elements/c3
map: inputs...:T dimensions=ints computation{} -> T ; shape/c1

constant: value=elements -> Ag!
iota: iota_dimension=i64>=0/c1 -> ifcq!
dynamic_iota: output_shape:xi1! iota_dimension=i64>=0/c1 -> T
rng: a:pif0 b:pif0 shape:xi1! rng_distribution=rng_distribution -> pif
rng_bit_generator: rng_algorithm=rng_algorithm initial_state:if -> if if!

bitcast_convert: operand:A -> A
broadcast: operand:T broadcast_sizes=ints -> A ; alike/c1
broadcast_in_dim: operand:A broadcast_dimensions=ints -> A~ ; elements/c1
dynamic_broadcast_in_dim: operand:A output_dimensions:xi1! broadcast_dimensions=ints \
known_expanding_dimensions=ints? known_nonexpanding_dimensions=ints? -> A
reshape: operand:A -> A~ ; elements/c1
dynamic_reshape: operand:A output_shape:xi1! -> A
transpose: operand:A permutation=ints -> A ; elements/c1
reverse: operand:T dimensions=ints -> T ; alike/c1
concatenate: inputs...:T dimension=i64>=0/c4 -> T ; alike/c1
slice: operand:T start_indices=ints limit_indices=ints strides=ints -> T ; alike/c1
real_dynamic_slice: operand:T start_indices:xi1 limit_indices:xi1 strides:xi1 -> T
dynamic_slice: operand:T start_indices...:i0 slice_sizes=ints -> T
dynamic_update_slice: operand:T update:T start_indices...:i0 -> T
pad: operand:T padding_value:T0 edge_padding_low=ints edge_padding_high=ints interior_padding=ints -> T ; \
alike/c1
dynamic_pad: operand:T padding_value:T0 edge_padding_low:xi1! edge_padding_high:xi1! interior_padding:xi1! \
-> T
get_dimension_size: operand:A dimension=i64>=0/c1 -> s
set_dimension_size: operand:T size:s dimension=i64>=0/c1 -> T
gather: operand:T start_indices:i dimension_numbers=#gather slice_sizes=ints indices_are_sorted=bool? -> T
dynamic_gather: operand:T start_indices:i slice_sizes:i1! dimension_numbers=#gather \
indices_are_sorted=bool? -> T
scatter: inputs...:T scatter_indices:pix updates...:T scatter_dimension_numbers=#scatter \
indices_are_sorted=bool? unique_indices=bool? update_computation{} -> ...:T
torch_index_select: operand:T index:T dim=i64 batch_dims=i64 -> T

dot: lhs:T rhs:A precision_config=precisions? -> A
dot_general: lhs:T rhs:A dot_dimension_numbers=#dot precision_config=precisions? \
algorithm=#dot_algorithm? -> A
einsum: lhs:T rhs:T einsum_config=string -> T
unary_einsum: operand:T einsum_config=string -> T
convolution: lhs:T rhs:A window_strides=ints? padding=table? lhs_dilation=ints? rhs_dilation=ints? \
window_reversal=bools? dimension_numbers=#conv feature_group_count=i64>0/c21 batch_group_count=i64>0/c22 \
precision_config=precisions? -> A
dynamic_conv: lhs:T rhs:A padding:i2! window_strides=ints? lhs_dilation=ints? rhs_dilation=ints? \
window_reversal=bools? dimension_numbers=#conv feature_group_count=i64>0/c21 batch_group_count=i64>0/c22 \
precision_config=precisions? -> A
fft: operand:fc fft_type=fft_type fft_length=ints -> fc
cholesky: a:fcq lower=bool? -> fcq ; elements/c1
triangular_solve: a:fc b:fc left_side=bool lower=bool unit_diagonal=bool transpose_a=transpose -> fc ; \
elements/c1
batch_norm_grad: operand:fq scale:fq1 mean:fq1 variance:fq1 grad_output:fq epsilon=f32 \
feature_index=i64>=0/c1 -> fq fq1 fq1 ; elements/c2
batch_norm_inference: operand:fq scale:fq1 offset:fq1 mean:fq1 variance:fq1 epsilon=f32 \
feature_index=i64>=0/c1 -> fq ; elements/c2
batch_norm_training: operand:fq scale:fq1 offset:fq1 epsilon=f32 feature_index=i64>=0/c1 -> fq fq1 fq1 ; \
elements/c2

reduce: inputs...:T init_values...:T dimensions=ints body{} -> ...:T
reduce_window: inputs...:T init_values...:T window_dimensions=ints window_strides=ints? base_dilations=ints? \
window_dilations=ints? padding=table? body{} -> ...:T
select_and_scatter: operand:T source:T init_value:T window_dimensions=ints? window_strides=ints? \
padding=table? select{} scatter{} -> T
sort: inputs...:T dimension=i64? is_stable=bool? comparator{} -> ...:T ; shape/c3

if: pred:p true_branch{} false_branch{} -> ...:At
case: index:s branches{...} -> ...:At
while: operand...:Atb cond{} body{} -> ...:Atb
return: results...:Atb ->
optimization_barrier: operand...:Tt -> ...:Tt ; pairs/c1
tuple: val...:Atlb -> l
get_tuple_element: operand:l index=i32>=0/c1 -> Atlb
composite: inputs...:Atl name=string composite_attributes=dictionary? decomposition=symbol version=i32? \
composite_regions{*} -> ...:Atl
custom_call: inputs...:A*btlh call_target_name=string has_side_effect=bool? backend_config=config? \
api_version=i32? called_computations=symbols? operand_layouts=layouts? result_layouts=layouts? \
output_operand_aliases=aliases? -> ...:A*btlh

create_token: -> t
after_all: inputs...:t -> t
infeed: token:t infeed_config=string? layout=array? -> ...:A!t
outfeed: inputs...:A token:t outfeed_config=string? -> t
send: inputs...:A token:t channel_handle=#channel_handle is_host_transfer=bool? source_target_pairs=table? \
-> t
recv: token:t channel_handle=#channel_handle is_host_transfer=bool? source_target_pairs=table? -> ...:A!t
replica_id partition_id: -> u
all_gather: operands...:T all_gather_dim=i64>=0/c1 replica_groups=groups channel_handle=#channel_handle? \
use_global_device_ids=unit? -> ...:T ; pair_elements/c6
all_reduce: operands...:T replica_groups=groups channel_handle=#channel_handle? use_global_device_ids=unit? \
computation{} -> ...:T
all_to_all: operands...:T split_dimension=i64>=0/c1 concat_dimension=i64>=0/c3 split_count=i64>0/c4 \
replica_groups=groups channel_handle=#channel_handle? -> ...:T ; pair_elements/c9
collective_broadcast: operands...:T replica_groups=groups channel_handle=#channel_handle? \
has_dynamic_root=unit? -> ...:T
collective_reduce: operands...:T replica_groups=groups channel_handle=#channel_handle? \
use_global_device_ids=unit? has_dynamic_root=unit? computation{} -> ...:T
collective_permute: operand:T source_target_pairs=table channel_handle=#channel_handle? -> T ; alike/c5
cross-replica-sum: operand:T replica_groups=table -> T ; same/c1
reduce_scatter: operand:T scatter_dimension=i64>=0/c2 replica_groups=groups channel_handle=#channel_handle? \
use_global_device_ids=unit? computation{} -> T
async_start: operands...:T body{} -> h
async_done: operand:h -> T
"""

_CHLO = """
acos acosh asin asinh atan atanh bessel_i1e conj cosh sinh square tan: operand:fc* -> fc* ; same/c1
_asin_acos_kernel: operand:c* -> c* ; same/c1
digamma erf erf_inv erfc lgamma: operand:f* -> f* ; same/c1
is_inf is_neg_inf is_pos_inf: operand:f* -> p* ; shape/c1
next_after polygamma zeta: x:f* y:f* -> f* ; same/c1
mulhi: lhs:i rhs:i -> i ; same/c1
broadcast_add broadcast_maximum broadcast_minimum: lhs:A* rhs:A* broadcast_dimensions=ints? -> A* ; \
elements/c1
broadcast_atan2 broadcast_divide broadcast_multiply broadcast_next_after broadcast_polygamma broadcast_power \
broadcast_remainder broadcast_shift_left broadcast_shift_right_arithmetic broadcast_shift_right_logical \
broadcast_subtract: lhs:A* rhs:A* broadcast_dimensions=ints? -> A* ; alike/c1
broadcast_zeta: lhs:f* rhs:f* broadcast_dimensions=ints? -> f* ; alike/c1
broadcast_and broadcast_or broadcast_xor: lhs:pi* rhs:pi* broadcast_dimensions=ints? -> A* ; elements/c1
broadcast_complex: lhs:f* rhs:f* broadcast_dimensions=ints? -> c*
broadcast_compare: lhs:A* rhs:A* broadcast_dimensions=ints? comparison_direction=comparison_direction \
compare_type=comparison_type? -> p*
broadcast_select: pred:p on_true:A* on_false:A* -> A*
constant: value=elements -> T!
constant_like: value=any operand:A* -> A* ; shape/c1
ragged_dot: lhs:A* rhs:A* group_sizes:i ragged_dot_dimension_numbers=#ragged_dot \
precision_config=precisions? -> A*
top_k: operand:A* k=i64 is_stable=bool? -> A* A*
scan: inputs...:A* inits...:A* dimension=i64>=0/c1 scan_dim_size=i64>=0? is_reverse=bool? \
is_associative=bool? body{} -> ...:A*
"""

_OTHERS = {
    "check": """
expect_almost_eq: lhs:fc* rhs:fc* tolerance=f64? -> ; pairs_equal/c1
expect_almost_eq_const: lhs:fc* value=elements tolerance=f64? ->
expect_eq: lhs:T rhs:T -> ; pairs_equal/c1
expect_eq_const: lhs:T value=elements ->
expect_close: actual:f* expected:f* -> ; pairs_equal/c1
""",
    "interpreter": """
print: operand:T ->
probe: operand:T probe_id=string -> T ; same/c1
run_parallel: inputs...:Tt infeed=array? programs=array -> ...:Tt
""",
}


@dataclass(frozen=True, slots=True)
class Value:
    """An operand or result; a variadic one stands for any number."""

    name: str
    kind: Kind
    rule: str
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class AttributeInput:
    name: str
    kind: str
    rule: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """`regions` are their number, -1 for any (at least one where `filled`)."""

    name: str
    operands: tuple[Value, ...]
    attributes: tuple[AttributeInput, ...]
    regions: int
    filled: bool
    results: tuple[Value, ...]
    agreement: tuple[tuple[str, str], ...]


_INPUT = re.compile(r"(\w+?)(\.\.\.)?(?:([:=])([^?/]+)(\?)?(?:/(c\d+))?|\{(\.\.\.|\*)?\})$")


def _declare(name: str, inputs: str, results: str, rules: str) -> Declaration:
    operands: list[Value] = []
    attributes: list[AttributeInput] = []
    regions, filled, place = 0, True, 1
    for text in inputs.split():
        found = _INPUT.match(text)
        assert found is not None, f"{name}: {text}"
        label, variadic, mark, code, optional, rule = found.groups()[:6]
        rule = rule or f"i{place}"
        place += len(STRUCTURES[code[1:]]) if mark == "=" and code.startswith("#") else 1
        if mark == ":":
            operands.append(Value(label, kind(code), rule, bool(variadic)))
        elif mark == "=":
            attributes.append(AttributeInput(label, code, rule, bool(optional)))
        else:
            regions = -1 if found[7] else regions + 1
            filled = found[7] != "*"
    outputs = [
        Value(f"result {i}", kind(code.removeprefix("...:")), "result_type", code.startswith("...:"))
        for i, code in enumerate(results.split())
    ]
    agreement = tuple([(rule, label) for rule, _, label in (word.partition("/") for word in rules.split())])
    return Declaration(
        name, tuple(operands), tuple(attributes), regions, filled, tuple(outputs), agreement
    )  # fmt: skip


def _read() -> dict[str, Declaration]:
    found: dict[str, Declaration] = {}
    for dialect, table in {"stablehlo": _STABLEHLO, "chlo": _CHLO, **_OTHERS}.items():
        for line in filter(None, table.split("\n")):
            signature, _, rules = line.partition(";")
            names, _, types = signature.partition(":")
            inputs, _, results = types.partition("->")
            for name in names.split():
                found[f"{dialect}.{name}"] = _declare(name, inputs, results, rules)
    return found


DECLARATIONS = _read()
"""Every operation that is known, by its full name."""
