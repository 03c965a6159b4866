"""The short form of every operation that has one, as the pieces of its text in their order.

    %   an operand                  %*  operands with commas between, maybe none
    %,  operands, each with a comma after it
    {}  a dictionary of attributes, which may be missing
    name:kind  an attribute; the kinds are those of `assembly.ATTRIBUTES`
    @types     types of operands and results; see `assembly.TYPES`
    <part>     something of its own; see `assembly.PARTS`
    (? ... ?)  pieces that may be missing, known by their first one

Anything else is a mark or word that stands there.
"""

from __future__ import annotations

_FAMILIES = {
    # One operand and a result, mostly of the same type.
    "% {} : @same": """
        stablehlo: abs cbrt ceil convert cosine count_leading_zeros exponential exponential_minus_one floor
            imag is_finite log log_plus_one logistic negate not popcnt real round_nearest_afz
            round_nearest_even rsqrt sign sine sqrt tan tanh uniform_dequantize uniform_quantize""",
    "% , % {} : @same": """
        stablehlo: add and atan2 divide maximum minimum multiply or power remainder shift_left
            shift_right_arithmetic shift_right_logical subtract xor""",
    "%* {} : @function": """
        stablehlo: bitcast_convert dynamic_pad dynamic_reshape dynamic_update_slice real_dynamic_slice
            reshape""",
    "{} : @result": "stablehlo: create_token partition_id replica_id",
    "%* {} (? : @types ?)": "stablehlo: return\n sdy: return",
    "% {} : @types -> @result": """
        chlo: acos acosh asin _asin_acos_kernel asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc
            is_inf is_neg_inf is_pos_inf lgamma sinh square tan""",
    "% , % {} : @types -> @result": "chlo: mulhi next_after polygamma zeta",
    "% , % {} : @function": """
        chlo: broadcast_add broadcast_and broadcast_atan2 broadcast_complex broadcast_divide broadcast_maximum
            broadcast_minimum broadcast_multiply broadcast_next_after broadcast_or broadcast_polygamma
            broadcast_power broadcast_remainder broadcast_shift_left broadcast_shift_right_arithmetic
            broadcast_shift_right_logical broadcast_subtract broadcast_xor broadcast_zeta""",
    "% , % {} : @first": "check: expect_eq",
    "{} value:elements @value": "chlo: constant\n sdy: constant\n arith: constant",
    "% sharding:sdy.sharding {} : @same": "sdy: reshard sharding_constraint",
}

