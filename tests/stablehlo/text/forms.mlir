// One section for each operation whose short form is its own: its name, then lines that use the arguments of
// `ARGUMENTS` in test_forms.py.

// stablehlo.after_all
%0 = stablehlo.after_all %t, %t : !stablehlo.token

// stablehlo.bitcast_convert
%0 = stablehlo.bitcast_convert %a : (tensor<4x4xf32>) -> tensor<4x4xi32>

// stablehlo.broadcast
%0 = stablehlo.broadcast %s, sizes = [4, 4] : (tensor<f32>) -> tensor<4x4xf32>

// stablehlo.broadcast_in_dim
%0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4x4xf32>

// stablehlo.cholesky
%0 = stablehlo.cholesky %a, lower = true {x.y = 1} : tensor<4x4xf32>

// stablehlo.clamp
%0 = stablehlo.clamp %s, %a, %s : (tensor<f32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>

// stablehlo.compare
%0 = stablehlo.compare LE, %a, %b, TOTALORDER : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>

// stablehlo.complex
%0 = stablehlo.complex %a, %b : tensor<4x4xcomplex<f32>>

// stablehlo.composite
%0 = stablehlo.composite "my.op" %a {composite_attributes = {k = 1 : i32}, decomposition = @other, version
    = 2 : i32} : (tensor<4x4xf32>) -> tensor<4x4xf32>

// stablehlo.concatenate
%0 = stablehlo.concatenate %a, %b, dim = 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>

// stablehlo.constant
%0 = stablehlo.constant {x.y = "z"} dense<1.5> : tensor<4x4xf32>
%1 = stablehlo.constant() <{value = dense<2.0> : tensor<4x4xf32>}> : () -> tensor<4x4xf32>

// stablehlo.convolution
%0 = stablehlo.convolution(%w, %v) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride
    = [2, 1], pad = [[0, 1], [-1, 1]], lhs_dilate = [1, 2], rhs_dilate = [1, 1], reverse = [false, true]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision
    HIGH>, #stablehlo<precision DEFAULT>]} : (tensor<1x4x4x1xf32>, tensor<2x2x1x3xf32>) -> tensor<1x2x6x3xf32>

// stablehlo.create_token
%0 = stablehlo.create_token : !stablehlo.token

// stablehlo.custom_call
%0:2 = stablehlo.custom_call @"a b"(%a, %b) {api_version = 4 : i32, backend_config = {a = 1 : i32},
    called_computations = [@other], has_side_effect = true, operand_layouts = [dense<[0, 1]> :
    tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>], output_operand_aliases =
    [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices =
    []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} :
    (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<f32>)

// stablehlo.dot
%0 = stablehlo.dot %a, %b, precision = [HIGH, HIGHEST] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>

// stablehlo.dot_general
%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) ->
    tensor<4x4xf32>
%1 = stablehlo.dot_general %a, %b, batching_dims = [0] x [1], contracting_dims = [1] x [0],
precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32,
accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,
allow_imprecise_accumulation = false> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4xf32>
%2 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32,
rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,
num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x4xf32>, tensor<4x4xf32>) ->
tensor<4x4xf32>

// stablehlo.dynamic_broadcast_in_dim
%0 = stablehlo.dynamic_broadcast_in_dim %s, %sh, dims = [] {known_expanding_dimensions = array<i64>} :
    (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>

// stablehlo.dynamic_iota
%0 = stablehlo.dynamic_iota %sh, dim = 1 : (tensor<2xi64>) -> tensor<?x?xf32>

// stablehlo.dynamic_pad
%0 = stablehlo.dynamic_pad %a, %s, %sh, %sh, %sh : (tensor<4x4xf32>, tensor<f32>, tensor<2xi64>,
    tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>

// stablehlo.dynamic_reshape
%0 = stablehlo.dynamic_reshape %a, %sh : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>

// stablehlo.dynamic_slice
%0 = stablehlo.dynamic_slice %a, %n, %n, sizes = [1, 2] : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) ->
    tensor<1x2xf32>

// stablehlo.dynamic_update_slice
%0 = stablehlo.dynamic_update_slice %a, %b, %n, %n : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>,
    tensor<i32>) -> tensor<4x4xf32>

