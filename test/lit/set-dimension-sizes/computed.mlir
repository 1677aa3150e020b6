// RUN: not hespas-opt %s --set-dimension-sizes 2>&1 | filecheck %s
// RUN: not hespas-opt %s --set-dimension-sizes=dims=b=2 2>&1 | filecheck %s --check-prefix=NAME

/// Sizes that the program computes are not set.

// CHECK: computed.mlir:11:10: error: the module does not allow these sizes: 'stablehlo.dynamic_broadcast_in_dim' op has dynamic shapes; no argument has symbolic dimensions, so sizes are computed while the program runs: export it with static shapes, or with their bounds (#stablehlo.bounds)
// NAME: error: prepare: no dimension is named 'b'; no argument has symbolic dimensions
module {
  func.func public @main(%n: tensor<1xi32>) -> tensor<?xf32> {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.dynamic_broadcast_in_dim %0, %n, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}
