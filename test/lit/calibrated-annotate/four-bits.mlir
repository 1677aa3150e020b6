// RUN: hespas-opt %s --calibrated-annotate="node=B200_180GB quantise" | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB | filecheck %s --check-prefix=PLAIN

/// A product of 4 bits with a scale for each 16 elements has constants of its own, and others if it quantises its left
/// operand; the kernel of TransformerEngine that does so reads the operand once, and writes both copies with scales.

// CHECK: custom_call @__op$block_scaled_dot{{.*}}kernel_class = "product.f4_quantised"
// PLAIN: custom_call @nvte_compute_amax{{.*}}kernel_class = "stream.loop"{{.*}}read_bytes = 134217728
// PLAIN: custom_call @nvte_quantize{{.*}}kernel_class = "stream.loop"{{.*}}read_bytes = 134217732 : i64{{.*}} write_bytes = 75497472
// PLAIN: custom_call @__op$block_scaled_dot{{.*}}kernel_class = "product.f4"
func.func @main(%x: tensor<1x8192x8192xbf16>, %b: tensor<1x8192x8192xf4E2M1FN>, %d: tensor<1x8192x512xf8E4M3FN>, %f: tensor<f32>) -> (tensor<1x8192x8192xbf16>, tensor<1x8192x8192xf4E2M1FN>, tensor<1x8192x512xf8E4M3FN>) {
  %m = stablehlo.custom_call @nvte_compute_amax(%x) : (tensor<1x8192x8192xbf16>) -> tensor<f32>
  %q:4 = stablehlo.custom_call @nvte_quantize(%x, %m) : (tensor<1x8192x8192xbf16>, tensor<f32>) -> (tensor<1x8192x8192xf4E2M1FN>, tensor<1x8192x512xf8E4M3FN>, tensor<1x8192x8192xf4E2M1FN>, tensor<1x8192x512xf8E4M3FN>)
  %0 = stablehlo.custom_call @__op$block_scaled_dot(%q#0, %b, %q#1, %d, %f) : (tensor<1x8192x8192xf4E2M1FN>, tensor<1x8192x8192xf4E2M1FN>, tensor<1x8192x512xf8E4M3FN>, tensor<1x8192x512xf8E4M3FN>, tensor<f32>) -> tensor<1x8192x8192xbf16>
  return %0, %q#2, %q#3 : tensor<1x8192x8192xbf16>, tensor<1x8192x8192xf4E2M1FN>, tensor<1x8192x512xf8E4M3FN>
}
