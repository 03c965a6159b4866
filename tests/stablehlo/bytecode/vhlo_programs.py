"""Programs that together have every operation, attribute and type of VHLO that jaxlib can write."""

# ruff: noqa: E501
from __future__ import annotations

F, G = "tensor<4x8xf32>", "tensor<8x4xf32>"
UNARY = """abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate
round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh"""
BINARY = "add atan2 divide maximum minimum multiply power remainder subtract"
INTEGER = "and or xor shift_left shift_right_arithmetic shift_right_logical"
ACCURATE = """cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan
tanh"""
ADD = """({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %z = stablehlo.add %x, %y : tensor<f32>
  stablehlo.return %z : tensor<f32> })"""
GE = """({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %z = stablehlo.compare GE, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %z : tensor<i1> })"""


def function(body: str, arguments: str = "", attributes: str = "") -> str:
    return f"func.func @main({arguments}){attributes} {{\n{body}\n  return\n}}\n"


def elementwise() -> str:
    lines = [f'"stablehlo.{op}"(%f) : ({F}) -> {F}' for op in UNARY.split()]
    lines += [f'"stablehlo.{op}"(%f, %f) : ({F}, {F}) -> {F}' for op in BINARY.split()]
    lines += [
        f'"stablehlo.{op}"(%i, %i) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>'
        for op in INTEGER.split()
    ]
    lines += [
        f'"stablehlo.{op}"(%i) : (tensor<4xi32>) -> tensor<4xi32>'
        for op in ("not", "popcnt", "count_leading_zeros")
    ]
    lines += [
        f'"stablehlo.is_finite"(%f) : ({F}) -> tensor<4x8xi1>',
        '%c = "stablehlo.complex"(%s, %s) : (tensor<f32>, tensor<f32>) -> tensor<complex<f32>>',
        '"stablehlo.real"(%c) : (tensor<complex<f32>>) -> tensor<f32>',
        '"stablehlo.imag"(%c) : (tensor<complex<f32>>) -> tensor<f32>',
        f'"stablehlo.convert"(%f) : ({F}) -> tensor<4x8xbf16>',
        f'"stablehlo.bitcast_convert"(%f) : ({F}) -> tensor<4x8xi32>',
        f'"stablehlo.reduce_precision"(%f) {{exponent_bits = 5 : i32, mantissa_bits = 2 : i32}} : ({F}) -> {F}',
        f'"stablehlo.clamp"(%s, %f, %s) : (tensor<f32>, {F}, tensor<f32>) -> {F}',
        '%p = "stablehlo.compare"(%i, %i) {comparison_direction = #stablehlo<comparison_direction NE>, compare_type = '
        "#stablehlo<comparison_type SIGNED>} : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>",
        '"stablehlo.compare"(%i, %i) {comparison_direction = #stablehlo<comparison_direction EQ>} '
        ": (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>",
        '"stablehlo.select"(%p, %i, %i) : (tensor<4xi1>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>',
    ]  # fmt: skip
    return function("\n".join(lines), f"%f: {F}, %i: tensor<4xi32>, %s: tensor<f32>")


def accurate() -> str:
    kinds = (
        "atol = 1.0e-3, rtol = 2.5e-1, ulps = 3, mode = #stablehlo.result_accuracy_mode<TOLERANCE>",
        "mode = #stablehlo.result_accuracy_mode<HIGHEST>",
    )
    lines = [
        f'"stablehlo.{op}"(%f) {{result_accuracy = #stablehlo.result_accuracy<{kinds[k % 2]}>}} : ({F}) -> {F}'
        for k, op in enumerate(ACCURATE.split())
    ]
    return function("\n".join(lines), f"%f: {F}")


