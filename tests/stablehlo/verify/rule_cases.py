"""One small program for each rule: what breaks it.

    label | operation | operand types | attributes | regions | result types

Types stand without `tensor<>`; `!` before one keeps it as it is. Regions are names of REGIONS, with a type
after `:` where they are about others than f32.
"""

from __future__ import annotations

CASES = """
abs_i1 | abs | 2xui8 | | | 2xui8
abs_c1 | abs | 2xf32 | | | 3xf32
abs_c2 | abs | 2xcomplex<f32> | | | 2xf64
abs_operands | abs | 2xf32, 2xf32 | | | 2xf32
abs_results | abs | 2xf32 | | | 2xf32, 2xf32
add_c1 | add | 2xf32, 2xi32 | | | 2xf32
add_c1 | add | ?xf32, 2xf32 | | | 3xf32
add_c2 | add | 2x{QA}, 2x{QA} | | | 2xf32
add_c3 | add | 2x{QA}, 2x!quant.uniform<i4:f32, 0.5> | | | 2x{QA}
add_c4 | add | 2x{QA}, 2x!quant.uniform<i8:f16, 0.5> | | | 2x{QA}
add_c5 | add | 2x{QX}, 2x{QA} | | | 2x{QA}
add_c6 | add | 2x2x{QX}, 2x2x{QA} | | | 2x2x{QY}
add_c7 | add | 2x2x{QA}, 2x2x{QX} | | | 2x2x{QY}
add_i1 | add | 2xi10, 2xi10 | | | 2xi10
add_i1 | add | 2x!quant.uniform<i8:f32, 0.5:200>, 2xf32 | | | 2xf32
and_i1 | and | 2xf32, 2xf32 | | | 2xf32
atan2_c1 | atan2 | 2xf32, 2xf32 | | | 2xf64
cbrt_c1 | cbrt | 2xf32 | | | 3xf32
result_accuracy | cbrt | 2xf32 | result_accuracy = #stablehlo.result_accuracy<atol = 1.0, mode = \
#stablehlo.result_accuracy_mode<HIGHEST>> | | 2xf32
result_accuracy | sine | 2xf32 | result_accuracy = #stablehlo.result_accuracy<ulps = -1, mode = \
#stablehlo.result_accuracy_mode<TOLERANCE>> | | 2xf32
convert_c1 | convert | 2xf32 | | | 3xi32
clamp_c1 | clamp | 3xf32, 2xf32, f32 | | | 2xf32
clamp_c2 | clamp | f32, 2xf32, 3xf32 | | | 2xf32
clamp_c3 | clamp | f32, 2xf32, f64 | | | 2xf32
clamp_c4 | clamp | f32, 2xf32, f32 | | | 3xf32
compare_c1 | compare | 2xf32, 2xf64 | comparison_direction = #stablehlo<comparison_direction LT> | | 2xi1
compare_c2 | compare | 2xf32, 2xf32 | comparison_direction = #stablehlo<comparison_direction LT> | | 3xi1
compare_i3 | compare | 2xf32, 2xf32 | | | 2xi1
complex_c1 | complex | 2xf32, 2xf64 | | | 2xcomplex<f32>
complex_c3 | complex | 2xf32, 2xf32 | | | 2xcomplex<f64>
imag_c2 | imag | 2xcomplex<f32> | | | 2xf64
is_finite_c1 | is_finite | 3xf32 | | | 4xi1
select_c1 | select | 2x2xi1, 2xf32, 2xf32 | | | 2xf32
select_c2 | select | i1, 2xf32, 2xf64 | | | 2xf32
reduce_precision_c2 | reduce_precision | 2xf32 | exponent_bits = 0 : i32, mantissa_bits = 3 : i32 | | 2xf32
reduce_precision_c3 | reduce_precision | 2xf32 | exponent_bits = 1 : i32, mantissa_bits = -3 : i32 | | 2xf32
uniform_quantize_c1 | uniform_quantize | 2xf32 | | | 3x{QA}
uniform_quantize_c2 | uniform_quantize | 2xf64 | | | 2x{QA}
uniform_dequantize_c2 | uniform_dequantize | 2x{QA} | | | 2xf16
uniform_dequantize_i1 | uniform_dequantize | 3x{QX} | | | 3xf32
quantized_type_c5 | abs | 2x!quant.uniform<i8:f32, -1.0> | | | 2xf32
quantized_type_c6 | abs | 2x!quant.uniform<i8:f16, 1.0e9> | | | 2xf32
constant_c1 | constant | | value = dense<1> : tensor<i32> | | 3xi32
constant_i1 | constant | | | | 3xi32
iota_c1 | iota | | iota_dimension = 1 : i64 | | 3xi32
iota_c1 | iota | | iota_dimension = -1 : i64 | | 3xi32
iota_result_type | iota | | iota_dimension = 0 : i64 | | ?xi32
dynamic_iota_c1 | dynamic_iota | 1xi64 | iota_dimension = 1 : i64 | | ?xi32
dynamic_iota_c2 | dynamic_iota | 2xi64 | iota_dimension = 0 : i64 | | ?xi32
rng_c1 | rng | f32, f32, 1xi64 | rng_distribution = #stablehlo<rng_distribution UNIFORM> | | ?xf64
rng_c2 | rng | i32, i32, 1xi64 | rng_distribution = #stablehlo<rng_distribution NORMAL> | | ?xi32
rng_i1 | rng | complex<f32>, f32, 1xi64 | rng_distribution = #stablehlo<rng_distribution UNIFORM> | | ?xf32
rng_bit_generator_c1 | rng_bit_generator | 2xui64 | rng_algorithm = #stablehlo<rng_algorithm DEFAULT> | \
| 3xui64, 4xui32
bitcast_convert_c1 | bitcast_convert | 2xf64 | | | 3xi64
bitcast_convert_c1 | bitcast_convert | 2xf64 | | | 2x4xf32
bitcast_convert_c1 | bitcast_convert | 2xf64 | | | 2xf32
bitcast_convert_c2 | bitcast_convert | 2xcomplex<f32> | | | 2xf64
broadcast_c1 | broadcast | 2xf32 | broadcast_sizes = array<i64: -1> | | 1x2xf32
broadcast_c2 | broadcast | 2xf32 | broadcast_sizes = array<i64: 3> | | 2x3xf32
broadcast_in_dim_c1 | broadcast_in_dim | 2xf32 | broadcast_dimensions = array<i64: 0> | | 2x3xf64
broadcast_in_dim_c2 | broadcast_in_dim | 2xf32 | broadcast_dimensions = array<i64> | | 2x3xf32
broadcast_in_dim_c3 | broadcast_in_dim | 2xf32 | broadcast_dimensions = array<i64: 2> | | 2x3xf32
broadcast_in_dim_c4 | broadcast_in_dim | 2x2xf32 | broadcast_dimensions = array<i64: 0, 0> | | 2x3xf32
broadcast_in_dim_c5 | broadcast_in_dim | 3xf32 | broadcast_dimensions = array<i64: 0> | | 2x3xf32
broadcast_in_dim_c6 | broadcast_in_dim | 2x{QX} | broadcast_dimensions = array<i64: 1> | | 2x2x{QX}
dynamic_broadcast_in_dim_c3 | dynamic_broadcast_in_dim | 2x2xf32, 1xi64 | broadcast_dimensions = \
array<i64: 0, 1> | | ?xf32
dynamic_broadcast_in_dim_c7 | dynamic_broadcast_in_dim | 2xf32, 3xi64 | broadcast_dimensions = array<i64: 0> \
| | ?x?xf32
dynamic_broadcast_in_dim_c8 | dynamic_broadcast_in_dim | 2xf32, 2xi64 | broadcast_dimensions = array<i64: \
0>, \
known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 0> | | ?x?xf32
dynamic_broadcast_in_dim_c9 | dynamic_broadcast_in_dim | 2xf32, 2xi64 | broadcast_dimensions = array<i64: \
0>, \
known_expanding_dimensions = array<i64: 1> | | ?x?xf32
dynamic_broadcast_in_dim_c10 | dynamic_broadcast_in_dim | 2xf32, 2xi64 | broadcast_dimensions = array<i64: \
0>, \
known_nonexpanding_dimensions = array<i64: -1> | | ?x?xf32
reshape_c1 | reshape | 2xf32 | | | 2xf64
reshape_c2 | reshape | 2x4xf32 | | | 3x3xf32
reshape_c3 | reshape | 2x2x{QX} | | | 2x2x{QY}
reshape_result_type | reshape | 2xf32 | | | ?xf32
dynamic_reshape_c2 | dynamic_reshape | 4xf32, 2xi64 | | | 3x3xf32
dynamic_reshape_c4 | dynamic_reshape | 4xf32, 1xi64 | | | ?x?xf32
dynamic_reshape_i2 | dynamic_reshape | 4xf32, ?xi64 | | | ?xf32
transpose_c1 | transpose | 2x3xf32 | permutation = array<i64: 1, 0> | | 3x2xf64
transpose_c2 | transpose | 2x3xf32 | permutation = array<i64: 1, 1> | | 3x2xf32
transpose_c3 | transpose | 2x3xf32 | permutation = array<i64: 1, 0> | | 2x3xf32
transpose_c4 | transpose | 2x2x{QX} | permutation = array<i64: 1, 0> | | 2x2x{QX}
reverse_c1 | reverse | 2xf32 | dimensions = array<i64: 0> | | 3xf32
reverse_c2 | reverse | 2xf32 | dimensions = array<i64: 0, 0> | | 2xf32
reverse_c3 | reverse | 2xf32 | dimensions = array<i64: 1> | | 2xf32
concatenate_c1 | concatenate | 2xf32, 2xf64 | dimension = 0 : i64 | | 4xf32
concatenate_c2 | concatenate | 2x2xf32, 2x3xf32 | dimension = 0 : i64 | | 4x2xf32
concatenate_c3 | concatenate | | dimension = 0 : i64 | | 4xf32
concatenate_c4 | concatenate | 2xf32 | dimension = 1 : i64 | | 2xf32
concatenate_c4 | concatenate | 2xf32 | dimension = -1 : i64 | | 2xf32
concatenate_c6 | concatenate | 2xf32, 2xf32 | dimension = 0 : i64 | | 5xf32
slice_c1 | slice | 4xf32 | start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = \
array<i64: 1> | | 2xf64
slice_c2 | slice | 4xf32 | start_indices = array<i64>, limit_indices = array<i64: 2>, strides = \
array<i64: 1> | | 2xf32
slice_c3 | slice | 4xf32 | start_indices = array<i64: 0>, limit_indices = array<i64: 5>, strides = \
array<i64: 1> | | 5xf32
slice_c4 | slice | 4xf32 | start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = \
array<i64: 0> | | 2xf32
slice_c5 | slice | 4xf32 | start_indices = array<i64: 0>, limit_indices = array<i64: 3>, strides = \
array<i64: 2> | | 3xf32
dynamic_slice_c1 | dynamic_slice | 4xf32, i32 | slice_sizes = array<i64: 2> | | 2xi32
dynamic_slice_c2 | dynamic_slice | 4xf32 | slice_sizes = array<i64: 2> | | 2xf32
dynamic_slice_c3 | dynamic_slice | 4x4xf32, i32, i64 | slice_sizes = array<i64: 2, 2> | | 2x2xf32
dynamic_slice_c4 | dynamic_slice | 4xf32, i32 | slice_sizes = array<i64: 5> | | 5xf32
dynamic_slice_c5 | dynamic_slice | 4xf32, i32 | slice_sizes = array<i64: 2> | | 3xf32
dynamic_slice_i2 | dynamic_slice | 4xf32, 1xi32 | slice_sizes = array<i64: 2> | | 2xf32
dynamic_update_slice_c1 | dynamic_update_slice | 4xf32, 2xf32, i32 | | | 3xf32
dynamic_update_slice_c2 | dynamic_update_slice | 4xf32, 2xf64, i32 | | | 4xf32
dynamic_update_slice_c3 | dynamic_update_slice | 4xf32, 2x2xf32, i32 | | | 4xf32
dynamic_update_slice_c4 | dynamic_update_slice | 4xf32, 2xf32 | | | 4xf32
dynamic_update_slice_c5 | dynamic_update_slice | 4x4xf32, 2x2xf32, i32, i64 | | | 4x4xf32
dynamic_update_slice_c6 | dynamic_update_slice | 4xf32, 5xf32, i32 | | | 4xf32
pad_c1 | pad | 4xf32, f64 | {PAD} | | 6xf32
pad_c2 | pad | 4x4xf32, f32 | {PAD} | | 6x4xf32
pad_c3 | pad | 4xf32, f32 | edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, \
interior_padding = array<i64: -1> | | 6xf32
pad_c4 | pad | 4xf32, f32 | {PAD} | | 7xf32
pad_i2 | pad | 4xf32, 1xf32 | {PAD} | | 6xf32
dynamic_pad_c1 | dynamic_pad | 4xf32, f64, 1xi64, 1xi64, 1xi64 | | | ?xf32
dynamic_pad_c2 | dynamic_pad | 4xf32, f32, 2xi64, 2xi64, 2xi64 | | | ?xf32
dynamic_pad_c2 | dynamic_pad | 4xf32, f32, 1xi64, 1xi32, 1xi64 | | | ?xf32
get_dimension_size_c1 | get_dimension_size | 4xf32 | dimension = 1 : i64 | | i32
get_dimension_size_result_type | get_dimension_size | 4xf32 | dimension = 0 : i64 | | i64
set_dimension_size_c1 | set_dimension_size | 4xf32, i32 | dimension = 1 : i64 | | ?xf32
set_dimension_size_i2 | set_dimension_size | 4xf32, 1xi32 | dimension = 0 : i64 | | ?xf32

dot_general_c1 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[0],[],[1],[0]} | | 2x4xf32
dot_general_c2 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[]} | | 2x4xf32
dot_general_c3 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[1],[0],[1],[1]} | | 2x4xf32
dot_general_c4 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[0],[0],[1],[0]} | | 2x4xf32
dot_general_c5 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[2],[1],[1],[0]} | | 2x4xf32
dot_general_c6 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[-1],[0]} | | 2x4xf32
dot_general_c7 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[0],[2],[1],[0]} | | 2x4xf32
dot_general_c8 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[2]} | | 2x4xf32
dot_general_c9 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[0],[1],[1],[0]} | | 2x4xf32
dot_general_c10 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[1]} | | 2x3xf32
dot_general_c11 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[0]}, precision_config = \
[#stablehlo<precision \
HIGH>, #stablehlo<precision HIGH>, #stablehlo<precision HIGH>] | | 2x4xf32
dot_general_c12 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[0]} | | 4x2xf32
dot_general_c14 | dot_general | 2x3x{QA}, 3x4x{QZ} | {DOT:[],[],[1],[0]} | | 2x4xf32
dot_general_c15 | dot_general | 2x3x{QA}, 3x4x{QA} | {DOT:[],[],[1],[0]} | | 2x4x{QA}
dot_general_c16 | dot_general | 2x2x{QA}, 2x4x{QX} | {DOT:[],[],[1],[0]} | | 2x4x{QA}
dot_general_c20 | dot_general | 2x3xf64, 3x4x{QZ} | {DOT:[],[],[1],[0]} | | 2x4xf64
dot_general_c21 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[0]}, {ALGORITHM:f32,1,1}, \
precision_config = \
[#stablehlo<precision HIGH>] | | 2x4xf32
dot_general_c22 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[0]}, {ALGORITHM:f32,0,1} | | 2x4xf32
dot_general_c24 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[0]}, {ALGORITHM:f32,1,0} | | 2x4xf32
dot_general_i8 | dot_general | 2x3xf32, 3x4xf32 | {DOT:[],[],[1],[0]}, {ALGORITHM:f16,1,3} | | 2x4xf32
dot_general_i3 | dot_general | 2x3xf32, 3x4xf32 | | | 2x4xf32
dot_c1 | dot | 2x3xf32, 4x2xf32 | | | 2x2xf32
dot_c2 | dot | 2x3xf32, 3x4xf32 | | | 2x5xf32
fft_c1 | fft | 4xf32 | {FFT:RFFT,4,4} | | 3xcomplex<f32>
fft_c2 | fft | 4xf32 | {FFT:FFT,4} | | 4xf32
fft_c3 | fft | 4x4x4x4xf32 | {FFT:RFFT,4,4,4,4} | | 4x4x4x3xcomplex<f32>
fft_c4 | fft | 5xf32 | {FFT:RFFT,4} | | 3xcomplex<f32>
fft_c5 | fft | 4xf32 | {FFT:RFFT,4} | | 4xcomplex<f32>
cholesky_c1 | cholesky | 3x3xf32 | | | 3x2xf32
cholesky_c2 | cholesky | 3xf32 | | | 3xf32
cholesky_c3 | cholesky | 2x3xf32 | | | 2x3xf32
triangular_solve_c1 | triangular_solve | 3x3xf32, 3x2xf64 | {SOLVE} | | 3x2xf32
triangular_solve_c2 | triangular_solve | 3x3xf32, 3xf32 | {SOLVE} | | 3xf32
triangular_solve_c3 | triangular_solve | 3x3xf32, 2x3xf32 | {SOLVE} | | 2x3xf32
triangular_solve_c4 | triangular_solve | 3x3xf32, 3x2xf32 | {SOLVE} | | 3x3xf32
batch_norm_grad_c1 | batch_norm_grad | 2x4xf32, 4xf32, 4xf32, 4xf32, 2x4xf32 | {NORM:2} | \
| 2x4xf32, 4xf32, 4xf32
batch_norm_grad_c2 | batch_norm_grad | 2x4xf32, 4xf64, 4xf32, 4xf32, 2x4xf32 | {NORM:1} | \
| 2x4xf32, 4xf32, 4xf32
batch_norm_grad_c3 | batch_norm_grad | 2x4xf32, 4xf32, 4xf32, 4xf32, 3x4xf32 | {NORM:1} | \
| 2x4xf32, 4xf32, 4xf32
batch_norm_grad_c5 | batch_norm_grad | 2x4xf32, 3xf32, 3xf32, 3xf32, 2x4xf32 | {NORM:1} | \
| 2x4xf32, 4xf32, 4xf32
batch_norm_inference_c4 | batch_norm_inference | 2x4xf32, 4xf32, 3xf32, 4xf32, 4xf32 | {NORM:1} | | 2x4xf32
batch_norm_inference_c7 | batch_norm_inference | 2x4xf32, 4xf32, 4xf32, 4xf32, 4xf32 | {NORM:1} | | 3x4xf32
batch_norm_training_c5 | batch_norm_training | 2x4xf32, 4xf32, 4xf32 | {NORM:1} | | 2x4xf32, 2xf32, 4xf32
convolution_c1 | convolution | 1x6x6x3xf32, 3x3x3xf32 | {CONV} | | 1x4x4x8xf32
convolution_c2 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV}, window_strides = array<i64: 1> | | \
1x4x4x8xf32
convolution_c3 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV}, window_strides = array<i64: 1, 0> | \
| 1x4x4x8xf32
convolution_c4 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV}, padding = dense<0> : tensor<3x2xi64> | \
| 1x4x4x8xf32
convolution_c5 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV}, lhs_dilation = array<i64: 1> | | 1x4x4x8xf32
convolution_c6 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV}, lhs_dilation = array<i64: 0, 1> | | \
1x4x4x8xf32
convolution_c7 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV}, rhs_dilation = array<i64: 1> | | 1x4x4x8xf32
convolution_c8 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV}, rhs_dilation = array<i64: 0, 1> | | \
1x4x4x8xf32
convolution_c9 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV}, window_reversal = array<i1: true> | \
| 1x4x4x8xf32
convolution_c14 | convolution | 1x6x6x2xf32, 3x3x3x8xf32 | {CONV} | | 1x4x4x8xf32
convolution_c25 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV} | | 1x6x6x8xf32
convolution_c27 | convolution | 1x6x6x3xf32, 3x3x3x8xf64 | {CONV} | | 1x4x4x8xf32
convolution_c28 | convolution | 1x6x6x3x{QA}, 3x3x3x8xf32 | {CONV} | | 1x4x4x8x{QA}
convolution_c10 | convolution | 3x6x6x3xf32, 3x3x3x8xf32 | {CONV:1,2} | | 1x4x4x8xf32
convolution_c11 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV:2,1} | | 1x4x4x8xf32
convolution_c15 | convolution | 3x6x6x3xf32, 3x3x3x8xf32 | {CONV:1,3} | | 1x4x4x8xf32
convolution_c16 | convolution | 1x6x6x3xf32, 3x3x1x8xf32 | {CONV:3,1} | | 1x4x4x8xf32
convolution_c21 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV:0,1} | | 1x4x4x8xf32
convolution_c22 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV:1,0} | | 1x4x4x8xf32
convolution_c23 | convolution | 1x6x6x3xf32, 3x3x3x8xf32 | {CONV:2,2} | | 1x4x4x8xf32

gather_c1 | gather | 3x4xf32, 5x1xi32 | {GATHER:[1],[],[0],1} | | 5x4xf32
gather_c2 | gather | 3x4xf32, 5x1xi32 | {GATHER:[1],[0],[0],3} | | 5x4xf32
gather_c3 | gather | 3x4xf32, 5x2xi32 | {GATHER:[1],[0],[0],1} | | 5x4xf32
gather_c5 | gather | 3x4xf32, 5x1xi32 | {GATHER:[2],[0],[0],1} | | 5x4xf32
gather_c6 | gather | 3x4xf32, 5x1xi32 | {GATHER:[],[0,0],[0],1} | | 5x4xf32
gather_c8 | gather | 3x4xf32, 5x1xi32 | {GATHER:[1],[2],[0],1} | | 5x4xf32
gather_c19 | gather | 3x4xf32, 5x1xi32 | {GATHER:[1],[0],[2],1} | | 5x4xf32
gather_c20 | gather | 3x4xf32, 5x1xi32 | {GATHER:[1],[0],[0],1}, slice_sizes = array<i64: 1> | | 5x4xf32
gather_c9 | gather | 3x4xf32, 5x1xi32 | {GATHER:[1],[0],[0],1}, slice_sizes = array<i64: 2, 4> | | 5x4xf32
gather_c21 | gather | 3x4xf32, 5x1xi32 | {GATHER:[1],[0],[0],1}, slice_sizes = array<i64: 1, 5> | | 5x4xf32
gather_c22 | gather | 3x4xf32, 5x1xi32 | {GATHER:[1],[0],[0],1} | | 4x5xf32
scatter_c1 | scatter | 3x4xf32, 3x3xf32, 5x1xi32, 5x4xf32, 5x4xf32 | {SCATTER:[1],[0],[0],1} | second2 | \
3x4xf32, 3x3xf32
scatter_c2 | scatter | 3x4xf32, 5x1xi32, 5x4xf32 | {SCATTER:[1],[],[0],1} | add | 3x4xf32
scatter_c4 | scatter | 3x4xf32, 5x1xi32, 5x5xf32 | {SCATTER:[1],[0],[0],1} | add | 3x4xf32
scatter_c4 | scatter | 3x4xf32, 5x1xi32, 6x4xf32 | {SCATTER:[1],[0],[0],1} | add | 3x4xf32
scatter_c7 | scatter | 3x4xf32, 5x1xi32, 5x4x4xf32 | {SCATTER:[1,1],[],[0],1} | add | 3x4xf32
scatter_c8 | scatter | 3x4xf32, 5x1xi32, 5x4xf32 | {SCATTER:[2],[0],[0],1} | add | 3x4xf32
scatter_c11 | scatter | 3x4xf32, 5x1xi32, 5x4xf32 | {SCATTER:[1],[2],[0],1} | add | 3x4xf32
scatter_c19 | scatter | 3x4xf32, 5x2xi32, 5x4xf32 | {SCATTER:[1],[0],[0],1} | add | 3x4xf32
scatter_c21 | scatter | 3x4xf32, 5x1xi32, 5x4xf32 | {SCATTER:[1],[0],[2],1} | add | 3x4xf32
scatter_c22 | scatter | 3x4xf32, 5x1xi32, 5x4xf32 | {SCATTER:[1],[0],[0],3} | add | 3x4xf32
scatter_c23 | scatter | 3x4xi32, 5x1xi32, 5x4xi32 | {SCATTER:[1],[0],[0],1} | add | 3x4xi32
scatter_c24 | scatter | 3x4xf32, 5x1xi32, 5x4xf32 | {SCATTER:[1],[0],[0],1} | add | 3x5xf32

reduce_c1 | reduce | 2x3xf32, 2x4xf32, f32, f32 | dimensions = array<i64: 1> | second2 | 2xf32, 2xf32
reduce_c3 | reduce | 2x3xf32, f32 | dimensions = array<i64: 1> | add | 2xf32, 2xf32
reduce_c4 | reduce | 2x3xf32, f32 | dimensions = array<i64: 2> | add | 2xf32
reduce_c5 | reduce | 2x3xf32, f32 | dimensions = array<i64: 1, 1> | add | 2xf32
reduce_c6 | reduce | 2x3xi32, i32 | dimensions = array<i64: 1> | add | 2xi32
reduce_c7 | reduce | 2x3xf32, f32 | dimensions = array<i64: 1> | add | 3xf32
reduce_c8 | reduce | 2x3xf32, f32 | dimensions = array<i64: 1> | add | 2xf64
reduce_operands | reduce | 2x3xf32, f32, f32 | dimensions = array<i64: 1> | add | 2xf32
reduce_regions | reduce | 2x3xf32, f32 | dimensions = array<i64: 1> | empty | 2xf32
reduce_regions | reduce | 2x3xf32, f32 | dimensions = array<i64: 1> | add add | 2xf32
reduce_window_c4 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 1, 2> | add | 3xf32
reduce_window_c5 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 0> | add | 3xf32
reduce_window_c6 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 2>, window_strides = \
array<i64: 1, 1> | add | 3xf32
reduce_window_c7 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 2>, window_strides = \
array<i64: -1> | add | 3xf32
reduce_window_c9 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 2>, base_dilations = \
array<i64: 0> | add | 3xf32
reduce_window_c11 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 2>, window_dilations = \
array<i64: 0> | add | 3xf32
reduce_window_c12 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 2>, padding = \
dense<0> : tensor<1x3xi64> | add | 3xf32
reduce_window_c13 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 2> | less | 3xf32
reduce_window_c15 | reduce_window | 4xf32, f32 | window_dimensions = array<i64: 2> | add | 4xf32
select_and_scatter_c2 | select_and_scatter | 4xf32, 2xf32, f32 | window_dimensions = array<i64: 2> | \
less add | 4xf32
select_and_scatter_c4 | select_and_scatter | 4xf32, 3xf32, f32 | window_dimensions = array<i64: 2, 2> | \
less add | 4xf32
select_and_scatter_c9 | select_and_scatter | 4xf32, 3xf32, f32 | window_dimensions = array<i64: 2> | \
add add | 4xf32
select_and_scatter_c10 | select_and_scatter | 4xf32, 3xf32, f32 | window_dimensions = array<i64: 2> | \
less less | 4xf32
select_and_scatter_c11 | select_and_scatter | 4xf32, 3xf32, f32 | window_dimensions = array<i64: 2> | \
less add | 5xf32
map_c3 | map | 2xf32, 2xf32 | dimensions = array<i64: 1> | add | 2xf32
map_c4 | map | 2xf32, 2xf32, 2xf32 | dimensions = array<i64: 0> | add | 2xf32
map_c4 | map | 2xf32, 2xf32 | dimensions = array<i64: 0> | add | 2xi32
sort_c2 | sort | 2xf32 | dimension = 0 : i64 | less | 2xi32
sort_c4 | sort | 2xf32 | dimension = 1 : i64 | less | 2xf32
sort_c5 | sort | 2xf32 | dimension = 0 : i64 | add | 2xf32
if_c1 | if | i1 | | add add | f32
if_c2 | if | i1 | | one one:f64 | f32
if_c3 | if | i1 | | one one | f64
if_i1 | if | 1xi1 | | one one | f32
case_c1 | case | i32 | | | f32
case_c3 | case | i32 | | one one:f64 | f32
case_i1 | case | 1xi32 | | one | f32
while_c1 | while | f32, f32 | | true add | f32, f32
while_c1 | while | f64 | | true same | f64
while_c2 | while | f32 | | true same:f64 | f32
while_c3 | while | f32 | | true same | f64
optimization_barrier_c1 | optimization_barrier | f32, i32 | | | f32, f32
tuple_c1 | tuple | f32, i32 | | | !tuple<tensor<f32>>
get_tuple_element_c1 | get_tuple_element | !tuple<tensor<f32>> | index = 1 : i32 | | f32
get_tuple_element_c2 | get_tuple_element | !tuple<tensor<f32>> | index = 0 : i32 | | i32
composite_c1 | composite | f32 | name = "nothing", decomposition = @main | | f32
composite_c2 | composite | f32 | name = "my.op", decomposition = @nowhere | | f32
composite_c3 | composite | f32, f32 | name = "my.op", decomposition = @one | | f32
composite_c4 | composite | f32 | name = "my.op", decomposition = @one | | f64
custom_call_i2 | custom_call | f32 | | | f32
custom_call_i4 | custom_call | f32 | call_target_name = "x", backend_config = \
{{a = 1 : i32}}, api_version = 1 : i32 | | f32
custom_call_layouts | custom_call | 2x2xf32 | call_target_name = "x", operand_layouts = \
[dense<[0, 1]> : tensor<2xindex>] | | f32
custom_call_layouts | custom_call | 2x2xf32 | call_target_name = "x", operand_layouts = \
[dense<[0, 2]> : tensor<2xindex>], result_layouts = [dense<> : tensor<0xindex>] | | f32
unknown_operation | nothing | f32 | | | f32

all_gather_c1 | all_gather | 2x2xf32 | all_gather_dim = 2 : i64, {GROUPS:[[0, 1]],1x2} | | 2x4xf32
all_gather_c2 | all_gather | 2x2xf32 | all_gather_dim = 1 : i64, {GROUPS:[[0, 0]],1x2} | | 2x4xf32
all_gather_c4 | all_gather | 2x2xf32 | all_gather_dim = 1 : i64, {GROUPS:[[0, 2]],1x2} | | 2x4xf32
all_gather_c6 | all_gather | 2x2xf32 | all_gather_dim = 1 : i64, {GROUPS:[[0, 1]],1x2} | | 2x5xf32
all_gather_replica_groups | all_gather | 2x2xf32 | all_gather_dim = 1 : i64, {GROUPS:[0, 1],2} | | 2x4xf32
all_reduce_c1 | all_reduce | 2xf32 | {GROUPS:[[1, 1]],1x2} | add | 2xf32
all_reduce_c3 | all_reduce | 2xf32 | {GROUPS:[[0, 3]],1x2} | add | 2xf32
all_reduce_c4 | all_reduce | 2xf32 | {GROUPS:[[0, 1]],1x2}, use_global_device_ids | add | 2xf32
all_reduce_c5 | all_reduce | 2xi32 | {GROUPS:[[0, 1]],1x2} | add | 2xi32
all_reduce_c6 | all_reduce | 2xf32 | {GROUPS:[[0, 1]],1x2} | add | 3xf32
all_to_all_c1 | all_to_all | 4x4xf32 | {A2A:2,0,2} | | 2x8xf32
all_to_all_c2 | all_to_all | 3x4xf32 | {A2A:0,1,2} | | 2x8xf32
all_to_all_c3 | all_to_all | 4x4xf32 | {A2A:0,2,2} | | 2x8xf32
all_to_all_c4 | all_to_all | 4x4xf32 | {A2A:0,1,0} | | 2x8xf32
all_to_all_c8 | all_to_all | 4x4xf32 | {A2A:0,1,4} | | 2x8xf32
all_to_all_c9 | all_to_all | 4x4xf32 | {A2A:0,1,2} | | 4x4xf32
reduce_scatter_c2 | reduce_scatter | 4xf32 | scatter_dimension = 1 : i64, {GROUPS:[[0, 1]],1x2} | add | 2xf32
reduce_scatter_c7 | reduce_scatter | 4xf32 | scatter_dimension = 0 : i64, {GROUPS:[[0, 1]],1x2} | less | 2xf32
reduce_scatter_c8 | reduce_scatter | 4xf32 | scatter_dimension = 0 : i64, {GROUPS:[[0, 1]],1x2} | add | 3xf32
reduce_scatter_c9 | reduce_scatter | 4xf32 | scatter_dimension = 0 : i64, {GROUPS:[[0, 1]],1x2} | add | 2xf64
collective_broadcast_c1 | collective_broadcast | 4xf32 | {GROUPS:[[0, 0]],1x2} | | 4xf32
collective_broadcast_c2 | collective_broadcast | 4xf32 | {GROUPS:[[0, -1]],1x2} | | 4xf32
collective_broadcast_c3 | collective_broadcast | 4xf32 | {GROUPS:[[0, 1]],1x2} | | 5xf32
collective_broadcast_c4 | collective_broadcast | 4xf32, 2xi32 | {GROUPS:[[0, 1]],1x2}, has_dynamic_root | \
| 4xf32
collective_broadcast_c5 | collective_broadcast | 4xf32, 4xf32 | {GROUPS:[[0, 1]],1x2} | | 4xf32
collective_permute_c1 | collective_permute | 4xf32 | {PAIRS:[[0, 1, 2]],1x3} | | 4xf32
collective_permute_c2 | collective_permute | 4xf32 | {PAIRS:[[0, 1], [0, 2]],2x2} | | 4xf32
collective_permute_c3 | collective_permute | 4xf32 | {PAIRS:[[0, 1], [2, 1]],2x2} | | 4xf32
collective_permute_c4 | collective_permute | 4xf32 | {PAIRS:[[0, -1]],1x2} | | 4xf32
collective_permute_c5 | collective_permute | 4xf32 | {PAIRS:[[0, 1]],1x2} | | 5xf32
send_c5 | send | f32, !!stablehlo.token | channel_handle = #stablehlo.channel_handle<handle = 1, type = 2> | \
| !!stablehlo.token
recv_c5 | recv | !!stablehlo.token | channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, \
is_host_transfer = true | | f32, !!stablehlo.token
infeed_c1 | infeed | !!stablehlo.token | infeed_config = "" | |
infeed_c2 | infeed | !!stablehlo.token | infeed_config = "" | | !!stablehlo.token, !!stablehlo.token
infeed_c3 | infeed | !!stablehlo.token | infeed_config = "" | | f32
replica_id_result_type | replica_id | | | | 1xui32
after_all_i1 | after_all | f32 | | | !!stablehlo.token
async_done_c1 | async_done | !!stablehlo.future<tensor<2xf32>> | | | 3xf32
async_start_c1 | async_start | 2xf32 | | two:2xf32 | !!stablehlo.future<tensor<2xf32>>
async_start_c2 | async_start | f32, f32 | | add | !!stablehlo.future<tensor<f32>>
bounds | abs | !tensor<?xf32, #stablehlo.bounds<2, 3>> | | | ?xf32
add_c1 | add | !tensor<?xf32, #stablehlo.bounds<4>>, !tensor<?xf32, #stablehlo.bounds<4>> | | | 5xf32

acos_i1 | chlo.acos | 2xi32 | | | 2xi32
acos_c1 | chlo.acos | 2xf32 | | | 3xf32
erf_i1 | chlo.erf | 2xcomplex<f32> | | | 2xcomplex<f32>
next_after_c1 | chlo.next_after | 2xf32, 2xf64 | | | 2xf32
broadcast_add_c1 | chlo.broadcast_add | 2xf32, 2xf64 | | | 2xf32
broadcast_add_c2 | chlo.broadcast_add | 2xf32, 3x1xf32 | | | 2x3xf32
broadcast_compare_c2 | chlo.broadcast_compare | 2xf32, 2xf32 | comparison_direction = \
#chlo<comparison_direction LT> | | 3xi1
top_k_c1 | chlo.top_k | f32 | k = 1 : i64 | | f32, i32
top_k_c2 | chlo.top_k | 2xf32 | k = 3 : i64 | | 3xf32, 3xi32
top_k_c3 | chlo.top_k | 4xf32 | k = 3 : i64 | | 4xf32, 3xi32
top_k_c4 | chlo.top_k | 4xf32 | k = 3 : i64 | | 3xf32, 3xi64
constant_like_c2 | chlo.constant_like | 2xf32 | value = 1 : i32 | | 2xf32
"""

