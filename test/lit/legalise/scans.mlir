// RUN: hespas-opt %s --legalise --split-input-file | filecheck %s
// RUN: hespas-opt %s --legalise --legalise --split-input-file | filecheck %s

/// A scan that JAX exports is the running window that XLA makes of it, in either direction; its last sum is a slice.

// CHECK-LABEL: module @sums
module @sums {
  // CHECK: %[[W:.*]] = "stablehlo.reduce_window"(%arg0, %{{.*}}) <{padding = dense<{{\[\[}}0, 0], [6, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 7>}>
  // CHECK: stablehlo.add
  // CHECK: stablehlo.slice %[[W]] [0:4, 6:7] : (tensor<4x7xf32>) -> tensor<4x1xf32>
  // CHECK: %[[L:.*]] = stablehlo.reshape
  // CHECK: %[[R:.*]] = "stablehlo.reduce_window"(%arg0, %{{.*}}) <{padding = dense<{{\[\[}}0, 0], [0, 6]]>
  // CHECK: stablehlo.multiply
  // CHECK: return %[[W]], %[[L]], %[[R]]
  func.func @main(%x: tensor<4x7xf32>) -> (tensor<4x7xf32>, tensor<4xf32>, tensor<4x7xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %1:2 = "stablehlo.composite"(%x, %0) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = false}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %2 = stablehlo.add %a, %b : tensor<4xf32>
      stablehlo.return %2, %2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    %one = stablehlo.constant dense<1.0> : tensor<4xf32>
    %3:2 = "stablehlo.composite"(%x, %one) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = true}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %4 = stablehlo.multiply %a, %b : tensor<4xf32>
      stablehlo.return %4, %4 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    return %1#0, %1#1, %3#0 : tensor<4x7xf32>, tensor<4xf32>, tensor<4x7xf32>
  }
  func.func private @loop(%x: tensor<4x7xf32>, %c: tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>) {
    return %x, %c : tensor<4x7xf32>, tensor<4xf32>
  }
}

// -----

/// Those stay that are not associative, start from several numbers or another one, or have another body.

// CHECK-LABEL: module @loops
module @loops {
  // CHECK-COUNT-4: "chlo.scan"
  // CHECK-NOT: reduce_window
  func.func @main(%x: tensor<4x7xf32>, %c: tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x7xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %1:2 = "stablehlo.composite"(%x, %0) <{composite_attributes = {dimension = 1 : i64, is_associative = false, is_reverse = false}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %2 = stablehlo.add %a, %b : tensor<4xf32>
      stablehlo.return %2, %2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    %3:2 = "stablehlo.composite"(%x, %c) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = false}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %2 = stablehlo.add %a, %b : tensor<4xf32>
      stablehlo.return %2, %2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    %4:2 = "stablehlo.composite"(%x, %0) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = false}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %2 = stablehlo.add %a, %b : tensor<4xf32>
      %5 = stablehlo.tanh %2 : tensor<4xf32>
      stablehlo.return %5, %5 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    %6:2 = "stablehlo.composite"(%x, %0) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = false}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %2 = stablehlo.add %a, %b : tensor<4xf32>
      stablehlo.return %a, %2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    return %1#0, %3#0, %4#0, %6#0 : tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x7xf32>
  }
  func.func private @loop(%x: tensor<4x7xf32>, %c: tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>) {
    return %x, %c : tensor<4x7xf32>, tensor<4xf32>
  }
}
