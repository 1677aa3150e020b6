// RUN: hespas-opt %s --fuse | filecheck %s
// RUN: hespas-opt %s --fuse=ragged=grouped | filecheck %s --check-prefix=GROUPED
// RUN: not hespas-opt %s --fuse=ragged=sparse 2>&1 | filecheck %s --check-prefix=NAME

/// Whether rows are multiplied by every group, as by XLA's GPU compiler, or by their own.

// CHECK-NOT: ragged_dot
// CHECK: dot_general {{.*}} batching_dims = [1] x [0], contracting_dims = [2] x [1]
// GROUPED: ragged_dot
// NAME: fuse: no ragged products are called 'sparse'
func.func @main(%x: tensor<512x64xbf16>, %w: tensor<8x64x32xbf16>, %s: tensor<8xi32>) -> tensor<512x32xbf16> {
  %0 = "chlo.ragged_dot"(%x, %w, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<512x64xbf16>, tensor<8x64x32xbf16>, tensor<8xi32>) -> tensor<512x32xbf16>
  return %0 : tensor<512x32xbf16>
}