REGIONS = {
    "add": "^b(%a: {t}, %b: {t}): %c = stablehlo.add %a, %b : {t} stablehlo.return %c : {t}",
    "less": "^b(%a: {t}, %b: {t}): %c = stablehlo.compare LT, %a, %b : ({t}, {t}) -> tensor<i1>"
    " stablehlo.return %c : tensor<i1>",
    "second2": "^b(%a: {t}, %b: {t}, %c: {t}, %d: {t}): stablehlo.return %c, %d : {t}, {t}",
    "one": "%c = stablehlo.constant dense<1.0> : {t} stablehlo.return %c : {t}",
    "two": "%c = stablehlo.constant dense<1.0> : {t} %d = stablehlo.abs %c : {t} stablehlo.return %d : {t}",
    "same": "^b(%a: {t}): stablehlo.return %a : {t}",
    "true": "^b(%a: {t}): %c = stablehlo.constant dense<true> : tensor<i1> stablehlo.return %c : tensor<i1>",
    "empty": "",
}

MACROS = {
    "QA": lambda: "!quant.uniform<i8:f32, 0.5:3>",
    "QZ": lambda: "!quant.uniform<i8:f32, 0.5>",
    "QX": lambda: "!quant.uniform<i8:f32:0, {0.5, 0.25}>",
    "QY": lambda: "!quant.uniform<i8:f32:1, {0.5, 0.25}>",
    "PAD": lambda: (
        "edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, "
        "interior_padding = array<i64: 0>"
    ),
    "DOT": lambda lb, rb, lc, rc: (
        "dot_dimension_numbers = #stablehlo.dot<"
        f"lhs_batching_dimensions = {lb}, rhs_batching_dimensions = {rb}, "
        f"lhs_contracting_dimensions = {lc}, rhs_contracting_dimensions = {rc}>"
    ),
    "ALGORITHM": lambda kind, parts, count: (
        "algorithm = #stablehlo.dot_algorithm<"
        f"lhs_precision_type = {kind}, rhs_precision_type = {kind}, accumulation_type = {kind}, "
        f"lhs_component_count = {parts}, rhs_component_count = 1, num_primitive_operations = {count}, "
        "allow_imprecise_accumulation = false>"
    ),
    "FFT": lambda kind, *sizes: (
        f"fft_type = #stablehlo<fft_type {kind}>, fft_length = array<i64: {', '.join(sizes)}>"
    ),
    "SOLVE": lambda: (
        "left_side = true, lower = true, unit_diagonal = false, "
        "transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
    ),
    "NORM": lambda at: f"epsilon = 1.0 : f32, feature_index = {at} : i64",
    "CONV": lambda features="1", batches="1": (
        "dimension_numbers = "
        "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, "
        f"feature_group_count = {features} : i64, batch_group_count = {batches} : i64"
    ),
    "GATHER": lambda offset, collapsed, index_map, at: (
        "dimension_numbers = #stablehlo.gather<"
        f"offset_dims = {offset}, collapsed_slice_dims = {collapsed}, start_index_map = {index_map}, "
        f"index_vector_dim = {at}>"
    ),
    "SCATTER": lambda window, inserted, to, at: (
        "scatter_dimension_numbers = #stablehlo.scatter<"
        f"update_window_dims = {window}, inserted_window_dims = {inserted}, "
        f"scatter_dims_to_operand_dims = {to}, index_vector_dim = {at}>"
    ),
    "GROUPS": lambda table, shape: f"replica_groups = dense<{table}> : tensor<{shape}xi64>",
    "PAIRS": lambda table, shape: f"source_target_pairs = dense<{table}> : tensor<{shape}xi64>",
    "A2A": lambda split, concat, count: (
        f"split_dimension = {split} : i64, concat_dimension = {concat} : i64, "
        f"split_count = {count} : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"
    ),
}
