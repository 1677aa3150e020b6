// RUN: hespas-opt %s --fold-transposes=hidden=false --split-input-file | filecheck %s
// RUN: hespas-opt %s --fold-transposes --split-input-file | filecheck %s --check-prefix=ALL

/// With a batch, a dimension of size 1 hides a transpose of an operand, because XLA drops it by a reshape: the products of
/// gradients of attention read it in its own order.

// CHECK-LABEL: module @batch
// ALL-LABEL: module @batch
module @batch {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK-NEXT: stablehlo.dot_general %[[T]], %arg1
  // ALL: stablehlo.dot_general %arg0, %arg1
  func.func @main(%g: tensor<8x1x64x128xf32>, %k: tensor<8x128x32xf32>) -> tensor<8x64x1x32xf32> {
    %0 = stablehlo.transpose %g, dims = [0, 3, 2, 1] : (tensor<8x1x64x128xf32>) -> tensor<8x128x64x1xf32>
    %1 = stablehlo.dot_general %0, %k, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<8x128x64x1xf32>, tensor<8x128x32xf32>) -> tensor<8x64x1x32xf32>
    return %1 : tensor<8x64x1x32xf32>
  }
}

// -----

/// Products of matrices read any order, and where only a dimension of size 1 moves no data does.

// CHECK-LABEL: module @others
// ALL-LABEL: module @others
module @others {
  // CHECK: stablehlo.dot_general %arg0, %arg1
  // CHECK: stablehlo.dot_general %arg2, %arg3
  // ALL: stablehlo.dot_general %arg0, %arg1
  func.func @main(%a: tensor<1x64x128xf32>, %b: tensor<128x32xf32>, %g: tensor<8x1x64x128xf32>, %k: tensor<8x128x32xf32>) -> (tensor<64x1x32xf32>, tensor<8x64x1x32xf32>) {
    %0 = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<1x64x128xf32>) -> tensor<128x64x1xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [0] x [0] : (tensor<128x64x1xf32>, tensor<128x32xf32>) -> tensor<64x1x32xf32>
    %2 = stablehlo.transpose %g, dims = [0, 2, 1, 3] : (tensor<8x1x64x128xf32>) -> tensor<8x64x1x128xf32>
    %3 = stablehlo.dot_general %2, %k, batching_dims = [0] x [0], contracting_dims = [3] x [1] : (tensor<8x64x1x128xf32>, tensor<8x128x32xf32>) -> tensor<8x64x1x32xf32>
    return %1, %3 : tensor<64x1x32xf32>, tensor<8x64x1x32xf32>
  }
}
