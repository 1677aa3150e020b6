// RUN: hespas-opt %s --calibrated-annotate="node=H100_80GB quantise" | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s --check-prefix=PLAIN

/// An 8-bit product that also quantises its left operand has constants of its own on request, and reads the operand
/// before it was quantised, too.

// CHECK: stablehlo.dot_general {{.*}}kernel_class = "product.f8_quantised"
// CHECK: stablehlo.dot_general {{.*}}kernel_class = "product.f8_quantised", latency_ns = 190303.48
// PLAIN: stablehlo.dot_general {{.*}}kernel_class = "product.f8"
// PLAIN: stablehlo.dot_general {{.*}}kernel_class = "product.f8", latency_ns = 27356.48
func.func @main(%a: tensor<512x512xf8E4M3FN>, %b: tensor<8192x8192xf8E4M3FN>, %c: tensor<8192x64xf8E4M3FN>) -> (tensor<512x512xbf16>, tensor<8192x64xbf16>) {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<512x512xf8E4M3FN>, tensor<512x512xf8E4M3FN>) -> tensor<512x512xbf16>
  %1 = stablehlo.dot_general %b, %c, contracting_dims = [1] x [0] : (tensor<8192x8192xf8E4M3FN>, tensor<8192x64xf8E4M3FN>) -> tensor<8192x64xbf16>
  return %0, %1 : tensor<512x512xbf16>, tensor<8192x64xbf16>
}
