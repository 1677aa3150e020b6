// RUN: hespas-opt %s --check-input 2>&1 | filecheck %s
// RUN: hespas-opt %s --check-input --check-input 2>&1 | filecheck %s

/// An attention that a framework marks is estimated by its ops, with a warning for each name, in both
/// dialects; other composites go without a word.

// CHECK: warning: the composite 'acme.scaled_dot_product_attention' (2 times) is estimated by the ops of its decomposition
// CHECK-NEXT: warning: the composite 'acme.SDPA' (1 times)
// CHECK-NEXT: warning: the composite 'acme.fmha' (1 times)
// CHECK-NEXT: warning: the composite 'acme.flash_attn' (1 times)
// CHECK-NOT: warning
// CHECK-COUNT-6: composite "acme.
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "acme.scaled_dot_product_attention" %x {decomposition = @tanh} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.composite "acme.gelu" %0 {decomposition = @tanh} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.composite "acme.scaled_dot_product_attention" %1 {decomposition = @tanh} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = stablehlo.composite "acme.SDPA" %2 {decomposition = @tanh} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = stablehlo.composite "acme.fmha" %3 {decomposition = @tanh} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = "mhlo.composite"(%4) {name = "acme.flash_attn", decomposition = @tanh} : (tensor<4xf32>) -> tensor<4xf32>
  return %5 : tensor<4xf32>
}
func.func private @tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
