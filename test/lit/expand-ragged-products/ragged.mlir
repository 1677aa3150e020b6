// RUN: hespas-opt %s --expand-ragged-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-ragged-products --expand-ragged-products --split-input-file | filecheck %s

/// XLA has no ragged product for GPUs: each row is multiplied by every group, whose dimension is
/// contracted (xla/service/gpu/transforms/ragged_dot_rewriter.cc).

// CHECK-LABEL: module @rows
module @rows {
  // CHECK-NOT: ragged_dot
  // CHECK: dot_general {{.*}} contracting_dims = [0, 2] x [0, 1], precision = [HIGHEST, DEFAULT] : (tensor<8x512x64xbf16>, tensor<8x64x32xbf16>) -> tensor<512x32xbf16>
  // CHECK-NOT: ragged_dot
  func.func @main(%x: tensor<512x64xbf16>, %w: tensor<8x64x32xbf16>, %s: tensor<8xi32>) -> tensor<512x32xbf16> {
    %0 = "chlo.ragged_dot"(%x, %w, %s) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<512x64xbf16>, tensor<8x64x32xbf16>, tensor<8xi32>) -> tensor<512x32xbf16>
    return %0 : tensor<512x32xbf16>
  }
}

// -----

/// Where the groups divide the contracted dimension, as in the gradient of the weights, they are a
/// batch.

// CHECK-LABEL: module @contracted
module @contracted {
  // CHECK-NOT: ragged_dot
  // CHECK: dot_general {{.*}} batching_dims = [0] x [0], contracting_dims = [1] x [1]{{.*}} : (tensor<8x512x64xf32>, tensor<8x512x32xf32>) -> tensor<8x64x32xf32>
  func.func @main(%x: tensor<512x64xf32>, %g: tensor<512x32xf32>, %s: tensor<8xi32>) -> tensor<8x64x32xf32> {
    %0 = "chlo.ragged_dot"(%x, %g, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<512x64xf32>, tensor<512x32xf32>, tensor<8xi32>) -> tensor<8x64x32xf32>
    return %0 : tensor<8x64x32xf32>
  }
}

// -----

/// A batch has one group for each of its rows.

// CHECK-LABEL: module @batch
module @batch {
  // CHECK-NOT: ragged_dot
  // CHECK: dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1]{{.*}} : (tensor<16x512x64xf32>, tensor<16x64x32xf32>) -> tensor<16x512x32xf32>
  func.func @main(%x: tensor<16x512x64xf32>, %w: tensor<16x64x32xf32>, %s: tensor<4xi32>) -> tensor<16x512x32xf32> {
    %0 = "mhlo.ragged_dot"(%x, %w, %s) <{ragged_dot_dimension_numbers = #mhlo.ragged_dot<dot_dimension_numbers = #mhlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, lhs_ragged_dimensions = [0]>}> : (tensor<16x512x64xf32>, tensor<16x64x32xf32>, tensor<4xi32>) -> tensor<16x512x32xf32>
    return %0 : tensor<16x512x32xf32>
  }
}

// -----

/// The rows of a group lie between the sums of the sizes before it and with it; the others are zero.

// CHECK-LABEL: module @mask
module @mask {
  // CHECK: func.func @main(%[[X:.*]]: tensor<5x4xi8>, %[[W:.*]]: tensor<4x3x2xi8>, %[[S:.*]]: tensor<3xi64>)
  // CHECK-NEXT: %[[ROW:.*]] = stablehlo.iota dim = 0 : tensor<3x3xi64>
  // CHECK-NEXT: %[[COLUMN:.*]] = stablehlo.iota dim = 1 : tensor<3x3xi64>
  // CHECK-NEXT: %[[BEFORE:.*]] = stablehlo.compare GE, %[[ROW]], %[[COLUMN]]{{.*}} -> tensor<3x3xi1>
  // CHECK-NEXT: %[[EACH:.*]] = stablehlo.broadcast_in_dim %[[S]], dims = [1]
  // CHECK-NEXT: %[[NONE:.*]] = stablehlo.constant dense<0> : tensor<3x3xi64>
  // CHECK-NEXT: %[[ADDED:.*]] = stablehlo.select %[[BEFORE]], %[[EACH]], %[[NONE]]
  // CHECK-NEXT: %[[START:.*]] = stablehlo.constant dense<0> : tensor<i64>
  // CHECK: %[[E:.*]] = stablehlo.reduce(%[[ADDED]] init: %[[START]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xi64>, tensor<i64>) -> tensor<3xi64>
  // CHECK: %[[B:.*]] = stablehlo.subtract %[[E]], %[[S]]
  // CHECK: %[[I:.*]] = stablehlo.iota dim = 1 : tensor<3x5x4xi64>
  // CHECK: %[[BB:.*]] = stablehlo.broadcast_in_dim %[[B]], dims = [0]
  // CHECK: %[[EE:.*]] = stablehlo.broadcast_in_dim %[[E]], dims = [0]
  // CHECK: stablehlo.compare GE, %[[I]], %[[BB]]
  // CHECK: stablehlo.compare LT, %[[I]], %[[EE]]
  // CHECK: stablehlo.broadcast_in_dim %[[X]], dims = [1, 2] : (tensor<5x4xi8>) -> tensor<3x5x4xi8>
  // CHECK: %[[Z:.*]] = stablehlo.constant dense<0> : tensor<3x5x4xi8>
  // CHECK: %[[R:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[Z]]
  // CHECK: dot_general %[[R]], %[[W]], contracting_dims = [0, 2] x [1, 0]
  func.func @main(%x: tensor<5x4xi8>, %w: tensor<4x3x2xi8>, %s: tensor<3xi64>) -> tensor<5x2xi8> {
    %0 = "chlo.ragged_dot"(%x, %w, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0], rhs_group_dimensions = [1]>}> : (tensor<5x4xi8>, tensor<4x3x2xi8>, tensor<3xi64>) -> tensor<5x2xi8>
    return %0 : tensor<5x2xi8>
  }
}