SHAPES = function(
    f"""
"stablehlo.broadcast"(%s) {{broadcast_sizes = array<i64: 2, 3>}} : (tensor<f32>) -> tensor<2x3xf32>
"stablehlo.broadcast_in_dim"(%f) {{broadcast_dimensions = array<i64: 0, 2>}} : ({F}) -> tensor<4x5x8xf32>
"stablehlo.reshape"(%f) : ({F}) -> tensor<32xf32>
"stablehlo.transpose"(%f) {{permutation = array<i64: 1, 0>}} : ({F}) -> {G}
"stablehlo.reverse"(%f) {{dimensions = array<i64: 1>}} : ({F}) -> {F}
"stablehlo.slice"(%f) {{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 4, 7>,
  strides = array<i64: 1, 2>}} : ({F}) -> tensor<4x3xf32>
"stablehlo.pad"(%f, %s) {{edge_padding_low = array<i64: 1, 0>, edge_padding_high = array<i64: 0, -1>,
  interior_padding = array<i64: 0, 2>}} : ({F}, tensor<f32>) -> tensor<5x21xf32>
"stablehlo.concatenate"(%f, %f) {{dimension = 1 : i64}} : ({F}, {F}) -> tensor<4x16xf32>
%i = "stablehlo.iota"() {{iota_dimension = 0 : i64}} : () -> tensor<4xi32>
"stablehlo.dynamic_slice"(%f, %n, %n) {{slice_sizes = array<i64: 2, 2>}}
  : ({F}, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
"stablehlo.dynamic_update_slice"(%f, %f, %n, %n) : ({F}, {F}, tensor<i32>, tensor<i32>) -> {F}
"stablehlo.get_dimension_size"(%f) {{dimension = 1 : i64}} : ({F}) -> tensor<i32>
"stablehlo.set_dimension_size"(%f, %n) {{dimension = 1 : i64}}
  : ({F}, tensor<i32>) -> tensor<4x?xf32, #stablehlo.bounds<?, 8>>
"stablehlo.torch_index_select"(%f, %i) {{dim = 0 : i64, batch_dims = 0 : i64}} : ({F}, tensor<4xi32>) -> {F}
"stablehlo.sort"(%f, %f) ({{ ^bb0(%x: tensor<f32>, %y: tensor<f32>, %a: tensor<f32>, %b: tensor<f32>):
  %z = stablehlo.compare GT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %z : tensor<i1> }}) {{dimension = 0 : i64, is_stable = true}} : ({F}, {F}) -> ({F}, {F})
"stablehlo.sort"(%f) {GE} : ({F}) -> {F}
"stablehlo.map"(%f, %f) {ADD} {{dimensions = array<i64: 0, 1>}} : ({F}, {F}) -> {F}
"stablehlo.reduce"(%f, %s) {ADD} {{dimensions = array<i64: 1>}} : ({F}, tensor<f32>) -> tensor<4xf32>
"stablehlo.reduce_window"(%f, %s) {ADD} {{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 1>,
  base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 3, 1>, padding = dense<[[2, 1], [0, 0]]>
  : tensor<2x2xi64>}} : ({F}, tensor<f32>) -> tensor<4x6xf32>
"stablehlo.reduce_window"(%f, %s) {ADD} {{window_dimensions = array<i64: 1, 1>}} : ({F}, tensor<f32>) -> {F}
"stablehlo.select_and_scatter"(%f, %f, %s) {GE} {ADD} {{window_dimensions = array<i64: 1, 1>}}
  : ({F}, {F}, tensor<f32>) -> {F}
""".replace("} (", "}, (").replace(f"{GE} {ADD}", f"{GE[:-1]}, {ADD[1:]}"),
    f"%f: {F}, %s: tensor<f32>, %n: tensor<i32>",
)

