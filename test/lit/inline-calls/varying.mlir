// RUN: hespas-opt %s --prepare --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --inline-calls=single=false --split-input-file | filecheck %s --check-prefix=KEEP
// RUN: hespas-opt %s --prepare --prepare --split-input-file 2>&1 | filecheck %s

/// A function whose loop runs as often as its call says is inlined where calls differ.

// CHECK-NOT: assumed
// CHECK-LABEL: module @bounds
// CHECK: hespas.trips = 3 : i64
// CHECK: hespas.trips = 7 : i64
// CHECK-NOT: func.func private
/// It is no function that is called once, and gets no copies.
// KEEP-LABEL: module @bounds
// KEEP-COUNT-2: stablehlo.while
// KEEP-NOT: func.func private
module @bounds {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %0 = call @repeat(%x, %three) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @repeat(%0, %seven) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
  func.func private @repeat(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32> cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}

// -----

/// The loop may be in a function that it calls.

// CHECK-LABEL: module @nested
// KEEP-LABEL: module @nested
// CHECK: hespas.trips = 3 : i64
// CHECK: hespas.trips = 7 : i64
module @nested {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %0 = call @outer(%x, %three) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @outer(%0, %seven) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
  func.func private @outer(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> {
    %0 = call @repeat(%x, %n) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
  func.func private @repeat(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32> cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}

// -----

/// So is one whose branch a call selects; one that all calls run alike stays.

// CHECK-LABEL: module @branches
// CHECK: {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64}
// CHECK: {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64}
// CHECK-NOT: func.func private @choose
// CHECK: func.func private @alike
module @branches {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %yes = stablehlo.constant dense<true> : tensor<i1>
    %no = stablehlo.constant dense<false> : tensor<i1>
    %0 = call @choose(%yes, %x) : (tensor<i1>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = call @choose(%no, %0) : (tensor<i1>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = call @alike(%no, %1) : (tensor<i1>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = call @alike(%no, %2) : (tensor<i1>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
  func.func private @choose(%p: tensor<i1>, %x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.tanh %x : tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }, {
      stablehlo.return %x : tensor<64x64xf32>
    }) : (tensor<i1>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
  func.func private @alike(%p: tensor<i1>, %x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.sine %x : tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }, {
      stablehlo.return %x : tensor<64x64xf32>
    }) : (tensor<i1>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}