_SINGLE = {
    "builtin.module": "<module>",
    "func.func": "<function>",
    "func.call": "callee:reference ( %* ) {} : @function",
    "func.return": "{} %* (? : @types ?)",
    "stablehlo.after_all": "%* {} : @same",
    "stablehlo.broadcast": "% , sizes = broadcast_sizes:list {} : @function",
    "stablehlo.broadcast_in_dim": "% , dims = broadcast_dimensions:list {} : @function",
    "stablehlo.cholesky": "% (? , lower = lower:bool ?) {} : @same",
    "stablehlo.clamp": "% , % , % {} : @same",
    "stablehlo.compare": "comparison_direction:enum , % , % (? , compare_type:enum.comparison_type ?)"
    " {} : @function",
    "stablehlo.complex": "% , % {} : @complex",
    "stablehlo.composite": "name:string %* (? <regions> ?) {} : @function",
    "stablehlo.concatenate": "%, dim = dimension:i64 {} : @function",
    "stablehlo.constant": "<constant>",
    "stablehlo.convolution": "( %* ) dim_numbers = <convolution> , window = { <window> } {} : @function",
    "stablehlo.custom_call": "call_target_name:symbol ( %* ) {} : @function",
    "stablehlo.dot": "% , % (? , <precision> ?) {} : @function",
    "stablehlo.dot_general": "% , % , <dot> (? , <precision> ?) {} : @function",
    "stablehlo.dynamic_broadcast_in_dim": "% , % , dims = broadcast_dimensions:list {} : @function",
    "stablehlo.dynamic_iota": "% , dim = iota_dimension:i64 {} : @function",
    "stablehlo.dynamic_slice": "% , %, sizes = slice_sizes:list {} : @function",
    "stablehlo.einsum": "% , % , config = einsum_config:string {} : @function",
    "stablehlo.fft": "% , type = fft_type:enum , length = fft_length:list {} : @function",
    "stablehlo.get_dimension_size": "% , dim = dimension:i64 {} : @function",
    "stablehlo.get_tuple_element": "% [ index:i32 ] {} : @function",
    "stablehlo.iota": "dim = iota_dimension:i64 {} : @result",
    "stablehlo.optimization_barrier": "{} <barrier>",
    "stablehlo.pad": "% , % , low = edge_padding_low:list , high = edge_padding_high:list ,"
    " interior = interior_padding:list {} : @function",
    "stablehlo.reduce": "<reduce>",
    "stablehlo.reduce_precision": "% , format = <format> {} : @same",
    "stablehlo.reverse": "% , dims = dimensions:list {} : @same",
    "stablehlo.rng": "% , % , % , distribution = rng_distribution:enum {} : @function",
    "stablehlo.rng_bit_generator": "% , algorithm = rng_algorithm:enum {} : @function",
    "stablehlo.select": "%* {} : @select",
    "stablehlo.set_dimension_size": "% , % , dim = dimension:i64 {} : @function",
    "stablehlo.slice": "% <slice> {} : @function",
    "stablehlo.transpose": "% , dims = permutation:list {} : @function",
    "stablehlo.tuple": "%* {} : @tuple",
    "stablehlo.unary_einsum": "% , config = einsum_config:string {} : @function",
    "stablehlo.while": "<while>",
    "chlo.broadcast_select": "% , % , % {} : @function",
    "chlo.scan": "( <scan>",
    "chlo.top_k": "( % , k = k:i64 (? , is_stable = is_stable:bool ?) ) {} : @types -> @results",
    "check.expect_almost_eq": "% , % (? , tolerance = tolerance:f64 ?) {} : @first",
    "check.expect_almost_eq_const": "% , value:elements (? , tolerance = tolerance:f64 ?) {} @as_value",
    "check.expect_close": "% , % , max_ulp_difference = max_ulp_difference:ui64"
    " (? , min_ulp_difference = min_ulp_difference:ui64 ?) : {} @types",
    "check.expect_eq_const": "% , value:elements {} @as_value",
    "check.expect_serialized_eq": "% , probe_id = probe_id:string (? , iter = iteration:ui32 ?) {} : @types",
    "interpreter.print": "% {} : @types",
    "interpreter.probe": "% , probe_id = probe_id:string {} : @same",
    "sdy.all_gather": "gathering_axes:sdy<list_of_axis_ref_lists %"
    " out_sharding = out_sharding:sdy.sharding {} : @same",
    "sdy.all_reduce": "reduction_axes:sdy<axis_ref_list %"
    " out_sharding = out_sharding:sdy.sharding {} : @same",
    "sdy.data_flow_edge": "% (? sharding = sharding:sdy.sharding ?) {} : @same",
    "sdy.manual_computation": "( %* ) in_shardings = in_shardings:sdy.sharding_per_value"
    " out_shardings = out_shardings:sdy.sharding_per_value manual_axes = manual_axes:sdy<manual_axes"
    " <body> {} : @function",
    "sdy.mesh": "sym_name:symbol = mesh:sdy.mesh {}",
    "sdy.named_computation": "< name:string > ( %* ) (? in_shardings = in_shardings:sdy.sharding_per_value ?)"
    " (? out_shardings = out_shardings:sdy.sharding_per_value ?) <body> {} : @function",
    "sdy.propagation_barrier": "% allowed_direction = allowed_direction:direction {} : @same",
    "sdy.sharding_group": "% group_id = group_id:i64 {} : @types",
}


def _expand() -> dict[str, str]:
    forms = dict(_SINGLE)
    for form, families in _FAMILIES.items():
        dialect = ""
        for word in families.split():
            if word.endswith(":"):
                dialect = word[:-1]
            else:
                forms[f"{dialect}.{word}"] = form
    return forms


FORMS: dict[str, str] = _expand()

SHORT_NAMES = {"module": "builtin.module", "call": "func.call", "return": "func.return", "func": "func.func"}
"""Names that may leave out their dialect."""

COMMUTATIVE = frozenset(
    f"stablehlo.{name}" for name in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
)
"""Operations that may stand after `applies` in a reduce."""
