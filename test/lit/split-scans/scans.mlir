// RUN: hespas-opt %s --split-scans --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-scans --split-scans --split-input-file | filecheck %s

/// 40 elements are three tiles of 16, whose last elements are scanned with one place between
/// (XLA's ReduceWindowRewriter).

// CHECK-LABEL: module @forwards
module @forwards {
  // CHECK: %[[P:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [0, 8]
  // CHECK-NEXT: %[[T:.*]] = stablehlo.reshape %[[P]] : (tensor<4x48xf32>) -> tensor<4x3x16xf32>
  // CHECK-NEXT: %[[I:.*]] = "stablehlo.reduce_window"(%[[T]]
  // CHECK-SAME: window_dimensions = array<i64: 1, 1, 16>
  // CHECK: %[[L:.*]] = stablehlo.slice %[[I]] [0:4, 0:3, 15:16]
  // CHECK-NEXT: %[[S:.*]] = stablehlo.reshape %[[L]]
  // CHECK-NEXT: %[[O:.*]] = "stablehlo.reduce_window"(%[[S]]
  // CHECK-SAME: window_dimensions = array<i64: 1, 3>
  // CHECK: -> tensor<4x4xf32>
  // CHECK-NEXT: %[[E:.*]] = stablehlo.slice %[[O]] [0:4, 0:3]
  // CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim %[[E]], dims = [0, 1]
  // CHECK-NEXT: %[[A:.*]] = stablehlo.add %[[B]], %[[I]]
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[A]]
  // CHECK-NEXT: stablehlo.slice %[[R]] [0:4, 0:40]
  func.func @main(%x: tensor<4x40xf32>) -> tensor<4x40xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %z) <{padding = dense<[[0, 0], [39, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 40>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x40xf32>, tensor<f32>) -> tensor<4x40xf32>
    return %0 : tensor<4x40xf32>
  }
}

// -----

/// A scan of one tile stays, and so does a window that is no scan.

// CHECK-LABEL: module @others
module @others {
  // CHECK-COUNT-2: reduce_window
  // CHECK-NOT: reduce_window
  // CHECK: return
  func.func @main(%x: tensor<4x16xf32>, %y: tensor<4x64xf32>) -> (tensor<4x16xf32>, tensor<4x64xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %z) <{padding = dense<[[0, 0], [15, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 16>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %1 = "stablehlo.reduce_window"(%y, %z) <{padding = dense<[[0, 0], [31, 32]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x64xf32>, tensor<f32>) -> tensor<4x64xf32>
    return %0, %1 : tensor<4x16xf32>, tensor<4x64xf32>
  }
}