// stablehlo.einsum
%0 = stablehlo.einsum %a, %b, config = "ab,bc->ac" : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>

// stablehlo.unary_einsum
%0 = stablehlo.unary_einsum %a, config = "ab->ba" : (tensor<4x4xf32>) -> tensor<4x4xf32>

// stablehlo.fft
%0 = stablehlo.fft %c, type = IFFT, length = [4] : (tensor<4x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>

// stablehlo.get_dimension_size
%0 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<4x4xf32>) -> tensor<i32>

// stablehlo.get_tuple_element
%0 = stablehlo.get_tuple_element %u[1] : (tuple<tensor<f32>, tensor<i32>>) -> tensor<i32>

// stablehlo.iota
%0 = stablehlo.iota dim = 0 : tensor<4x4xui8>

// stablehlo.optimization_barrier
%0:2 = stablehlo.optimization_barrier %a, %i : tensor<4x4xf32>, tensor<4x4xi32>
stablehlo.optimization_barrier ()

// stablehlo.pad
%0 = stablehlo.pad %a, %s, low = [1, -1], high = [0, 0], interior = [0, 2] : (tensor<4x4xf32>, tensor<f32>)
    -> tensor<5x9xf32>

// stablehlo.partition_id
%0 = stablehlo.partition_id : tensor<ui32>

// stablehlo.replica_id
%0 = stablehlo.replica_id : tensor<ui32>

// stablehlo.real_dynamic_slice
%0 = stablehlo.real_dynamic_slice %a, %sh, %sh, %sh : (tensor<4x4xf32>, tensor<2xi64>, tensor<2xi64>,
    tensor<2xi64>) -> tensor<?x?xf32>

// stablehlo.reduce
%0 = stablehlo.reduce(%a init: %s) applies stablehlo.maximum across dimensions = [0] {x.y = 1} :
(tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
%1:2 = stablehlo.reduce(%a init: %s), (%i init: %n) across dimensions = [1, 0] :
(tensor<4x4xf32>, tensor<4x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
reducer(%x: tensor<f32>, %y: tensor<f32>) (%m: tensor<i32>, %l: tensor<i32>) {
%2 = stablehlo.add %x, %y : tensor<f32>
stablehlo.return %2, %l : tensor<f32>, tensor<i32>
}

// stablehlo.reduce_precision
%0 = stablehlo.reduce_precision %a, format = e5m10 : tensor<4x4xf32>

// stablehlo.reshape
%0 = stablehlo.reshape %a : (tensor<4x4xf32>) -> tensor<16xf32>

// stablehlo.return
%0 = "stablehlo.if"(%q) ({
stablehlo.return %a : tensor<4x4xf32>
}, {
stablehlo.return %b {x.y} : tensor<4x4xf32>
}) : (tensor<i1>) -> tensor<4x4xf32>
"stablehlo.if"(%q) ({
stablehlo.return
}, {
stablehlo.return
}) : (tensor<i1>) -> ()

// stablehlo.reverse
%0 = stablehlo.reverse %a, dims = [1] : tensor<4x4xf32>

// stablehlo.rng
%0 = stablehlo.rng %s, %s, %sh, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<2xi64>) ->
    tensor<?x?xf32>

// stablehlo.rng_bit_generator
%0:2 = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>,
    tensor<4xui32>)

// stablehlo.select
%0 = stablehlo.select %p, %a, %b : tensor<4x4xi1>, tensor<4x4xf32>
%1 = stablehlo.select %p, %a, %b : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>

// stablehlo.set_dimension_size
%0 = stablehlo.set_dimension_size %a, %n, dim = 0 : (tensor<4x4xf32>, tensor<i32>) -> tensor<?x4xf32,
    #stablehlo.bounds<4, ?>>

