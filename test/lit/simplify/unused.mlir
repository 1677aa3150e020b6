// RUN: hespas-opt %s --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify --simplify --split-input-file | filecheck %s

/// All ops of a chain go that nothing reads, also in a loop; what has side effects stays.

// CHECK-LABEL: module @chain
module @chain {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK-NEXT: stablehlo.constant
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: stablehlo.return
  // CHECK: stablehlo.custom_call @log
  // CHECK-NEXT: return
  func.func @main(%x: tensor<8xf32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %a = stablehlo.tanh %x : tensor<8xf32>
      %b = stablehlo.negate %a : tensor<8xf32>
      %c = stablehlo.cosine %b : tensor<8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    %1 = stablehlo.tanh %x : tensor<8xf32>
    %2 = stablehlo.negate %1 : tensor<8xf32>
    %3 = stablehlo.cosine %2 : tensor<8xf32>
    stablehlo.custom_call @log(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
    return %0 : tensor<i32>
  }
}

// -----

/// A loop that nothing needs goes, and of equal branches, which an unused op does not make unequal, one
/// stays.

// CHECK-LABEL: module @control
module @control {
  // CHECK-NOT: stablehlo.while
  // CHECK: %[[I:.*]] = "stablehlo.if"(%arg0)
  // CHECK-NOT: stablehlo.if
  // CHECK: return %[[I]], %[[I]]
  func.func @main(%p: tensor<i1>, %x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
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
      %a = stablehlo.tanh %x : tensor<64xf32>
      stablehlo.return %a : tensor<64xf32>
    }, {
      stablehlo.return %x : tensor<64xf32>
    }) : (tensor<i1>) -> tensor<64xf32>
    %1 = "stablehlo.if"(%p) ({
      %a = stablehlo.tanh %x : tensor<64xf32>
      %b = stablehlo.cosine %x : tensor<64xf32>
      stablehlo.return %a : tensor<64xf32>
    }, {
      stablehlo.return %x : tensor<64xf32>
    }) : (tensor<i1>) -> tensor<64xf32>
    return %0, %1 : tensor<64xf32>, tensor<64xf32>
  }
}
