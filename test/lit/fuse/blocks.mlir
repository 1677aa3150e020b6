// RUN: hespas-opt %s --fuse --split-input-file | filecheck %s

/// A call does not stand between kernels.

// CHECK-LABEL: module @call
module @call {
  // CHECK: func.func @main
  // CHECK: "mhlo.fusion"(%arg0)
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: stablehlo.negate
  // CHECK-NEXT: stablehlo.constant
  // CHECK-NEXT: stablehlo.maximum
  // CHECK-NEXT: stablehlo.maximum
  // CHECK-NOT: call
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = stablehlo.negate %x : tensor<64xf32>
    %1 = func.call @relu(%0) : (tensor<64xf32>) -> tensor<64xf32>
    %2 = func.call @relu(%1) : (tensor<64xf32>) -> tensor<64xf32>
    return %2 : tensor<64xf32>
  }
  func.func private @relu(%x: tensor<64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<64xf32>
    %0 = stablehlo.maximum %x, %zero : tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

/// The gradient of a max pooling: the places of the maxima, then a scatter.

// CHECK-LABEL: module @pooling
module @pooling {
  // CHECK: %[[W:.*]]:5 = "mhlo.fusion"(%arg0)
  // CHECK-COUNT-4: stablehlo.iota
  // CHECK: stablehlo.reduce_window
  // CHECK: "mhlo.fusion"(
  // CHECK: stablehlo.concatenate
  // CHECK: stablehlo.scatter
  // CHECK: {hespas.kernel = {kind = "scatter"}}
  // CHECK-NOT: select_and_scatter
  func.func @main(%x: tensor<2x9x9x4xf32>, %g: tensor<2x4x4x4xf32>) -> tensor<2x9x9x4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
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

/// Equal branches become one, and a loop that nothing needs goes. The second result is a copy.

// CHECK-LABEL: module @equal_branches
module @equal_branches {
  // CHECK: func.func @main
  // CHECK-NEXT: %[[I:.*]] = "stablehlo.if"(%arg0) ({
  // CHECK-NEXT: "mhlo.fusion"(%arg1)
  // CHECK-NOT: stablehlo.if
  // CHECK-NOT: stablehlo.while
  // CHECK: %[[C:.*]] = mhlo.copy %[[I]]
  // CHECK: return %[[I]], %[[C]]
  func.func @main(%p: tensor<i1>, %x: tensor<64xf32>, %n: tensor<i32>) -> (tensor<64xf32>, tensor<64xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64xf32>
     cond {
      %lt = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %a = stablehlo.add %v, %v : tensor<64xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<64xf32>
    }
    %0 = "stablehlo.if"(%p) ({
      %a = stablehlo.add %x, %x : tensor<64xf32>
      %b = stablehlo.tanh %a : tensor<64xf32>
      stablehlo.return %b : tensor<64xf32>
    }, {
      stablehlo.return %x : tensor<64xf32>
    }) : (tensor<i1>) -> tensor<64xf32>
    %1 = "stablehlo.if"(%p) ({
      %a = stablehlo.add %x, %x : tensor<64xf32>
      %b = stablehlo.tanh %a : tensor<64xf32>
      stablehlo.return %b : tensor<64xf32>
    }, {
      stablehlo.return %x : tensor<64xf32>
    }) : (tensor<i1>) -> tensor<64xf32>
    return %0, %1 : tensor<64xf32>, tensor<64xf32>
  }
}

// -----

/// A broadcast of a constant that a loop body captures, or receives as an operand that it does not
/// change, becomes part of the kernels of the body.

// CHECK-LABEL: module @constants
module @constants {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.maximum
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.minimum
  // CHECK: mhlo.return
  func.func @main(%a: tensor<4x64xf32>) -> tensor<4x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %low = stablehlo.constant dense<-1.0> : tensor<f32>
    %high = stablehlo.constant dense<1.0> : tensor<f32>
    %lows = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %highs = stablehlo.broadcast_in_dim %high, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %0:3 = stablehlo.while(%i = %zero, %x = %a, %most = %highs) : tensor<i32>, tensor<4x64xf32>, tensor<4x64xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1 = stablehlo.tanh %x : tensor<4x64xf32>
      %2 = stablehlo.maximum %1, %lows : tensor<4x64xf32>
      %3 = stablehlo.minimum %2, %most : tensor<4x64xf32>
      stablehlo.return %next, %3, %most : tensor<i32>, tensor<4x64xf32>, tensor<4x64xf32>
    }
    return %0#1 : tensor<4x64xf32>
  }
}