// stablehlo.slice
%0 = stablehlo.slice %a [0:2, 1:4:2] : (tensor<4x4xf32>) -> tensor<2x2xf32>

// stablehlo.transpose
%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>

// stablehlo.tuple
%0 = stablehlo.tuple %a, %n : tuple<tensor<4x4xf32>, tensor<i32>>

// stablehlo.while
%0:2 = stablehlo.while(%x = %n, %y = %a) : tensor<i32>, tensor<4x4xf32> attributes {x.y = 1}
cond {
%1 = stablehlo.compare LT, %x, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
stablehlo.return %1 : tensor<i1>
} do {
stablehlo.return %x, %y : tensor<i32>, tensor<4x4xf32>
}
stablehlo.while() cond {
stablehlo.return %q : tensor<i1>
} do {
stablehlo.return
}

// chlo.broadcast_select
%0 = chlo.broadcast_select %q, %a, %b : (tensor<i1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>

// chlo.broadcast_complex
%0 = chlo.broadcast_complex %a, %s : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xcomplex<f32>>

// chlo.constant
%0 = chlo.constant dense<1> : tensor<2xi32>

// chlo.conj
%0 = chlo.conj %c : tensor<4x4xcomplex<f32>> -> tensor<4x4xcomplex<f32>>

// chlo.scan
%z = stablehlo.iota dim = 0 : tensor<4xf32>
%0:2 = chlo.scan(%z) inits (%s) dimension=0 attributes {is_reverse = true} {
^bb0(%x: tensor<f32>, %y: tensor<f32>):
stablehlo.return %x, %y : tensor<f32>, tensor<f32>
} : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)

// chlo.top_k
%0:2 = chlo.top_k(%a, k = 2) : tensor<4x4xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)

// arith.constant
%0 = arith.constant dense<1> : tensor<2xi32>
%1 = arith.constant 3 : i32
%2 = arith.constant true

// sdy.constant
%0 = sdy.constant dense<1.0> : tensor<4x4xf32>

// sdy.reshard
%0 = sdy.reshard %a <@mesh, [{"x"}, {}]> : tensor<4x4xf32>

// sdy.sharding_constraint
%0 = sdy.sharding_constraint %a <@mesh,[{"x"},{?}], replicated={"y"}> : tensor<4x4xf32>

// sdy.all_gather
%0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<4x4xf32>
%1 = sdy.all_gather [{"x"}, {}] %0 out_sharding=<@mesh, [{}, {}]> : tensor<4x4xf32>

// sdy.all_reduce
%0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<4x4xf32>
%1 = sdy.all_reduce {"y"} %0 out_sharding=<@mesh, [{"x"}, {}]> : tensor<4x4xf32>

// sdy.data_flow_edge
%0 = sdy.data_flow_edge %a sharding=<@mesh, [{"x"}, {}]> : tensor<4x4xf32>

// sdy.propagation_barrier
%0 = sdy.propagation_barrier %a allowed_direction=FORWARD : tensor<4x4xf32>

// sdy.sharding_group
sdy.sharding_group %a group_id=1 : tensor<4x4xf32>

// sdy.manual_computation
%0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
    manual_axes={"x"} (%x: tensor<2x4xf32>) {
sdy.return %x : tensor<2x4xf32>
} {x.y = 1} : (tensor<4x4xf32>) -> tensor<4x4xf32>

// sdy.named_computation
%0 = sdy.named_computation<"f">(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}, {}]>]
    (%x: tensor<4x4xf32>) {
sdy.return %x : tensor<4x4xf32>
} : (tensor<4x4xf32>) -> tensor<4x4xf32>
%1 = sdy.named_computation<"g">(%a) (%x: tensor<4x4xf32>) {
sdy.return %x : tensor<4x4xf32>
} : (tensor<4x4xf32>) -> tensor<4x4xf32>

// func.call
%0 = func.call @other(%a) {x.y = 1} : (tensor<4x4xf32>) -> tensor<4x4xf32>
%1 = call @other(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
