// RUN: hespas-opt %s --set-dimension-sizes=dims=arg0=16x64 --split-input-file | filecheck %s

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

// -----

/// Sizes of tensors, their products, and shapes of these, as scalars of index or i64.

// CHECK-LABEL: func.func @sizes(%arg0: tensor<16x64xf32>) -> tensor<512x2xf32>
// CHECK-NOT: arith
// CHECK-NOT: tensor.
// CHECK: stablehlo.broadcast_in_dim {{.*}} -> tensor<16x64xf32>
// CHECK: stablehlo.reshape {{.*}} -> tensor<512x2xf32>
func.func @sizes(%arg0: tensor<?x?xf32>) -> tensor<?x2xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2 : i64
  %rows = tensor.dim %arg0, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %arg0, %c1 : tensor<?x?xf32>
  %0 = tensor.from_elements %rows, %columns : tensor<2xindex>
  %1 = stablehlo.dynamic_broadcast_in_dim %arg0, %0, dims = [0, 1] : (tensor<?x?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %2 = arith.index_cast %rows : index to i64
  %3 = arith.index_cast %columns : index to i64
  %4 = arith.muli %2, %3 : i64
  %5 = arith.divsi %4, %two : i64
  %6 = tensor.from_elements %5, %two : tensor<2xi64>
  %7 = stablehlo.dynamic_reshape %1, %6 : (tensor<?x?xf32>, tensor<2xi64>) -> tensor<?x2xf32>
  return %7 : tensor<?x2xf32>
}
