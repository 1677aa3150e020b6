// RUN: hespas-opt %s --inline-all-calls --split-input-file | filecheck %s
// RUN: hespas-opt %s --inline-all-calls --inline-all-calls --split-input-file | filecheck %s

/// A function that is called twice is in both places, and no longer on its own.

// CHECK-LABEL: module @twice
module @twice {
  // CHECK: func.func @main(%[[X:.*]]: tensor<8xf32>)
  // CHECK-NEXT: %[[A:.*]] = stablehlo.tanh %[[X]]
  // CHECK-NEXT: %[[B:.*]] = stablehlo.tanh %[[A]]
  // CHECK-NEXT: return %[[B]]
  // CHECK-NOT: func.func
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = func.call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Callees come first: what a called function calls is inlined into it, whichever stands first.

// CHECK-LABEL: module @nested
module @nested {
  // CHECK: func.func @main
  // CHECK-COUNT-4: stablehlo.cosine
  // CHECK-NEXT: return
  // CHECK-NOT: func.func
  func.func private @inner(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.cosine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = func.call @outer(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = func.call @outer(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @outer(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = func.call @inner(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = func.call @inner(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

/// Calls in loops and branches are inlined too, into the region that has them.

// CHECK-LABEL: module @regions
module @regions {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK: stablehlo.tanh
  // CHECK: stablehlo.return
  // CHECK: "stablehlo.if"
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: stablehlo.return
  // CHECK-NOT: call
  func.func @main(%x: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %a = func.call @f(%v) : (tensor<8xf32>) -> tensor<8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<8xf32>
    }
    %1 = "stablehlo.if"(%p) ({
      %b = func.call @f(%0#1) : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %b : tensor<8xf32>
    }, {
      stablehlo.return %x : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// The entry function stays whatever it is called.

// CHECK-LABEL: module @entry
module @entry {
  // CHECK: func.func public @forward
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NOT: func.func
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func public @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = func.call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
