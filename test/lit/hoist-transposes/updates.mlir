// RUN: hespas-opt %s --hoist-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --hoist-transposes --hoist-transposes --split-input-file | filecheck %s

/// The layouts that XLA of jaxlib 0.12 assigns for an H100 are the orders in all cases.

/// A cache is transposed before the update if a product reads it in another order, and back where it is returned.

// CHECK-LABEL: module @cache
module @cache {
  // CHECK: %[[BASE:.*]] = stablehlo.transpose %arg1, dims = [0, 2, 3, 1]
  // CHECK-NEXT: %[[PART:.*]] = stablehlo.transpose %arg2, dims = [0, 2, 3, 1]
  // CHECK-NEXT: %[[NEW:.*]] = stablehlo.dynamic_update_slice %[[BASE]], %[[PART]], %[[ZERO:.*]], %[[ZERO]], %[[ZERO]], %arg3
  // CHECK-NEXT: %[[OLD:.*]] = stablehlo.transpose %[[NEW]], dims = [0, 3, 1, 2]
  // CHECK-NEXT: stablehlo.dot_general %arg0, %[[NEW]]
  // CHECK-NEXT: return %{{.*}}, %[[OLD]]
  func.func @main(%q: tensor<2x3x4x16xf32>, %k: tensor<2x32x3x16xf32>, %n: tensor<2x1x3x16xf32>, %i: tensor<i32>) -> (tensor<2x3x4x32xf32>, tensor<2x32x3x16xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_update_slice %k, %n, %c, %i, %c, %c : (tensor<2x32x3x16xf32>, tensor<2x1x3x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x3x16xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 3, 1] : (tensor<2x32x3x16xf32>) -> tensor<2x3x16x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x4x16xf32>, tensor<2x3x16x32xf32>) -> tensor<2x3x4x32xf32>
    return %2, %0 : tensor<2x3x4x32xf32>, tensor<2x32x3x16xf32>
  }
}

// -----

/// So it is if elementwise ops lie between, as for a quantised cache.

// CHECK-LABEL: module @quantised
module @quantised {
  // CHECK: stablehlo.transpose %arg1, dims = [0, 2, 1]
  // CHECK: %[[NEW:.*]] = stablehlo.dynamic_update_slice
  // CHECK-SAME: -> tensor<2x16x32xi8>
  // CHECK: %[[WIDE:.*]] = stablehlo.convert %[[NEW]]
  // CHECK: %[[SCALED:.*]] = stablehlo.multiply %[[WIDE]]
  // CHECK-NEXT: stablehlo.dot_general %arg0, %[[SCALED]]
  func.func @main(%q: tensor<2x4x16xf32>, %k: tensor<2x32x16xi8>, %n: tensor<2x1x16xi8>, %i: tensor<i32>, %s: tensor<f32>) -> tensor<2x4x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_update_slice %k, %n, %c, %i, %c : (tensor<2x32x16xi8>, tensor<2x1x16xi8>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x16xi8>
    %w = stablehlo.convert %0 : (tensor<2x32x16xi8>) -> tensor<2x32x16xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x32x16xf32>
    %m = stablehlo.multiply %w, %b : tensor<2x32x16xf32>
    %1 = stablehlo.transpose %m, dims = [0, 2, 1] : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x16xf32>, tensor<2x16x32xf32>) -> tensor<2x4x32xf32>
    return %2 : tensor<2x4x32xf32>
  }
}

// -----

/// A scatter updates at one place of each sequence.

// CHECK-LABEL: module @places
module @places {
  // CHECK: %[[BASE:.*]] = stablehlo.transpose %arg1, dims = [2, 0, 3, 1]
  // CHECK: "stablehlo.scatter"(%[[BASE]], %arg2, %arg3)
  // CHECK-SAME: update_window_dims = [1, 2], inserted_window_dims = [3], input_batching_dims = [1], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [3], index_vector_dim = 1
  func.func @main(%q: tensor<3x2x4x16xf32>, %k: tensor<2x32x3x16xf32>, %i: tensor<2x1xi32>, %n: tensor<2x3x16xf32>) -> tensor<3x2x4x32xf32> {
    %0 = "stablehlo.scatter"(%k, %i, %n) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<2x32x3x16xf32>, tensor<2x1xi32>, tensor<2x3x16xf32>) -> tensor<2x32x3x16xf32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 3, 1] : (tensor<2x32x3x16xf32>) -> tensor<3x2x16x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<3x2x4x16xf32>, tensor<3x2x16x32xf32>) -> tensor<3x2x4x32xf32>
    return %2 : tensor<3x2x4x32xf32>
  }
}

// -----

/// Without an update the kernel before writes the operand in this order.

// CHECK-LABEL: module @elementwise
module @elementwise {
  // CHECK: stablehlo.tanh %arg1
  // CHECK-NEXT: stablehlo.transpose
  func.func @main(%q: tensor<2x4x16xf32>, %k: tensor<2x32x16xf32>) -> tensor<2x4x32xf32> {
    %0 = stablehlo.tanh %k : tensor<2x32x16xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x16xf32>, tensor<2x16x32xf32>) -> tensor<2x4x32xf32>
    return %2 : tensor<2x4x32xf32>
  }
}

// -----

/// A mask is transposed, and a constant made again.

