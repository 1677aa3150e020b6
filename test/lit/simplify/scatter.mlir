// RUN: hespas-opt %s --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify --simplify --split-input-file | filecheck %s

/// A scatter into a broadcast drops itself what a slice cuts off at the end, as in the gradient of a maximum over a
/// padded window.

// CHECK-LABEL: module @cut
module @cut {
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f32>) -> tensor<4x4x3xf32>
  // CHECK-NEXT: "stablehlo.scatter"(%[[B]], %arg1, %arg2)
  // CHECK-NOT: stablehlo.slice
  func.func @main(%x: tensor<4x5x3xf32>, %i: tensor<7x2xi32>, %u: tensor<7x3xf32>, %k: tensor<f32>) -> tensor<4x4x3xf32> {
    %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<4x5x3xf32>
    %0 = "stablehlo.scatter"(%b, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x5x3xf32>, tensor<7x2xi32>, tensor<7x3xf32>) -> tensor<4x5x3xf32>
    %1 = stablehlo.slice %0 [0:4, 0:4, 0:3] : (tensor<4x5x3xf32>) -> tensor<4x4x3xf32>
    return %1 : tensor<4x4x3xf32>
  }
}

// -----

/// A slice that begins later moves the indices.

// CHECK-LABEL: module @start
module @start {
  // CHECK: stablehlo.slice
  func.func @main(%x: tensor<4x5x3xf32>, %i: tensor<7x2xi32>, %u: tensor<7x3xf32>, %k: tensor<f32>) -> tensor<4x4x3xf32> {
    %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<4x5x3xf32>
    %0 = "stablehlo.scatter"(%b, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x5x3xf32>, tensor<7x2xi32>, tensor<7x3xf32>) -> tensor<4x5x3xf32>
    %1 = stablehlo.slice %0 [0:4, 1:5, 0:3] : (tensor<4x5x3xf32>) -> tensor<4x4x3xf32>
    return %1 : tensor<4x4x3xf32>
  }
}

// -----

/// A window is not dropped for a part of it, and another operand would be sliced.

// CHECK-LABEL: module @window
module @window {
  // CHECK-COUNT-2: stablehlo.slice
  func.func @main(%x: tensor<4x5x3xf32>, %i: tensor<7x2xi32>, %u: tensor<7x3xf32>, %k: tensor<f32>) -> (tensor<4x5x2xf32>, tensor<4x4x3xf32>) {
    %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<4x5x3xf32>
    %0 = "stablehlo.scatter"(%b, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x5x3xf32>, tensor<7x2xi32>, tensor<7x3xf32>) -> tensor<4x5x3xf32>
    %1 = stablehlo.slice %0 [0:4, 0:5, 0:2] : (tensor<4x5x3xf32>) -> tensor<4x5x2xf32>
    %3 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %t = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }) : (tensor<4x5x3xf32>, tensor<7x2xi32>, tensor<7x3xf32>) -> tensor<4x5x3xf32>
    %4 = stablehlo.slice %3 [0:4, 0:4, 0:3] : (tensor<4x5x3xf32>) -> tensor<4x4x3xf32>
    return %1, %4 : tensor<4x5x2xf32>, tensor<4x4x3xf32>
  }
}

// -----

/// A scatter that something else reads too is not computed twice.

// CHECK-LABEL: module @used
module @used {
  // CHECK: stablehlo.slice
  func.func @main(%x: tensor<4x5x3xf32>, %i: tensor<7x2xi32>, %u: tensor<7x3xf32>, %k: tensor<f32>) -> (tensor<4x4x3xf32>, tensor<4x5x3xf32>) {
    %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<4x5x3xf32>
    %0 = "stablehlo.scatter"(%b, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x5x3xf32>, tensor<7x2xi32>, tensor<7x3xf32>) -> tensor<4x5x3xf32>
    %1 = stablehlo.slice %0 [0:4, 0:4, 0:3] : (tensor<4x5x3xf32>) -> tensor<4x4x3xf32>
    return %1, %0 : tensor<4x4x3xf32>, tensor<4x5x3xf32>
  }
}

// -----

/// Steps stay, also those of a scatter.

