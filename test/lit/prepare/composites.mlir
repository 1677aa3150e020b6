// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s

/// An attention that a framework marks is estimated by its ops, with a warning; other composites go
/// without a word.

// CHECK: warning: the composite 'acme.scaled_dot_product_attention' (1 times) is estimated by the ops of its decomposition
// CHECK-NOT: warning
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.tanh
// CHECK-NOT: composite
func.func public @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.composite "acme.scaled_dot_product_attention" %x {decomposition = @attention} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.composite "acme.gelu" %0 {decomposition = @gelu} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
func.func private @attention(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func private @gelu(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.tanh %x : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