CONTRACTIONS = function(
    f"""
"stablehlo.dot"(%f, %g) : ({F}, {G}) -> tensor<4x4xf32>
"stablehlo.dot"(%f, %g) {{precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]}}
  : ({F}, {G}) -> tensor<4x4xf32>
"stablehlo.dot_general"(%f, %g) {{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1],
  rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>,
  #stablehlo<precision HIGHEST>]}} : ({F}, {G}) -> tensor<4x4xf32>
"stablehlo.dot_general"(%f, %f) {{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0],
  rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>}}
  : ({F}, {F}) -> tensor<4xf32>
"stablehlo.einsum"(%f, %g) {{einsum_config = "ab,bc->ac"}} : ({F}, {G}) -> tensor<4x4xf32>
"stablehlo.unary_einsum"(%f) {{einsum_config = "ab->ba"}} : ({F}) -> {G}
"stablehlo.convolution"(%i, %k) {{dimension_numbers = #stablehlo.conv<[b, 0, f, 1]x[0, 1, i, o]->[b, f, 0, 1]>,
  window_strides = array<i64: 2, 1>, padding = dense<[[1, 0], [2, 3]]> : tensor<2x2xi64>,
  lhs_dilation = array<i64: 1, 2>, rhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: true, false>,
  feature_group_count = 1 : i64, batch_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>,
  #stablehlo<precision HIGH>]}} : (tensor<1x8x2x8xf32>, tensor<2x2x2x4xf32>) -> tensor<1x4x4x19xf32>
"stablehlo.convolution"(%m, %m) {{dimension_numbers = #stablehlo.conv<[b, f]x[o, i]->[b, f]>,
  feature_group_count = 1 : i64, batch_group_count = 1 : i64, window_strides = array<i64>,
  window_reversal = array<i1>}} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
"stablehlo.cholesky"(%m) : (tensor<3x3xf32>) -> tensor<3x3xf32>
"stablehlo.cholesky"(%m) {{lower = true}} : (tensor<3x3xf32>) -> tensor<3x3xf32>
"stablehlo.triangular_solve"(%m, %m) {{left_side = true, lower = false, unit_diagonal = false,
  transpose_a = #stablehlo<transpose ADJOINT>}} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
"stablehlo.fft"(%f) {{fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 8>}}
  : ({F}) -> tensor<4x5xcomplex<f32>>
"stablehlo.batch_norm_inference"(%f, %v, %v, %v, %v) {{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}}
  : ({F}, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> {F}
"stablehlo.batch_norm_training"(%f, %v, %v) {{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}}
  : ({F}, tensor<8xf32>, tensor<8xf32>) -> ({F}, tensor<8xf32>, tensor<8xf32>)
"stablehlo.batch_norm_grad"(%f, %v, %v, %v, %f) {{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}}
  : ({F}, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, {F}) -> ({F}, tensor<8xf32>, tensor<8xf32>)
""",
    f"%f: {F}, %g: {G}, %i: tensor<1x8x2x8xf32>, %k: tensor<2x2x2x4xf32>, %m: tensor<3x3xf32>, %v: tensor<8xf32>",
)

ALGORITHM = function(
    f"""
"stablehlo.dot_general"(%f, %g) {{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1],
  rhs_contracting_dimensions = [0]>, algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32,
  rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,
  num_primitive_operations = 3, allow_imprecise_accumulation = false>}} : ({F}, {G}) -> tensor<4x4xf32>
""",
    f"%f: {F}, %g: {G}",
)


def indexing(batches: bool) -> str:
    gather, scatter = "", ""
    dims = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
    updates = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    shapes, sizes = (F, "tensor<3x1xi32>", "tensor<3x8xf32>"), "1, 8"
    if batches:
        gather = "operand_batching_dims = [0], start_indices_batching_dims = [0], "
        scatter = "input_batching_dims = [0], scatter_indices_batching_dims = [0], "
        dims = dims.replace("collapsed_slice_dims = [0], ", "").replace(
            "start_index_map = [0]", "start_index_map = [1]"
        )
        updates = updates.replace("inserted_window_dims = [0], ", "").replace(
            "_operand_dims = [0]", "_operand_dims = [1]"
        )
        shapes, sizes = (F, "tensor<4x1xi32>", "tensor<4x2xf32>"), "1, 2"
    f, i, u = shapes
    return function(
        f"""
"stablehlo.gather"(%f, %i) {{dimension_numbers = #stablehlo.gather<{gather}{dims}>, slice_sizes = array<i64: {sizes}>,
  indices_are_sorted = {"true" if batches else "false"}}} : ({f}, {i}) -> {u}
"stablehlo.dynamic_gather"(%f, %i, %l) {{dimension_numbers = #stablehlo.gather<{gather}{dims}>,
  indices_are_sorted = true}} : ({f}, {i}, tensor<2xi32>) -> {u.replace("2x", "?x").replace("8x", "?x")}
"stablehlo.scatter"(%f, %i, %u) {ADD} {{scatter_dimension_numbers = #stablehlo.scatter<{scatter}{updates}>,
  unique_indices = true}} : ({f}, {i}, {u}) -> {f}
""",
        f"%f: {f}, %i: {i}, %u: {u}, %l: tensor<2xi32>",
    )


