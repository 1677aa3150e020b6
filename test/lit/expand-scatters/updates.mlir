// RUN: hespas-opt %s --expand-scatters --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-scatters --expand-scatters --split-input-file | filecheck %s

/// A scatter to one place that is known at run time keeps what is there if the place is out of bounds.

// CHECK-LABEL: module @row
module @row {
  // CHECK: %[[P:.*]] = stablehlo.slice %arg1
  // CHECK: %[[S:.*]] = stablehlo.reshape %[[P]]
  // CHECK: %[[OLD:.*]] = stablehlo.dynamic_slice %arg0, %[[S]], %{{.*}}, sizes = [1, 64]
  // CHECK: stablehlo.constant dense<9> : tensor<1xi32>
  // CHECK: stablehlo.compare GE
  // CHECK: stablehlo.compare LE
  // CHECK: stablehlo.reduce
  // CHECK: %[[NEW:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[OLD]]
  // CHECK: stablehlo.dynamic_update_slice %arg0, %[[NEW]], %[[S]]
  // CHECK-NOT: stablehlo.scatter
  func.func @main(%x: tensor<10x64xf32>, %i: tensor<1xi32>, %u: tensor<64xf32>) -> tensor<10x64xf32> {
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<1xi32>, tensor<64xf32>) -> tensor<10x64xf32>
    return %0 : tensor<10x64xf32>
  }
}

// -----

/// An op of the old and the new value keeps the order of its operands; two dimensions are addressed out of order.

// CHECK-LABEL: module @combined
module @combined {
  // CHECK: %[[P:.*]] = stablehlo.slice %{{.*}} [0:1]
  // CHECK: %[[A:.*]] = stablehlo.reshape %[[P]]
  // CHECK: %[[Q:.*]] = stablehlo.slice %{{.*}} [1:2]
  // CHECK: %[[B:.*]] = stablehlo.reshape %[[Q]]
  // CHECK: %[[OLD:.*]] = stablehlo.dynamic_slice %arg0, %[[B]], %{{.*}}, %[[A]], sizes = [1, 3, 2]
  // CHECK: %[[BOTH:.*]] = stablehlo.subtract %{{.*}}, %[[OLD]]
  // CHECK: stablehlo.constant dense<[3, 7]> : tensor<2xi64>
  // CHECK: stablehlo.select %{{.*}}, %[[BOTH]], %[[OLD]]
  func.func @main(%x: tensor<8x3x5xf32>, %i: tensor<1x2xi64>, %u: tensor<1x3x2xf32>) -> tensor<8x3x5xf32> {
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [2, 0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.subtract %b, %a : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<8x3x5xf32>, tensor<1x2xi64>, tensor<1x3x2xf32>) -> tensor<8x3x5xf32>
    return %0 : tensor<8x3x5xf32>
  }
}

// -----

/// A constant place is checked here: what is inside needs no selection,

// CHECK-LABEL: module @constant
module @constant {
  // CHECK: stablehlo.concatenate
  // CHECK: %[[A:.*]] = stablehlo.constant dense<3> : tensor<i32>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.constant dense<4> : tensor<i32>
  // CHECK-NOT: select
  // CHECK: stablehlo.dynamic_update_slice %arg0, %{{.*}}, %[[A]], %[[B]]
  func.func @main(%x: tensor<10x64xf32>, %u: tensor<2x2xf32>) -> tensor<10x64xf32> {
    %r = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.constant dense<4> : tensor<1xi32>
    %b = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %i = stablehlo.concatenate %b, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>}> ({
    ^bb0(%a: tensor<f32>, %b0: tensor<f32>):
      stablehlo.return %b0 : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<2xi32>, tensor<2x2xf32>) -> tensor<10x64xf32>
    return %0 : tensor<10x64xf32>
  }
}

// -----

/// what ends outside changes nothing,

// CHECK-LABEL: module @outside
module @outside {
  // CHECK-NOT: dynamic_update_slice
  // CHECK: return %arg0
  func.func @main(%x: tensor<10x64xf32>, %u: tensor<2x2xf32>) -> tensor<10x64xf32> {
    %i = stablehlo.constant dense<[9, 0]> : tensor<2xi32>
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<2xi32>, tensor<2x2xf32>) -> tensor<10x64xf32>
    return %0 : tensor<10x64xf32>
  }
}

// -----

/// and nothing addresses the whole.

// CHECK-LABEL: module @whole
module @whole {
  // CHECK-NOT: select
  // CHECK: stablehlo.dynamic_update_slice %arg0
  func.func @main(%x: tensor<10x64xf32>, %i: tensor<0xi32>, %u: tensor<10x64xf32>) -> tensor<10x64xf32> {
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<0xi32>, tensor<10x64xf32>) -> tensor<10x64xf32>
    return %0 : tensor<10x64xf32>
  }
}

// -----

/// Scatters stay that have several places, batches, operands, or a body of several ops or of other values.

