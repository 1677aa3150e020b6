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
  // CHECK: stablehlo.slice %[[R]] [0:4, 0:1] : (tensor<4x7xf32>) -> tensor<4x1xf32>
  // CHECK: return %[[W]], %[[L]], %[[R]]
  func.func @main(%x: tensor<4x7xf32>) -> (tensor<4x7xf32>, tensor<4xf32>, tensor<4x7xf32>, tensor<4xf32>) {
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
    return %1#0, %1#1, %3#0, %3#1 : tensor<4x7xf32>, tensor<4xf32>, tensor<4x7xf32>, tensor<4xf32>
  }
  func.func private @loop(%x: tensor<4x7xf32>, %c: tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>) {
    return %x, %c : tensor<4x7xf32>, tensor<4xf32>
  }
}

// -----

/// So is an op of chlo or mhlo, of integers too.

// CHECK-LABEL: module @ops
module @ops {
  // CHECK: %[[N:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: "stablehlo.reduce_window"(%arg0, %[[N]]) <{padding = dense<{{\[\[}}0, 0], [0, 6]]>
  // CHECK: "stablehlo.reduce_window"(%arg0, %{{.*}}) <{padding = dense<{{\[\[}}0, 0], [6, 0]]>
  // CHECK-NOT: scan
  func.func @main(%x: tensor<4x7xi32>) -> (tensor<4x7xi32>, tensor<4x7xi32>) {
    %zero = stablehlo.constant dense<0> : tensor<4xi32>
    %0:2 = "chlo.scan"(%x, %zero) <{dimension = 1 : i64, is_associative = true, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%a: tensor<4xi32>, %b: tensor<4xi32>):
      %s = stablehlo.add %a, %b : tensor<4xi32>
      stablehlo.return %s, %s : tensor<4xi32>, tensor<4xi32>
    }) : (tensor<4x7xi32>, tensor<4xi32>) -> (tensor<4x7xi32>, tensor<4xi32>)
    %1:2 = "mhlo.scan"(%x, %zero) <{dimension = 1 : i64, is_associative = true, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%a: tensor<4xi32>, %b: tensor<4xi32>):
      %s = stablehlo.add %a, %b : tensor<4xi32>
      mhlo.return %s, %s : tensor<4xi32>, tensor<4xi32>
    }) : (tensor<4x7xi32>, tensor<4xi32>) -> (tensor<4x7xi32>, tensor<4xi32>)
    return %0#0, %1#0 : tensor<4x7xi32>, tensor<4x7xi32>
  }
}

// -----

/// Those stay that are not associative, start from several numbers, another one or an unknown one, have another body or
/// none, symbolic dimensions, or are of another name. The other composites beside them become ops.

// CHECK-LABEL: module @loops
module @loops {
  // CHECK-NOT: reduce_window
  // CHECK: mhlo.erf
  // CHECK-NOT: reduce_window
  // CHECK-COUNT-9: "chlo.scan"
  // CHECK: "acme.scan"
  // CHECK-NOT: reduce_window
  func.func @main(%x: tensor<4x7xf32>, %c: tensor<4xf32>, %y: tensor<4x?xf32>) -> tensor<4x7xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %e = stablehlo.composite "chlo.erf" %x {decomposition = @one} : (tensor<4x7xf32>) -> tensor<4x7xf32>
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
    %7 = stablehlo.tanh %c : tensor<4xf32>
    %8:2 = "stablehlo.composite"(%x, %7) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = false}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %s = stablehlo.add %a, %b : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    %9:2 = "stablehlo.composite"(%x, %0) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = false}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %s = stablehlo.maximum %a, %b : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    %10:2 = "stablehlo.composite"(%x, %0) <{composite_attributes = {dimension = 1 : i64}, decomposition = @loop, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %s = stablehlo.add %a, %b : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    %11:2 = stablehlo.composite "chlo.scan" %x, %0 {composite_attributes = {dimension = 1 : i64, is_associative = true}, decomposition = @loop} : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    %12:2 = "stablehlo.composite"(%y, %0) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = false}, decomposition = @any, name = "chlo.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %s = stablehlo.add %a, %b : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x?xf32>, tensor<4xf32>) -> (tensor<4x?xf32>, tensor<4xf32>)
    %13:2 = "stablehlo.composite"(%x, %0) <{composite_attributes = {dimension = 1 : i64, is_associative = true, is_reverse = false}, decomposition = @loop, name = "acme.scan", version = 1 : i32}> ({
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %s = stablehlo.add %a, %b : tensor<4xf32>
      stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<4x7xf32>, tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>)
    return %e : tensor<4x7xf32>
  }
  func.func private @one(%x: tensor<4x7xf32>) -> tensor<4x7xf32> {
    return %x : tensor<4x7xf32>
  }
  func.func private @any(%x: tensor<4x?xf32>, %c: tensor<4xf32>) -> (tensor<4x?xf32>, tensor<4xf32>) {
    return %x, %c : tensor<4x?xf32>, tensor<4xf32>
  }
  func.func private @loop(%x: tensor<4x7xf32>, %c: tensor<4xf32>) -> (tensor<4x7xf32>, tensor<4xf32>) {
    return %x, %c : tensor<4x7xf32>, tensor<4xf32>
  }
}