DYNAMIC = function(
    """
"stablehlo.dynamic_broadcast_in_dim"(%d, %z) {broadcast_dimensions = array<i64: 1>}
  : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
"stablehlo.dynamic_broadcast_in_dim"(%d, %z) {broadcast_dimensions = array<i64: 1>,
  known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64>}
  : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
"stablehlo.dynamic_iota"(%z) {iota_dimension = 1 : i64} : (tensor<2xi32>) -> tensor<?x?xi32>
"stablehlo.dynamic_pad"(%d, %s, %o, %o, %o)
  : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
"stablehlo.dynamic_reshape"(%d, %z) : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
"stablehlo.real_dynamic_slice"(%d, %o, %o, %o)
  : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
"stablehlo.dynamic_conv"(%i, %k, %w) {dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
  feature_group_count = 1 : i64, batch_group_count = 1 : i64}
  : (tensor<1x8x8x2xf32>, tensor<2x2x2x4xf32>, tensor<2x2xi64>) -> tensor<1x?x?x4xf32>
""",
    "%d: tensor<?xf32>, %s: tensor<f32>, %z: tensor<2xi32>, %o: tensor<1xi32>, %i: tensor<1x8x8x2xf32>,"
    " %k: tensor<2x2x2x4xf32>, %w: tensor<2x2xi64>",
)

CONTROL = (
    function(
        f"""
%t = "stablehlo.create_token"() : () -> !stablehlo.token
%a = "stablehlo.after_all"(%t, %t) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
%in:2 = "stablehlo.infeed"(%a) {{infeed_config = "c", layout = [[1, 0]]}} : (!stablehlo.token) -> ({F}, !stablehlo.token)
"stablehlo.infeed"(%a) : (!stablehlo.token) -> (!stablehlo.token)
"stablehlo.outfeed"(%f, %a) {{outfeed_config = "o"}} : ({F}, !stablehlo.token) -> !stablehlo.token
"stablehlo.outfeed"(%a) : (!stablehlo.token) -> !stablehlo.token
"stablehlo.send"(%f, %a) {{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>,
  is_host_transfer = true}} : ({F}, !stablehlo.token) -> !stablehlo.token
"stablehlo.recv"(%a) {{channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>,
  is_host_transfer = true}} : (!stablehlo.token) -> ({F}, !stablehlo.token)
%u = "stablehlo.tuple"(%f, %a) : ({F}, !stablehlo.token) -> tuple<{F}, !stablehlo.token>
"stablehlo.get_tuple_element"(%u) {{index = 0 : i32}} : (tuple<{F}, !stablehlo.token>) -> {F}
"stablehlo.optimization_barrier"(%f, %a) : ({F}, !stablehlo.token) -> ({F}, !stablehlo.token)
"stablehlo.if"(%p) ({{ stablehlo.return %f : {F} }}, {{ stablehlo.return %f : {F} }}) : (tensor<i1>) -> {F}
"stablehlo.case"(%n) ({{ stablehlo.return }}, {{ stablehlo.return }}, {{ stablehlo.return }}) : (tensor<i32>) -> ()
"stablehlo.while"(%n, %f) ({{ ^bb0(%x: tensor<i32>, %y: {F}): stablehlo.return %p : tensor<i1> }},
  {{ ^bb0(%x: tensor<i32>, %y: {F}): stablehlo.return %x, %f : tensor<i32>, {F} }}) : (tensor<i32>, {F}) -> (tensor<i32>, {F})
%r:2 = func.call @twice(%f) : ({F}) -> ({F}, {F})
"stablehlo.rng"(%s, %s, %z) {{rng_distribution = #stablehlo<rng_distribution NORMAL>}}
  : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2x3xf32>
"stablehlo.rng_bit_generator"(%k) {{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}}
  : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
"stablehlo.custom_call"(%f, %f) {{call_target_name = "a\\22b\\FF", has_side_effect = true, backend_config = "bc\\00",
  api_version = 2 : i32, called_computations = [@twice], operand_layouts = [dense<[1, 0]> : tensor<2xindex>,
  dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases =
  [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>]}}
  : ({F}, {F}) -> {F}
"stablehlo.custom_call"() {{call_target_name = "b", backend_config = "", operand_layouts = [],
  result_layouts = [], mhlo.frontend_attributes = {{x = "y", z = {{w = [1 : i64, true, 2.5 : f64]}}}}}} : () -> ()
""",
        f"%f: {F} {{jax.buffer_donor = true}}, %p: tensor<i1>, %n: tensor<i32>, %s: tensor<f32>, %z: tensor<2xi64>,"
        " %k: tensor<2xui64>",
        ' attributes {execution_thread = "main"}',
    )
    + f'func.func private @twice(%f: {F}) -> ({F} {{jax.result_info = "r"}}, {F}) {{\n  return %f, %f : {F}, {F}\n}}\n'
)

