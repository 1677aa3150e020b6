// RUN: hespas-opt %s --fuse --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse=ragged=grouped --split-input-file | filecheck %s --check-prefix=GROUPED
// RUN: not hespas-opt %s --fuse=ragged=sparse --split-input-file 2>&1 | filecheck %s --check-prefix=NAME

// GROUPED-COUNT-3: ragged_dot
// NAME: fuse: no ragged products are called 'sparse'

/// XLA has no ragged product for GPUs: each row is multiplied by every group, whose dimension is
/// contracted (xla/service/gpu/transforms/ragged_dot_rewriter.cc).

// CHECK-LABEL: module @rows
module @rows {
  // CHECK-NOT: ragged_dot
  // CHECK: dot_general {{.*}} contracting_dims = [0, 2] x [0, 1], precision = [HIGHEST, DEFAULT] : (tensor<8x512x64xbf16>, tensor<8x64x32xbf16>) -> tensor<512x32xbf16>
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
