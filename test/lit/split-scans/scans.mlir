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
  // CHECK-NOT: reduce_window
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

// -----

/// The 19 sums of the tiles are scanned by tiles, too, and moved by one.

// CHECK-LABEL: module @long
module @long {
  // CHECK: %[[SUMS:.*]] = stablehlo.reshape {{.*}} : (tensor<19x1xf32>) -> tensor<19xf32>
  // CHECK-NEXT: stablehlo.pad %[[SUMS]], %{{.*}}, low = [0], high = [13]
  // CHECK: stablehlo.reshape {{.*}} -> tensor<2x16xf32>
  // CHECK: %[[ALL:.*]] = stablehlo.slice {{.*}} [0:19] : (tensor<32xf32>) -> tensor<19xf32>
  // CHECK-NEXT: %[[MOVED:.*]] = stablehlo.pad %[[ALL]], %{{.*}}, low = [1], high = [0]
  // CHECK-NEXT: %[[BEFORE:.*]] = stablehlo.slice %[[MOVED]] [0:19]
  // CHECK-NEXT: stablehlo.broadcast_in_dim %[[BEFORE]], dims = [0]
  func.func @main(%x: tensor<300xf32>) -> tensor<300xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %z) <{padding = dense<[[299, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 300>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<300xf32>, tensor<f32>) -> tensor<300xf32>
    return %0 : tensor<300xf32>
  }
}

// -----

/// Two whole tiles are not padded. A constant of the body is one of the shape of the tiles.

// CHECK-LABEL: module @bounded
module @bounded {
  // CHECK-NOT: stablehlo.pad
  // CHECK: stablehlo.reshape %arg0 : (tensor<32xf32>) -> tensor<2x16xf32>
  // CHECK: %[[HALF:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<2x16xf32>
  // CHECK-NEXT: %[[SUM:.*]] = stablehlo.add
  // CHECK-NEXT: stablehlo.maximum %[[SUM]], %[[HALF]]
  // CHECK-NOT: stablehlo.pad
  func.func @main(%x: tensor<32xf32>) -> tensor<32xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %z) <{padding = dense<[[31, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 32>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %h = stablehlo.constant dense<5.0e-1> : tensor<f32>
      %s = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %s, %h : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }) : (tensor<32xf32>, tensor<f32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

/// From the last element on, the first elements of the tiles are scanned, and the padding comes before.

// CHECK-LABEL: module @backwards
module @backwards {
  // CHECK: %[[P:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 8], high = [0, 0]
  // CHECK-NEXT: %[[T:.*]] = stablehlo.reshape %[[P]] : (tensor<4x48xf32>) -> tensor<4x3x16xf32>
  // CHECK-NEXT: %[[I:.*]] = "stablehlo.reduce_window"(%[[T]]
  // CHECK: %[[L:.*]] = stablehlo.slice %[[I]] [0:4, 0:3, 0:1]
  // CHECK-NEXT: %[[S:.*]] = stablehlo.reshape %[[L]]
  // CHECK-NEXT: %[[O:.*]] = "stablehlo.reduce_window"(%[[S]]
  // CHECK: %[[E:.*]] = stablehlo.slice %[[O]] [0:4, 1:4]
  // CHECK: stablehlo.slice %{{.*}} [0:4, 8:48]
  func.func @main(%x: tensor<4x40xf32>) -> tensor<4x40xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %z) <{padding = dense<[[0, 0], [0, 39]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 40>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x40xf32>, tensor<f32>) -> tensor<4x40xf32>
    return %0 : tensor<4x40xf32>
  }
}

// -----

/// A running window of two values stays.

// CHECK-LABEL: module @two
module @two {
  // CHECK: "stablehlo.reduce_window"(%arg0, %arg1
  // CHECK-NOT: stablehlo.slice
  func.func @main(%x: tensor<40xf32>, %y: tensor<40xf32>) -> (tensor<40xf32>, tensor<40xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = "stablehlo.reduce_window"(%x, %y, %z, %z) <{padding = dense<[[39, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 40>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %s = stablehlo.add %a, %c : tensor<f32>
      %t = stablehlo.maximum %b, %d : tensor<f32>
      stablehlo.return %s, %t : tensor<f32>, tensor<f32>
    }) : (tensor<40xf32>, tensor<40xf32>, tensor<f32>, tensor<f32>) -> (tensor<40xf32>, tensor<40xf32>)
    return %0#0, %0#1 : tensor<40xf32>, tensor<40xf32>
  }
}

// -----

/// The sums of 16 tiles fit into one, and are scanned at once.

// CHECK-LABEL: module @sixteen
module @sixteen {
  // CHECK: %[[SUMS:.*]] = stablehlo.reshape {{.*}} : (tensor<16x1xf32>) -> tensor<16xf32>
  // CHECK-NEXT: %[[ALL:.*]] = "stablehlo.reduce_window"(%[[SUMS]]
  // CHECK-SAME: padding = dense<{{\[\[}}16, 0]]>
  // CHECK: -> tensor<17xf32>
  // CHECK-NEXT: stablehlo.slice %[[ALL]] [0:16]
  func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %z) <{padding = dense<[[255, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 256>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<256xf32>, tensor<f32>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

/// The dimensions behind the one that is scanned stay.

// CHECK-LABEL: module @outer
module @outer {
  // CHECK: stablehlo.reshape %arg0 : (tensor<32x4x2xf32>) -> tensor<2x16x4x2xf32>
  // CHECK: %[[L:.*]] = stablehlo.slice {{.*}} : (tensor<2x16x4x2xf32>) -> tensor<2x1x4x2xf32>
  // CHECK-NEXT: stablehlo.reshape %[[L]] : (tensor<2x1x4x2xf32>) -> tensor<2x4x2xf32>
  // CHECK: stablehlo.broadcast_in_dim {{.*}}, dims = [0, 2, 3] : (tensor<2x4x2xf32>) -> tensor<2x16x4x2xf32>
  // CHECK: -> tensor<32x4x2xf32>
  func.func @main(%x: tensor<32x4x2xf32>) -> tensor<32x4x2xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %z) <{padding = dense<[[31, 0], [0, 0], [0, 0]]> : tensor<3x2xi64>, window_dimensions = array<i64: 32, 1, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<32x4x2xf32>, tensor<f32>) -> tensor<32x4x2xf32>
    return %0 : tensor<32x4x2xf32>
  }
}