TYPED_CONFIG = function(
    f"""
"stablehlo.custom_call"(%f) {{call_target_name = "ffi", api_version = 4 : i32, backend_config = {{a = 1 : i32,
  b = dense<[1.0, 2.0]> : tensor<2xf32>, c = "s", d = f32, e = 1.5 : f16, g = -3 : i8, h = 7 : ui16}}}} : ({F}) -> {F}
""",
    f"%f: {F}",
)


def groups(channel: str = "") -> str:
    groups = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>" + channel
    return function(
        f"""
"stablehlo.all_gather"(%f) {{all_gather_dim = 1 : i64, {groups}}} : ({F}) -> tensor<4x16xf32>
"stablehlo.all_reduce"(%f) {ADD} {{{groups}}} : ({F}) -> {F}
"stablehlo.reduce_scatter"(%f) {ADD} {{scatter_dimension = 1 : i64, {groups}}} : ({F}) -> tensor<4x4xf32>
"stablehlo.all_to_all"(%f) {{split_dimension = 1 : i64, concat_dimension = 1 : i64, split_count = 2 : i64,
  {groups.replace(", use_global_device_ids", "")}}} : ({F}) -> {F}
"stablehlo.collective_permute"(%f) {{source_target_pairs = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
  {channel.replace(", use_global_device_ids", "")}}} : ({F}) -> {F}
"stablehlo.cross-replica-sum"(%f) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : ({F}) -> {F}
"stablehlo.replica_id"() : () -> tensor<ui32>
"stablehlo.partition_id"() : () -> tensor<ui32>
""",
        f"%f: {F}",
    )


