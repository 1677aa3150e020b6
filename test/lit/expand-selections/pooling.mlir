// RUN: hespas-opt %s --expand-selections --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-selections --expand-selections --split-input-file | filecheck %s

/// The gradient of a max pooling: a search for the places of the maxima, with the indices of each
/// dimension, and a scatter to them.

// CHECK-LABEL: module @pooling
module @pooling {
  // CHECK: func.func @main(%[[X:.*]]: tensor<2x9x9x4xf32>, %[[G:.*]]: tensor<2x4x4x4xf32>, %[[Z:.*]]: tensor<f32>)
  // CHECK: stablehlo.iota dim = 0 : tensor<2x9x9x4xi32>
  // CHECK-NEXT: stablehlo.iota dim = 1
  // CHECK-NEXT: stablehlo.iota dim = 2
  // CHECK-NEXT: stablehlo.iota dim = 3
  // CHECK-NEXT: %[[INIT:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  // CHECK: %[[W:.*]]:5 = "stablehlo.reduce_window"(%[[X]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[INIT]],
  // CHECK-SAME: window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>
  // CHECK: stablehlo.compare GE, %arg3, %arg8
  // CHECK-COUNT-5: stablehlo.select
  // CHECK: -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>, tensor<2x4x4x4xi32>, tensor<2x4x4x4xi32>, tensor<2x4x4x4xi32>)
  // CHECK: stablehlo.reshape %[[W]]#1
  // CHECK: stablehlo.reshape %[[W]]#4
  // CHECK: %[[P:.*]] = stablehlo.concatenate {{.*}} dim = 4 : {{.*}} -> tensor<2x4x4x4x4xi32>
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[Z]], dims = []
  // CHECK: %[[S:.*]] = "stablehlo.scatter"(%[[B]], %[[P]], %[[G]])
  // CHECK-SAME: inserted_window_dims = [0, 1, 2, 3], scatter_dims_to_operand_dims = [0, 1, 2, 3], index_vector_dim = 4
  // CHECK: stablehlo.add
  // CHECK: return %[[S]]
  // CHECK-NOT: select_and_scatter
  func.func @main(%x: tensor<2x9x9x4xf32>, %g: tensor<2x4x4x4xf32>, %zero: tensor<f32>) -> tensor<2x9x9x4xf32> {
    %0 = "stablehlo.select_and_scatter"(%x, %g, %zero) <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<2x9x9x4xf32>, tensor<2x4x4x4xf32>, tensor<f32>) -> tensor<2x9x9x4xf32>
    return %0 : tensor<2x9x9x4xf32>
  }
}

// -----

/// The comparison, the padding and the type of the elements are those of the op; windows need no strides.

// CHECK-LABEL: module @integers
module @integers {
  // CHECK: %[[INIT:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: "stablehlo.reduce_window"({{.*}} %[[INIT]],
  // CHECK-SAME: padding = dense<{{.*}}0, 0], [1, 0], [1, 0], [0, 0]]> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 2, 2, 1>}>
  // CHECK: stablehlo.compare LT, %arg3, %arg8
  // CHECK-NOT: select_and_scatter
  func.func @main(%x: tensor<2x9x9x4xi32>, %g: tensor<2x9x9x4xi32>, %zero: tensor<i32>) -> tensor<2x9x9x4xi32> {
    %0 = "stablehlo.select_and_scatter"(%x, %g, %zero) <{window_dimensions = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [1, 0], [1, 0], [0, 0]]> : tensor<4x2xi64>}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %c = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }, {
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %c = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %c : tensor<i32>
    }) : (tensor<2x9x9x4xi32>, tensor<2x9x9x4xi32>, tensor<i32>) -> tensor<2x9x9x4xi32>
    return %0 : tensor<2x9x9x4xi32>
  }
}

// -----

/// Ops of loops are expanded too.

// CHECK-LABEL: module @loop
// CHECK: stablehlo.while
// CHECK: "stablehlo.reduce_window"
// CHECK: "stablehlo.scatter"
module @loop {
  func.func @main(%x: tensor<8xf32>, %g: tensor<4xf32>, %zero: tensor<f32>) -> tensor<8xf32> {
    %n = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %n, %v = %x) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %1 = "stablehlo.select_and_scatter"(%v, %g, %zero) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }, {
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) : (tensor<8xf32>, tensor<4xf32>, tensor<f32>) -> tensor<8xf32>
      stablehlo.return %j, %1 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}
