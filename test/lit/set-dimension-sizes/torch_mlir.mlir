// RUN: hespas-opt %s --set-dimension-sizes=dims=arg0=16x64 | filecheck %s

/// torch-mlir writes sizes as ops of shape and constants of arith, which the propagation of sizes
/// does not know. The constants become StableHLO's also where all shapes are static.

// CHECK-LABEL: func.func @main(%arg0: tensor<16x64xf32>) -> tensor<16x32xf32>
// CHECK-NOT: arith.constant
// CHECK-NOT: shape.shape_of
// CHECK: stablehlo.broadcast_in_dim {{.*}} -> tensor<16x32xf32>
// CHECK-NOT: dynamic
func.func @main(%arg0: tensor<?x64xf32>) -> tensor<?x32xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<64x32xf32>
  %bias = stablehlo.constant dense<2.0> : tensor<32xf32>
  %one = arith.constant dense<1> : tensor<1xi64>
  %0 = shape.const_shape [32] : tensor<1xindex>
  %1 = stablehlo.dot_general %arg0, %w, contracting_dims = [1] x [0]
    : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  %2 = stablehlo.convert %one : (tensor<1xi64>) -> tensor<1xf32>
  %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
  %4 = shape.shape_of %1 : tensor<?x32xf32> -> tensor<2xindex>
  %5 = stablehlo.dynamic_broadcast_in_dim %3, %4, dims = []
    : (tensor<f32>, tensor<2xindex>) -> tensor<?x32xf32>
  %6 = stablehlo.multiply %1, %5 : tensor<?x32xf32>
  %7 = shape.broadcast %4, %0 : tensor<2xindex>, tensor<1xindex> -> tensor<2xindex>
  %8 = stablehlo.dynamic_broadcast_in_dim %bias, %7, dims = [1]
    : (tensor<32xf32>, tensor<2xindex>) -> tensor<?x32xf32>
  %9 = stablehlo.add %6, %8 : tensor<?x32xf32>
  return %9 : tensor<?x32xf32>
}