// CHECK-LABEL: module @stays
module @stays {
  // CHECK-COUNT-6: "stablehlo.scatter"
  // CHECK-NOT: dynamic_update_slice
  func.func @main(%x: tensor<10x64xf32>, %two: tensor<2x1xi32>, %i: tensor<1xi32>, %batch: tensor<10x1xi32>, %u: tensor<64xf32>, %v: tensor<2x64xf32>, %w: tensor<10xf32>)
      -> (tensor<10x64xf32>, tensor<10x64xf32>, tensor<10x64xf32>, tensor<10x64xf32>, tensor<10x64xf32>, tensor<10x64xf32>) {
    %0 = "stablehlo.scatter"(%x, %two, %v) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<2x1xi32>, tensor<2x64xf32>) -> tensor<10x64xf32>
    %1 = "stablehlo.scatter"(%x, %batch, %w) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<10x1xi32>, tensor<10xf32>) -> tensor<10x64xf32>
    %2:2 = "stablehlo.scatter"(%x, %x, %i, %u, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      stablehlo.return %c, %d : tensor<f32>, tensor<f32>
    }) : (tensor<10x64xf32>, tensor<10x64xf32>, tensor<1xi32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<10x64xf32>, tensor<10x64xf32>)
    %3 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      %d = stablehlo.tanh %c : tensor<f32>
      stablehlo.return %d : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<1xi32>, tensor<64xf32>) -> tensor<10x64xf32>
    %4 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %a : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<1xi32>, tensor<64xf32>) -> tensor<10x64xf32>
    %5 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %b, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<1xi32>, tensor<64xf32>) -> tensor<10x64xf32>
    return %0, %1, %2#0, %3, %4, %5 : tensor<10x64xf32>, tensor<10x64xf32>, tensor<10x64xf32>, tensor<10x64xf32>, tensor<10x64xf32>, tensor<10x64xf32>
  }
}

// -----

/// A constant place may be converted and reshaped; the old value is read for an op of both,

// CHECK-LABEL: module @constant_combined
module @constant_combined {
  // CHECK: %[[OLD:.*]] = stablehlo.dynamic_slice %arg0
  // CHECK-NEXT: %[[NEW:.*]] = stablehlo.subtract %[[OLD]], %{{.*}}
  // CHECK-NEXT: stablehlo.dynamic_update_slice %arg0, %[[NEW]]
  // CHECK-NOT: scatter
  func.func @main(%x: tensor<10x64xf32>, %u: tensor<2x2xf32>) -> tensor<10x64xf32> {
    %n = stablehlo.constant dense<[[3, 5]]> : tensor<1x2xi64>
    %c = stablehlo.convert %n : (tensor<1x2xi64>) -> tensor<1x2xi32>
    %i = stablehlo.reshape %c : (tensor<1x2xi32>) -> tensor<2xi32>
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.subtract %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<2xi32>, tensor<2x2xf32>) -> tensor<10x64xf32>
    return %0 : tensor<10x64xf32>
  }
}

// -----

/// but not for the new one alone. A place of which one number is known is not.

// CHECK-LABEL: module @half_known
module @half_known {
  // CHECK-NOT: stablehlo.dynamic_slice
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: stablehlo.dynamic_slice
  // CHECK: stablehlo.select
  func.func @main(%x: tensor<10x64xf32>, %u: tensor<2x2xf32>, %j: tensor<1xi32>) -> (tensor<10x64xf32>, tensor<10x64xf32>) {
    %n = stablehlo.constant dense<3> : tensor<1xi32>
    %known = stablehlo.concatenate %n, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %half = stablehlo.concatenate %n, %j, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %0 = "stablehlo.scatter"(%x, %known, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<2xi32>, tensor<2x2xf32>) -> tensor<10x64xf32>
    %1 = "stablehlo.scatter"(%x, %half, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<2xi32>, tensor<2x2xf32>) -> tensor<10x64xf32>
    return %0, %1 : tensor<10x64xf32>, tensor<10x64xf32>
  }
}

// -----

/// A batch of one is a batch; a body with an attribute, and one that ends with its first of two ops, stay too.

// CHECK-LABEL: module @bodies
module @bodies {
  // CHECK-COUNT-3: "stablehlo.scatter"
  // CHECK-NOT: dynamic_update_slice
  func.func @main(%x: tensor<1x64xf32>, %i: tensor<1x1xi32>, %u: tensor<1xf32>, %p: tensor<10xi1>, %k: tensor<1xi32>, %w: tensor<1xi1>, %y: tensor<10xf32>, %z: tensor<1xf32>)
      -> (tensor<1x64xf32>, tensor<10xi1>, tensor<10xf32>) {
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<1x64xf32>, tensor<1x1xi32>, tensor<1xf32>) -> tensor<1x64xf32>
    %1 = "stablehlo.scatter"(%p, %k, %w) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<i1>, %b: tensor<i1>):
      %c = stablehlo.compare GT, %a, %b : (tensor<i1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }) : (tensor<10xi1>, tensor<1xi32>, tensor<1xi1>) -> tensor<10xi1>
    %2 = "stablehlo.scatter"(%y, %k, %z) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      %d = stablehlo.tanh %c : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<10xf32>, tensor<1xi32>, tensor<1xf32>) -> tensor<10xf32>
    return %0, %1, %2 : tensor<1x64xf32>, tensor<10xi1>, tensor<10xf32>
  }
}

// -----

/// A place that an op computes is none that is known.

// CHECK-LABEL: module @computed
module @computed {
  // CHECK: %[[J:.*]] = stablehlo.add %arg1, %arg1
  // CHECK: stablehlo.compare GE, %[[J]]
  // CHECK: stablehlo.dynamic_update_slice
  func.func @main(%x: tensor<10x64xf32>, %i: tensor<1xi32>, %u: tensor<64xf32>) -> tensor<10x64xf32> {
    %j = stablehlo.add %i, %i : tensor<1xi32>
    %0 = "stablehlo.scatter"(%x, %j, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<10x64xf32>, tensor<1xi32>, tensor<64xf32>) -> tensor<10x64xf32>
    return %0 : tensor<10x64xf32>
  }
}