CHANNELS = ", channel_handle = #stablehlo.channel_handle<handle = 3, type = 0>, use_global_device_ids"
BROADCAST = function(
    f'"stablehlo.collective_broadcast"(%f) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : ({F}) -> {F}',
    f"%f: {F}",
)
VARIADIC = function(
    f"""
"stablehlo.all_reduce"(%f, %f) {ADD} {{replica_groups = dense<0> : tensor<1x1xi64>}} : ({F}, {F}) -> ({F}, {F})
"stablehlo.all_gather"(%f, %f) {{all_gather_dim = 1 : i64, replica_groups = dense<0> : tensor<1x1xi64>}}
  : ({F}, {F}) -> ({F}, {F})
""",
    f"%f: {F}",
)
PAIRS = function(
    """
%t = "stablehlo.create_token"() : () -> !stablehlo.token
"stablehlo.send"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
  source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (!stablehlo.token) -> !stablehlo.token
"stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
  source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (!stablehlo.token) -> !stablehlo.token
"""
)
COMPOSITE = (
    function(
        f'"stablehlo.composite"(%f) {{name = "my.op", decomposition = @d, version = 2 : i32, composite_attributes ='
        f' {{k = 3 : i64}}}} : ({F}) -> {F}\n"stablehlo.composite"(%f) {{name = "my.op", decomposition = @d}} : ({F}) -> {F}',
        f"%f: {F}",
    )
    + f"func.func private @d(%f: {F}) -> {F} {{\n  return %f : {F}\n}}\n"
)
COMPOSITE_REGIONS = COMPOSITE.replace('"stablehlo.composite"(%f)', f'"stablehlo.composite"(%f) {ADD}')
ASYNC = function(
    f"""
%a = "stablehlo.async_start"(%f) ({{ ^bb0(%x: {F}):
  %r = "stablehlo.all_gather"(%x) {{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}
    : ({F}) -> tensor<4x16xf32>
  stablehlo.return %r : tensor<4x16xf32> }}) : ({F}) -> !stablehlo.future<tensor<4x16xf32>>
"stablehlo.async_done"(%a) : (!stablehlo.future<tensor<4x16xf32>>) -> tensor<4x16xf32>
""",
    f"%f: {F}",
)
MESH = (
    """module {
"""
    + function(
        f"""
"stablehlo.all_reduce"(%f) {ADD} {{replica_groups = #stablehlo.replica_group_mesh_axes<mesh =
  #stablehlo.mesh<axes=[<name = "x", size = 2>, <name = "y", size = 4>], device_ids=dense<[7, 6, 5, 4, 3, 2, 1, 0]> : tensor<8xi64>>,
  axes = [#stablehlo.axis_ref<name = "x">, #stablehlo.axis_ref<name = "y", sub_axis_info = (1)2>]>}} : ({F}) -> {F}
""",
        f"%f: {F}",
    )
    + "}"
)
BUFFERS = function(
    """
%b = "stablehlo.custom_call"() {call_target_name = "CreateBuffer", api_version = 4 : i32} : () -> memref<4x8xf32>
%c = "stablehlo.custom_call"(%b) {call_target_name = "foo", api_version = 4 : i32, output_operand_aliases =
  [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}
  : (memref<4x8xf32>) -> memref<4x8xf32>
"""
)


def constants(types: str) -> str:
    """A splat, an array and an argument of each type."""
    lines = []
    for kind in types.split():
        one, many = ("1.5", "[0.5, 1.0, 1.5]") if kind[0] in "fb" else ("1", "[0, 1, 1]")
        if kind.startswith("complex"):
            one, many = "(1.0, -2.0)", "[(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)]"
        if kind == "f8E8M0FNU":
            one, many = "2.0", "[0.5, 1.0, 2.0]"
        if kind == "i1":
            one, many = "true", "[true, false, true]"
        if kind[0] == "i" and kind != "i1":
            many = "[0, 1, -1]"
        lines.append(f"stablehlo.constant dense<{one}> : tensor<3x{kind}>")
        lines.append(f"stablehlo.constant dense<{one}> : tensor<{kind}>")
        lines.append(f"stablehlo.constant dense<{many}> : tensor<3x{kind}>")
    return function("\n".join(lines))