// -----

/// Sizes for each of a batch are two lists or more: the op stays.

// CHECK-LABEL: module @lists
module @lists {
  // CHECK: ragged_dot
  func.func @main(%x: tensor<2x512x64xf32>, %w: tensor<8x2x64x32xf32>, %s: tensor<2x8xi32>) -> tensor<2x512x32xf32> {
    %0 = "chlo.ragged_dot"(%x, %w, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<2x512x64xf32>, tensor<8x2x64x32xf32>, tensor<2x8xi32>) -> tensor<2x512x32xf32>
    return %0 : tensor<2x512x32xf32>
  }
}

// -----

/// A batch and groups: the batch keeps its place behind the groups, also where they are contracted.

// CHECK-LABEL: module @both
module @both {
  // CHECK: stablehlo.iota dim = 2 : tensor<8x2x512x64xi32>
  // CHECK: dot_general {{.*}} batching_dims = [1] x [1], contracting_dims = [0, 3] x [0, 2]{{.*}} : (tensor<8x2x512x64xf32>, tensor<8x2x64x32xf32>) -> tensor<2x512x32xf32>
  // CHECK: dot_general {{.*}} batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2]{{.*}} : (tensor<8x2x512x64xf32>, tensor<8x2x512x32xf32>) -> tensor<8x2x64x32xf32>
  func.func @main(%x: tensor<2x512x64xf32>, %w: tensor<8x2x64x32xf32>, %g: tensor<2x512x32xf32>, %s: tensor<8xi32>) -> (tensor<2x512x32xf32>, tensor<8x2x64x32xf32>) {
    %0 = "chlo.ragged_dot"(%x, %w, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<2x512x64xf32>, tensor<8x2x64x32xf32>, tensor<8xi32>) -> tensor<2x512x32xf32>
    %1 = "chlo.ragged_dot"(%x, %g, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [1]>}> : (tensor<2x512x64xf32>, tensor<2x512x32xf32>, tensor<8xi32>) -> tensor<8x2x64x32xf32>
    return %0, %1 : tensor<2x512x32xf32>, tensor<8x2x64x32xf32>
  }
}

// -----

/// A product whose rows are stated is one of a kernel that reads these alone, which the framework has.

// CHECK-LABEL: module @stated
module @stated {
  // CHECK-NOT: dot_general
  // CHECK: ragged_dot
  func.func @main(%x: tensor<512x64xbf16>, %w: tensor<8x64x32xbf16>, %s: tensor<8xi32>) -> tensor<512x32xbf16> {
    %0 = "chlo.ragged_dot"(%x, %w, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> {mhlo.frontend_attributes = {hespas_rows = "64"}} : (tensor<512x64xbf16>, tensor<8x64x32xbf16>, tensor<8xi32>) -> tensor<512x32xbf16>
    return %0 : tensor<512x32xbf16>
  }
}
