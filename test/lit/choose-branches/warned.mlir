// RUN: hespas-opt %s --prepare --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare --prepare --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=WARN

/// A branch may follow from the counters of the loops around it. If it is the same in all iterations, it is determined.

// WARN-NOT: @same
// CHECK-LABEL: module @same
// CHECK: {hespas.branch = 1 : i64
module @same {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64x64xf32>
    cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %p = stablehlo.compare GE, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %1 = "stablehlo.if"(%p) ({
        %t = stablehlo.tanh %v : tensor<64x64xf32>
        stablehlo.return %t : tensor<64x64xf32>
      }, {
        stablehlo.return %v : tensor<64x64xf32>
      }) : (tensor<i1>) -> tensor<64x64xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}

// -----

/// If several branches run, the heaviest is assumed in all iterations, and a warning says how often it runs.

// WARN: warning: stablehlo.case ({{.*}}warned.mlir:[[# @LINE + 16]]:12) runs branch 1 in 2 of 8 iterations: the heaviest, 1, is assumed throughout, so that the time can be too long; state another in hespas.branch
// CHECK-LABEL: module @several
// CHECK: {hespas.branch = 1 : i64
module @several {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64x64xf32>
    cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %r = stablehlo.remainder %i, %four : tensor<i32>
      %p = stablehlo.compare EQ, %r, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %k = stablehlo.convert %p : (tensor<i1>) -> tensor<i32>
      %1 = "stablehlo.case"(%k) ({
        stablehlo.return %v : tensor<64x64xf32>
      }, {
        %t = stablehlo.tanh %v : tensor<64x64xf32>
        stablehlo.return %t : tensor<64x64xf32>
      }) : (tensor<i32>) -> tensor<64x64xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}

// -----

/// Data decides, and branches that are about as heavy need no warning.

// WARN: warning: stablehlo.if ({{.*}}warned.mlir:[[# @LINE + 7]]:10) runs a branch that data selects: the heaviest, 0, is assumed throughout, so that the time can be too long; state another in hespas.branch
// WARN-NOT: warning
// CHECK-LABEL: module @data
// CHECK: {hespas.branch = 0 : i64
// CHECK: {hespas.branch = 0 : i64
module @data {
  func.func @main(%x: tensor<64x64xf32>, %p: tensor<i1>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %0 = "stablehlo.if"(%p) ({
      %t = stablehlo.tanh %x : tensor<64x64xf32>
      stablehlo.return %t : tensor<64x64xf32>
    }, {
      stablehlo.return %x : tensor<64x64xf32>
    }) : (tensor<i1>) -> tensor<64x64xf32>
    %1 = "stablehlo.if"(%p) ({
      %t = stablehlo.tanh %x : tensor<64x64xf32>
      stablehlo.return %t : tensor<64x64xf32>
    }, {
      %t = stablehlo.exponential %x : tensor<64x64xf32>
      stablehlo.return %t : tensor<64x64xf32>
    }) : (tensor<i1>) -> tensor<64x64xf32>
    return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
  }
}