FLAGS = function(
    """
stablehlo.constant dense<true> : tensor<20xi1>
stablehlo.constant dense<false> : tensor<20xi1>
stablehlo.constant dense<[true, false, true, true, false, true, true, true, true, false]> : tensor<10xi1>
stablehlo.constant dense<[[true, true], [true, false]]> : tensor<2x2xi1>
stablehlo.constant dense<[true, true, true, true, true, true, true, true]> : tensor<8xi1>
stablehlo.constant dense<> : tensor<0x3xi1>
stablehlo.constant dense<> : tensor<0xf64>
stablehlo.constant dense<(1.0, 2.0)> : tensor<3x0xcomplex<f32>>
stablehlo.constant dense<true> : tensor<1xi1>
"""
)
QUANTIZED = function(
    """
%a = "stablehlo.uniform_quantize"(%f) : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>
"stablehlo.uniform_dequantize"(%a) : (tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x3xf32>
%b = "stablehlo.uniform_quantize"(%f) : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<u8<1:200>:f32, 0.25:7>>
""",
    "%f: tensor<2x3xf32>",
)
QUANTIZED_AXIS = function(
    '"stablehlo.uniform_quantize"(%f) : (tensor<2x2xf32>) ->'
    " tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25:-4}>>",
    "%f: tensor<2x2xf32>",
)
UNRANKED = "func.func @main(%f: tensor<*xf32>) -> tensor<*xf32> {\n  return %f : tensor<*xf32>\n}\n"
LOCATIONS = """module @m attributes {mhlo.num_partitions = 1 : i32, a.b = [@x, @y::@z, index, none], a.c = 3 : index} {
func.func @main(%f: tensor<f32> loc("arg"("f.py":1:2))) {
  %0 = stablehlo.abs %f : tensor<f32> loc("file \\22quoted\\22.py":10:8)
  %1 = stablehlo.abs %0 : tensor<f32> loc(fused["a", "b"("c.py":3:4)])
  %2 = stablehlo.abs %1 : tensor<f32> loc(fused<{k = 1 : i32}>["a", unknown])
  %3 = stablehlo.abs %2 : tensor<f32> loc(callsite("f" at callsite("g" at "h.py":5:6)))
  %4 = stablehlo.abs %3 : tensor<f32> loc("f.py":1:2 to 3:4)
  return
} loc(unknown)
}
"""

# Name -> (program, the first version that can say it).
PROGRAMS = {
    "elementwise": (elementwise(), "1.4.0"),
    "accurate": (accurate(), "1.10.0"),
    "shapes": (SHAPES, "0.9.0"),
    "contractions": (CONTRACTIONS, "0.9.0"),
    "algorithm": (ALGORITHM, "1.6.0"),
    "indexing": (indexing(False), "0.9.0"),
    "indexing batches": (indexing(True), "1.1.0"),
    "dynamic": (DYNAMIC, "0.9.0"),
    "control": (CONTROL, "0.9.0"),
    "typed config": (TYPED_CONFIG, "1.3.0"),
    "collectives": (groups(), "0.9.0"),
    "channels": (groups(CHANNELS), "0.9.0"),
    "broadcast": (BROADCAST, "0.16.0"),
    "variadic": (VARIADIC, "1.5.0"),
    "pairs": (PAIRS, "1.12.0"),
    "composite": (COMPOSITE, "0.19.0"),
    "composite regions": (COMPOSITE_REGIONS, "1.14.0"),
    "async": (ASYNC, "1.15.0"),
    "mesh": (MESH, "1.16.0"),
    "buffers": (BUFFERS, "1.13.0"),
    "constants": (constants("i1 i4 i8 i16 i32 i64 ui4 ui8 ui16 ui32 ui64 bf16 f16 f32 f64 complex<f32> complex<f64>"
                            " f8E4M3FN f8E5M2"), "0.9.0"),
    "f8 fnuz": (constants("f8E4M3FNUZ f8E5M2FNUZ f8E4M3B11FNUZ"), "0.11.0"),
    "2 bits": (constants("i2 ui2"), "1.2.0"),
    "f8": (constants("f8E4M3 f8E3M4"), "1.7.0"),
    "f4 and f6": (constants("f4E2M1FN f6E2M3FN f6E3M2FN f8E8M0FNU"), "1.8.0"),
    "flags": (FLAGS, "0.9.0"),
    "quantized": (QUANTIZED, "0.9.0"),
    "quantized axis": (QUANTIZED_AXIS, "0.18.0"),
    "unranked": (UNRANKED, "0.9.0"),
    "locations": (LOCATIONS, "0.9.0"),
}  # fmt: skip