// CHECK-LABEL: module @steps
module @steps {
  // CHECK: stablehlo.slice
  func.func @main(%x: tensor<4x5x3xf32>, %i: tensor<7x2xi32>, %u: tensor<7x3xf32>, %k: tensor<f32>) -> tensor<2x5x3xf32> {
    %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<4x5x3xf32>
    %0 = "stablehlo.scatter"(%b, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x5x3xf32>, tensor<7x2xi32>, tensor<7x3xf32>) -> tensor<4x5x3xf32>
    %1 = stablehlo.slice %0 [0:4:2, 0:5, 0:3] : (tensor<4x5x3xf32>) -> tensor<2x5x3xf32>
    return %1 : tensor<2x5x3xf32>
  }
}

// -----

/// A broadcast of rows is no single number.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: stablehlo.slice
  func.func @main(%row: tensor<3xf32>, %i: tensor<7x2xi32>, %u: tensor<7x3xf32>) -> tensor<4x4x3xf32> {
    %b = stablehlo.broadcast_in_dim %row, dims = [2] : (tensor<3xf32>) -> tensor<4x5x3xf32>
    %0 = "stablehlo.scatter"(%b, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x5x3xf32>, tensor<7x2xi32>, tensor<7x3xf32>) -> tensor<4x5x3xf32>
    %1 = stablehlo.slice %0 [0:4, 0:4, 0:3] : (tensor<4x5x3xf32>) -> tensor<4x4x3xf32>
    return %1 : tensor<4x4x3xf32>
  }
}

// -----

/// A scatter that adds starts from the sum with its result, on either side and in a chain.

// CHECK-LABEL: module @sum
module @sum {
  // CHECK: %[[A:.*]] = stablehlo.add %arg0, %arg1
  // CHECK: %[[S:.*]] = "stablehlo.scatter"(%[[A]], %arg2, %arg3)
  // CHECK: return %[[S]]
  func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>, %i: tensor<7x1xi32>, %u: tensor<7xf32>) -> tensor<64xf32> {
    %0 = "stablehlo.scatter"(%y, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>, tensor<7x1xi32>, tensor<7xf32>) -> tensor<64xf32>
    %1 = stablehlo.add %x, %0 : tensor<64xf32>
    return %1 : tensor<64xf32>
  }
}

// -----

// CHECK-LABEL: module @sums
module @sums {
  // CHECK: %[[A:.*]] = stablehlo.add %arg1, %arg0
  // CHECK: %[[B:.*]] = stablehlo.add %arg1, %[[A]]
  // CHECK: %[[S:.*]] = "stablehlo.scatter"(%[[B]], %arg2, %arg3)
  // CHECK: return %[[S]]
  func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>, %i: tensor<7x1xi32>, %u: tensor<7xf32>) -> tensor<64xf32> {
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>, tensor<7x1xi32>, tensor<7xf32>) -> tensor<64xf32>
    %1 = stablehlo.add %0, %y : tensor<64xf32>
    %2 = stablehlo.add %1, %y : tensor<64xf32>
    return %2 : tensor<64xf32>
  }
}

// -----

/// One that does not add, that something else reads, or that is added to another one stays.

// CHECK-LABEL: module @no_sum
module @no_sum {
  // CHECK: "stablehlo.scatter"(%arg0
  // CHECK: stablehlo.add
  // CHECK: "stablehlo.scatter"(%arg1
  // CHECK: stablehlo.add
  // CHECK: "stablehlo.scatter"(%arg0
  // CHECK: "stablehlo.scatter"(%arg1
  // CHECK: stablehlo.add
  func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>, %i: tensor<7x1xi32>, %u: tensor<7xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>, tensor<7x1xi32>, tensor<7xf32>) -> tensor<64xf32>
    %1 = stablehlo.add %0, %y : tensor<64xf32>
    %2 = "stablehlo.scatter"(%y, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>, tensor<7x1xi32>, tensor<7xf32>) -> tensor<64xf32>
    %3 = stablehlo.add %2, %x : tensor<64xf32>
    %w = stablehlo.negate %u : tensor<7xf32>
    %4 = "stablehlo.scatter"(%x, %i, %w) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>, tensor<7x1xi32>, tensor<7xf32>) -> tensor<64xf32>
    %5 = "stablehlo.scatter"(%y, %i, %w) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>, tensor<7x1xi32>, tensor<7xf32>) -> tensor<64xf32>
    %6 = stablehlo.add %4, %5 : tensor<64xf32>
    return %1, %2, %3, %6 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
  }
}
