// RUN: hespas-opt %s --calibrated-annotate="node=H100_80GB quantise" | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s --check-prefix=PLAIN

/// An 8-bit product that also quantises its left operand has constants of its own on request.

// CHECK: stablehlo.dot_general {{.*}}kernel_class = "product.f8_quantised"
// PLAIN: stablehlo.dot_general {{.*}}kernel_class = "product.f8"
func.func @main(%a: tensor<512x512xf8E4M3FN>) -> tensor<512x512xbf16> {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<512x512xf8E4M3FN>, tensor<512x512xf8E4M3FN>) -> tensor<512x512xbf16>
  return %0 : tensor<512x512xbf16>
}
