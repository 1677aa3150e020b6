// RUN: hespas-opt %s --sink-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-transposes --sink-transposes --split-input-file | filecheck %s

/// Different numbers, and what is no op of elements, are not made in another order.

// CHECK-LABEL: module @stored
module @stored {
  // CHECK: stablehlo.transpose %{{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: stablehlo.transpose
  // CHECK: stablehlo.transpose %{{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: stablehlo.transpose
  func.func @main(%q: tensor<2x4x8xf32>, %k: tensor<2x3x8xf32>) -> (tensor<2x4x3xf32>, tensor<2x4x3xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %ones = stablehlo.constant dense<1.0> : tensor<5x2x3x4xf32>
    %c = stablehlo.constant dense<[[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 8.0, 7.0, 6.0]], [[5.0, 4.0, 3.0, 2.0], [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]> : tensor<2x3x4xf32>
    %m = stablehlo.reduce(%ones init: %z) applies stablehlo.add across dimensions = [0] : (tensor<5x2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x3x8xf32>) -> tensor<2x4x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
    %2 = stablehlo.add %1, %c : tensor<2x3x4xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
    %4 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x3x8xf32>) -> tensor<2x4x3xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
    %6 = stablehlo.add %5, %m : tensor<2x3x4xf32>
    %7 = stablehlo.transpose %6, dims = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
    return %3, %7 : tensor<2x4x3xf32>, tensor<2x4x3xf32>
  }
}

// -----

/// Positions along merged dimensions are those of no part, and there are none along a dimension of size 1.

// CHECK-LABEL: module @positions
module @positions {
  // CHECK: stablehlo.iota dim = 2 : tensor<2x16x12x32xf32>
  // CHECK: stablehlo.iota dim = 3 : tensor<2x3x4x1xf32>
  func.func @main(%q: tensor<2x16x12x8xf32>, %k: tensor<2x32x12x8xf32>, %r: tensor<2x4x8xf32>, %s: tensor<2x3x8xf32>) -> (tensor<2x16x12x32xf32>, tensor<2x3x4x1xf32>) {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x12x8xf32>, tensor<2x32x12x8xf32>) -> tensor<2x12x16x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x12x16x32xf32>) -> tensor<2x4x3x16x32xf32>
    %2 = stablehlo.transpose %1, dims = [0, 3, 2, 1, 4] : (tensor<2x4x3x16x32xf32>) -> tensor<2x16x3x4x32xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x16x3x4x32xf32>) -> tensor<2x16x12x32xf32>
    %i = stablehlo.iota dim = 2 : tensor<2x16x12x32xf32>
    %4 = stablehlo.add %3, %i : tensor<2x16x12x32xf32>
    %5 = stablehlo.dot_general %r, %s, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x3x8xf32>) -> tensor<2x4x3xf32>
    %6 = stablehlo.transpose %5, dims = [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
    %7 = stablehlo.reshape %6 : (tensor<2x3x4xf32>) -> tensor<2x3x4x1xf32>
    %j = stablehlo.iota dim = 3 : tensor<2x3x4x1xf32>
    %8 = stablehlo.add %7, %j : tensor<2x3x4x1xf32>
    return %4, %8 : tensor<2x16x12x32xf32>, tensor<2x3x4x1xf32>
  }
}

// -----

/// A slice of one dimension leaves those that are merged in their parts; what it leaves of one element has no order.

// CHECK-LABEL: module @sliced
module @sliced {
  // CHECK: stablehlo.slice %{{.*}} [0:2, 0:4, 0:3, 0:8, 0:32]
  // CHECK: stablehlo.slice %{{.*}} [0:2, 0:4, 0:3, 3:4, 0:32]
  // CHECK: stablehlo.transpose %{{.*}}, dims = [0, 3, 2, 1, 4]
  // CHECK: stablehlo.tanh %{{.*}} : tensor<2x4x3x32xf32>
  // CHECK-NEXT: stablehlo.transpose %{{.*}}, dims = [0, 2, 1, 3]
  func.func @main(%q: tensor<2x16x12x8xf32>, %k: tensor<2x32x12x8xf32>) -> (tensor<2x8x12x32xf32>, tensor<2x1x12x32xf32>) {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x12x8xf32>, tensor<2x32x12x8xf32>) -> tensor<2x12x16x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x12x16x32xf32>) -> tensor<2x4x3x16x32xf32>
    %2 = stablehlo.transpose %1, dims = [0, 3, 2, 1, 4] : (tensor<2x4x3x16x32xf32>) -> tensor<2x16x3x4x32xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x16x3x4x32xf32>) -> tensor<2x16x12x32xf32>
    %4 = stablehlo.slice %3 [0:2, 0:8, 0:12, 0:32] : (tensor<2x16x12x32xf32>) -> tensor<2x8x12x32xf32>
    %5 = stablehlo.slice %3 [0:2, 3:4, 0:12, 0:32] : (tensor<2x16x12x32xf32>) -> tensor<2x1x12x32xf32>
    %6 = stablehlo.tanh %4 : tensor<2x8x12x32xf32>
    %7 = stablehlo.tanh %5 : tensor<2x1x12x32xf32>
    return %6, %7 : tensor<2x8x12x32xf32>, tensor<2x1x12x32xf32>
  }
}

// -----

/// A transpose behind a reshape that divides a dimension of a product is not known to undo its order.

// CHECK-LABEL: module @divided
module @divided {
  // CHECK: %[[T:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 1, 3]
  // CHECK-NEXT: stablehlo.dot_general %[[T]], %arg2
  // CHECK-NEXT: stablehlo.reshape
  // CHECK-NEXT: stablehlo.transpose
  func.func @main(%q: tensor<2x16x12x8xf32>, %k: tensor<2x32x12x8xf32>, %v: tensor<2x32x12x8xf32>) -> tensor<2x4x4x12x8xf32> {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x12x8xf32>, tensor<2x32x12x8xf32>) -> tensor<2x12x16x32xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<2x12x16x32xf32>) -> tensor<2x16x12x32xf32>
    %2 = stablehlo.dot_general %1, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x16x12x32xf32>, tensor<2x32x12x8xf32>) -> tensor<2x12x16x8xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x12x16x8xf32>) -> tensor<2x12x4x4x8xf32>
    %4 = stablehlo.transpose %3, dims = [0, 2, 3, 1, 4] : (tensor<2x12x4x4x8xf32>) -> tensor<2x4x4x12x8xf32>
    return %4 : tensor<2x4x4x12x8xf32>
  }
}

// -----

/// Parts that are joined along a dimension of size 1, or of which the first has the order of its dimensions, are
/// transposed before.

// CHECK-LABEL: module @joined
module @joined {
  // CHECK: stablehlo.concatenate %{{.*}} (tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>)
  // CHECK: stablehlo.concatenate %{{.*}} (tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  func.func @main(%q: tensor<2x4x8xf32>, %k: tensor<2x3x8xf32>) -> (tensor<2x2x3x4xf32>, tensor<2x3x8xf32>) {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<2x3x8xf32>) -> tensor<2x4x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x3x4xf32>) -> tensor<2x1x3x4xf32>
    %3 = stablehlo.concatenate %2, %2, dim = 1 : (tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>) -> tensor<2x2x3x4xf32>
    %4 = stablehlo.dot_general %k, %q, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x3x8xf32>, tensor<2x4x8xf32>) -> tensor<2x3x4xf32>
    %5 = stablehlo.concatenate %4, %1, dim = 2 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
    return %3, %5 : tensor<2x2x3x4xf32>, tensor<2x3x8xf32>
  }
}
