// RUN: hespas-opt %s --expand-scans --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-scans --expand-scans --split-input-file | filecheck %s

/// JAX 0.12 writes a running sum for GPUs so; XLA's AssociativeScanRewriter makes it a window.

// CHECK-LABEL: module @sum
module @sum {
  // CHECK: %[[W:.*]] = "stablehlo.reduce_window"(%arg0, %{{.*}}) <{padding = dense<{{\[\[}}0, 0], [7, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 8>}>
  // CHECK: stablehlo.add
  // CHECK: %[[L:.*]] = stablehlo.slice %[[W]] [0:4, 7:8]
  // CHECK: %[[C:.*]] = stablehlo.reshape %[[L]] : (tensor<4x1xf32>) -> tensor<4xf32>
  // CHECK: return %[[W]], %[[C]]
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<4xf32>
    %0:2 = chlo.scan(%x) inits (%z) dimension=1 attributes {is_associative = true, is_reverse = false} {
    ^bb0(%a: tensor<4xf32>, %c: tensor<4xf32>):
      %s = stablehlo.add %a, %c : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    } : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    return %0#0, %0#1 : tensor<4x8xf32>, tensor<4xf32>
  }
}

// -----

/// A product from the end.

// CHECK-LABEL: module @reverse
module @reverse {
  // CHECK: %[[N:.*]] = stablehlo.constant dense<1> : tensor<i32>
  // CHECK: "stablehlo.reduce_window"(%arg0, %[[N]]) <{padding = dense<{{\[\[}}0, 3], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 4, 1>}>
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.slice %{{.*}} [0:1, 0:8]
  func.func @main(%x: tensor<4x8xi32>) -> (tensor<4x8xi32>, tensor<8xi32>) {
    %z = stablehlo.constant dense<1> : tensor<8xi32>
    %0:2 = chlo.scan(%x) inits (%z) dimension=0 attributes {is_associative = true, is_reverse = true} {
    ^bb0(%a: tensor<8xi32>, %c: tensor<8xi32>):
      %s = stablehlo.multiply %a, %c : tensor<8xi32>
      stablehlo.return %s, %s : tensor<8xi32>, tensor<8xi32>
    } : (tensor<4x8xi32>, tensor<8xi32>) -> (tensor<4x8xi32>, tensor<8xi32>)
    return %0#0, %0#1 : tensor<4x8xi32>, tensor<8xi32>
  }
}

// -----

/// Scans that start from another number, or are not associative, stay.

// CHECK-LABEL: module @others
module @others {
  // CHECK-COUNT-2: .scan
  // CHECK: return
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %z = stablehlo.constant dense<2.0> : tensor<4xf32>
    %n = stablehlo.constant dense<0.0> : tensor<4xf32>
    %0:2 = chlo.scan(%x) inits (%z) dimension=1 attributes {is_associative = true, is_reverse = false} {
    ^bb0(%a: tensor<4xf32>, %c: tensor<4xf32>):
      %s = stablehlo.add %a, %c : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    } : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %1:2 = chlo.scan(%x) inits (%n) dimension=1 attributes {is_associative = false, is_reverse = false} {
    ^bb0(%a: tensor<4xf32>, %c: tensor<4xf32>):
      %s = stablehlo.add %a, %c : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    } : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    return %0#0, %1#0 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
