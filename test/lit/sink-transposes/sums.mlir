// RUN: hespas-opt %s --sink-transposes --split-input-file | filecheck %s

/// Sums have an order in memory like products: what follows them keeps it.

// CHECK: %[[S:.*]] = stablehlo.reduce(%arg0
// CHECK-NOT: stablehlo.transpose
// CHECK: %[[E:.*]] = stablehlo.exponential %[[S]] : tensor<8x64x16xf32>
// CHECK: stablehlo.reduce(%[[E]] {{.*}} dimensions = [1]
func.func @main(%x: tensor<8x64x16x128xf32>) -> tensor<8x16xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<8x64x16x128xf32>, tensor<f32>) -> tensor<8x64x16xf32>
  %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<8x64x16xf32>) -> tensor<8x16x64xf32>
  %2 = stablehlo.exponential %1 : tensor<8x16x64xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xf32>, tensor<f32>) -> tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}

// -----

/// Their kernels write another order, if that is what the program returns.

// CHECK-LABEL: module @returned
module @returned {
  // CHECK: %[[S:.*]] = stablehlo.reduce(%arg0
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[S]]
  // CHECK: stablehlo.exponential %[[T]]
  func.func @main(%x: tensor<8x64x16x128xf32>) -> tensor<8x16x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<8x64x16x128xf32>, tensor<f32>) -> tensor<8x64x16xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<8x64x16xf32>) -> tensor<8x16x64xf32>
    %2 = stablehlo.exponential %1 : tensor<8x16x64xf32>
    return %2 : tensor<8x16x64xf32>
  }
}