// CHECK-LABEL: module @masked
module @masked {
  // CHECK: %[[NEW:.*]] = stablehlo.dynamic_update_slice {{.*}} -> tensor<2x16x32xf32>
  // CHECK: %[[MASK:.*]] = stablehlo.transpose %arg4, dims = [0, 2, 1]
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x16x32xf32>
  // CHECK-NEXT: %[[SET:.*]] = stablehlo.select %[[MASK]], %[[NEW]], %[[ZERO]]
  // CHECK-NEXT: stablehlo.dot_general %arg0, %[[SET]]
  func.func @main(%q: tensor<2x4x16xf32>, %k: tensor<2x32x16xf32>, %n: tensor<2x1x16xf32>, %i: tensor<i32>, %s: tensor<2x32x16xi1>) -> tensor<2x4x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %z = stablehlo.constant dense<0.0> : tensor<2x32x16xf32>
    %0 = stablehlo.dynamic_update_slice %k, %n, %c, %i, %c : (tensor<2x32x16xf32>, tensor<2x1x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x16xf32>
    %m = stablehlo.select %s, %0, %z : tensor<2x32x16xi1>, tensor<2x32x16xf32>
    %1 = stablehlo.transpose %m, dims = [0, 2, 1] : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x16xf32>, tensor<2x16x32xf32>) -> tensor<2x4x32xf32>
    return %2 : tensor<2x4x32xf32>
  }
}

// -----

/// An op of which one operand is a single number has no order, and its transpose stays.

// CHECK-LABEL: module @one_mask
module @one_mask {
  // CHECK: stablehlo.dynamic_update_slice %arg1
  // CHECK-NEXT: %[[SET:.*]] = stablehlo.select %arg4
  // CHECK-NEXT: stablehlo.transpose %[[SET]], dims = [0, 2, 1]
  func.func @main(%q: tensor<2x4x16xf32>, %k: tensor<2x32x16xf32>, %n: tensor<2x1x16xf32>, %i: tensor<i32>, %s: tensor<i1>) -> tensor<2x4x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %z = stablehlo.constant dense<0.0> : tensor<2x32x16xf32>
    %0 = stablehlo.dynamic_update_slice %k, %n, %c, %i, %c : (tensor<2x32x16xf32>, tensor<2x1x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x16xf32>
    %m = stablehlo.select %s, %0, %z : tensor<i1>, tensor<2x32x16xf32>
    %1 = stablehlo.transpose %m, dims = [0, 2, 1] : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x16xf32>, tensor<2x16x32xf32>) -> tensor<2x4x32xf32>
    return %2 : tensor<2x4x32xf32>
  }
}

// -----

/// The windows of a scatter are transposed if the order of their dimensions changes.

// CHECK-LABEL: module @windows
module @windows {
  // CHECK: %[[BASE:.*]] = stablehlo.transpose %arg1, dims = [2, 1, 0]
  // CHECK-NEXT: %[[PART:.*]] = stablehlo.transpose %arg3, dims = [0, 2, 1]
  // CHECK-NEXT: "stablehlo.scatter"(%[[BASE]], %arg2, %[[PART]])
  // CHECK-SAME: update_window_dims = [1, 2], inserted_window_dims = [2], scatter_dims_to_operand_dims = [2], index_vector_dim = 1
  func.func @main(%q: tensor<3x4x2xf32>, %k: tensor<32x3x2xf32>, %i: tensor<5x1xi32>, %n: tensor<5x3x2xf32>) -> tensor<3x4x32xf32> {
    %0 = "stablehlo.scatter"(%k, %i, %n) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<32x3x2xf32>, tensor<5x1xi32>, tensor<5x3x2xf32>) -> tensor<32x3x2xf32>
    %1 = stablehlo.transpose %0, dims = [2, 1, 0] : (tensor<32x3x2xf32>) -> tensor<2x3x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<3x4x2xf32>, tensor<2x3x32xf32>) -> tensor<3x4x32xf32>
    return %2 : tensor<3x4x32xf32>
  }
}

// -----

/// Nor do an op that moves elements, and what something else reads too, let the transpose pass.

// CHECK-LABEL: module @between
module @between {
  // CHECK: %[[A:.*]] = stablehlo.dynamic_update_slice %arg1
  // CHECK-NEXT: %[[B:.*]] = stablehlo.reverse %[[A]]
  // CHECK-NEXT: stablehlo.transpose %[[B]], dims = [0, 2, 1]
  // CHECK: %[[C:.*]] = stablehlo.dynamic_update_slice %arg1
  // CHECK-NEXT: %[[D:.*]] = stablehlo.tanh %[[C]]
  // CHECK-NEXT: stablehlo.transpose %[[D]], dims = [0, 2, 1]
  func.func @main(%q: tensor<2x4x16xf32>, %k: tensor<2x32x16xf32>, %n: tensor<2x1x16xf32>, %i: tensor<i32>) -> (tensor<2x4x32xf32>, tensor<2x4x32xf32>, tensor<2x32x16xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_update_slice %k, %n, %c, %i, %c : (tensor<2x32x16xf32>, tensor<2x1x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x16xf32>
    %r = stablehlo.reverse %0, dims = [1] : tensor<2x32x16xf32>
    %1 = stablehlo.transpose %r, dims = [0, 2, 1] : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x16xf32>, tensor<2x16x32xf32>) -> tensor<2x4x32xf32>
    %3 = stablehlo.dynamic_update_slice %k, %n, %c, %i, %i : (tensor<2x32x16xf32>, tensor<2x1x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x16xf32>
    %t = stablehlo.tanh %3 : tensor<2x32x16xf32>
    %4 = stablehlo.transpose %t, dims = [0, 2, 1] : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
    %5 = stablehlo.dot_general %q, %4, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x16xf32>, tensor<2x16x32xf32>) -> tensor<2x4x32xf32>
    return %2, %5, %t : tensor<2x4x32xf32>, tensor<2x4x32xf32>, tensor<2x32x16xf32>
  }
}
