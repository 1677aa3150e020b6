// RUN: hespas-opt %s --assign-orders --split-input-file | filecheck %s
// RUN: hespas-opt %s --assign-orders --assign-orders --split-input-file | filecheck %s

/// A broadcast of sums is transposed as it is: it has no order of its own.

// CHECK-LABEL: module @turned
module @turned {
  // CHECK: %[[ROWS:.*]] = stablehlo.broadcast_in_dim %{{.*}}, dims = [0, 1, 2] : (tensor<2x32x2xf32>) -> tensor<2x32x2x8xf32>
  // CHECK: %[[TURNED:.*]] = stablehlo.transpose %[[ROWS]], dims = [0, 2, 3, 1]
  // CHECK: stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: stablehlo.dot_general %{{.*}}, %[[TURNED]], batching_dims = [0, 2] x [0, 1]
  // CHECK: stablehlo.dot_general %{{.*}}, %[[TURNED]], batching_dims = [0, 1] x [0, 1]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x32x2x32xf32>, tensor<f32>) -> tensor<2x32x2xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<2x32x2xf32>) -> tensor<2x32x2x8xf32>
    %4 = stablehlo.transpose %3, dims = [0, 2, 3, 1] : (tensor<2x32x2x8xf32>) -> tensor<2x2x8x32xf32>
    %5 = stablehlo.multiply %1, %y : tensor<2x32x2x32xf32>
    %6 = stablehlo.dot_general %5, %4, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x32x2x32xf32>, tensor<2x2x8x32xf32>) -> tensor<2x2x32x8xf32>
    %7 = stablehlo.dot_general %6, %4, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x2x32x8xf32>, tensor<2x2x8x32xf32>) -> tensor<2x2x32x32xf32>
    return %7, %5 : tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>
  }
}

// -----

/// Rotated pairs are stacked along a dimension of size 1, which has no place in their order.

// CHECK-LABEL: module @stacked
module @stacked {
  // CHECK-COUNT-2: stablehlo.multiply %{{.*}} : tensor<2x2x16x32xf32>
  // CHECK: %[[A:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x2x16x32xf32>) -> tensor<2x2x16x32x1xf32>
  // CHECK: %[[B:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x2x16x32xf32>) -> tensor<2x2x16x32x1xf32>
  // CHECK: stablehlo.concatenate %[[A]], %[[B]], dim = 4
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<32x16xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %a = stablehlo.slice %1 [0:2, 0:32, 0:2, 0:16] : (tensor<2x32x2x32xf32>) -> tensor<2x32x2x16xf32>
    %b = stablehlo.slice %1 [0:2, 0:32, 0:2, 16:32] : (tensor<2x32x2x32xf32>) -> tensor<2x32x2x16xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<32x16xf32>) -> tensor<2x32x2x16xf32>
    %2 = stablehlo.multiply %a, %t : tensor<2x32x2x16xf32>
    %3 = stablehlo.multiply %b, %t : tensor<2x32x2x16xf32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2, 3] : (tensor<2x32x2x16xf32>) -> tensor<2x32x2x16x1xf32>
    %5 = stablehlo.reshape %3 : (tensor<2x32x2x16xf32>) -> tensor<2x32x2x16x1xf32>
    %6 = stablehlo.concatenate %4, %5, dim = 4 : (tensor<2x32x2x16x1xf32>, tensor<2x32x2x16x1xf32>) -> tensor<2x32x2x16x2xf32>
    %7 = stablehlo.reshape %6 : (tensor<2x32x2x16x2xf32>) -> tensor<2x32x2x32xf32>
    %8 = stablehlo.dot_general %y, %7, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %8 : tensor<2x2x32x32xf32>
  }
}

// -----

/// A broadcast is made in the order of what it is concatenated with.

// CHECK-LABEL: module @tables
module @tables {
  // CHECK: %[[TABLE:.*]] = stablehlo.transpose %arg3, dims = [1, 0] : (tensor<8x32xf32>) -> tensor<32x8xf32>
  // CHECK: %[[PART:.*]] = stablehlo.broadcast_in_dim %[[TABLE]], dims = [2, 3] : (tensor<32x8xf32>) -> tensor<2x2x32x8xf32>
  // CHECK: stablehlo.concatenate %{{.*}}, %[[PART]], dim = 3
  func.func @main(%x: tensor<48x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %p: tensor<8x32xf32>, %c: tensor<24x32xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<48x16xf32>, tensor<16x64xf32>) -> tensor<48x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<48x64xf32>) -> tensor<2x24x2x32xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<24x32xf32>) -> tensor<2x24x2x32xf32>
    %r = stablehlo.multiply %1, %t : tensor<2x24x2x32xf32>
    %b = stablehlo.broadcast_in_dim %p, dims = [1, 3] : (tensor<8x32xf32>) -> tensor<2x8x2x32xf32>
    %2 = stablehlo.concatenate %r, %b, dim = 1 : (tensor<2x24x2x32xf32>, tensor<2x8x2x32xf32>) -> tensor<2x32x2x32xf32>
    %4 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %4 : tensor<2x2x32x32xf32>
  }
}

// -----

/// A value that is padded with a number of the keys keeps its own order.

// CHECK-LABEL: module @filled
module @filled {
  // CHECK: %[[KEYS:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: %[[LEAST:.*]] = stablehlo.reduce(%[[KEYS]] init
  // CHECK: stablehlo.pad %arg2, %[[LEAST]], low = [0, 0, 0, 0], high = [0, 0, 0, 32]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<32x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2x64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<32x32xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %t : tensor<2x32x2x32xf32>
    %least = stablehlo.reduce(%2 init: %zero) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x32x2x32xf32>, tensor<f32>) -> tensor<f32>
    %3 = stablehlo.pad %y, %least, low = [0, 0, 0, 0], high = [0, 0, 0, 32], interior = [0, 0, 0, 0] : (tensor<2x32x2x32xf32>, tensor<f32>) -> tensor<2x32x2x64xf32>
    %4 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %4, %3 : tensor<2x2x32x32xf32>, tensor<2x32x2x64xf32>
  }
}
