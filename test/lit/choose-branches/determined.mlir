// RUN: hespas-opt %s --prepare --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare --prepare --split-input-file 2>&1 | filecheck %s

/// A selector that the IR determines runs its branch, whatever work the others have; what somebody states still
/// holds, with a warning.

// CHECK: warning: stablehlo.case ({{.*}}determined.mlir:[[# @LINE + 57]]:10) runs branch 0, and hespas.branch states 1, which is used
// CHECK-NOT: warning

// CHECK-LABEL: module @case
// CHECK: {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64} : (tensor<i32>)
module @case {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %n = stablehlo.constant dense<0> : tensor<i32>
    %0 = "stablehlo.case"(%n) ({
      stablehlo.return %x : tensor<64x64xf32>
    }, {
      %1 = stablehlo.tanh %x : tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }) : (tensor<i32>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}

// -----

/// A case out of range runs the last branch, and the selector of a called function is that of all its calls.

// CHECK-LABEL: module @if
// CHECK: {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} : (tensor<i32>)
// CHECK: {hespas.branch = 1 : i64, hespas.branch_found = 1 : i64} : (tensor<i1>)
module @if {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %n = stablehlo.constant dense<-4> : tensor<i32>
    %p = stablehlo.constant dense<false> : tensor<i1>
    %0 = "stablehlo.case"(%n) ({
      %1 = stablehlo.tanh %x : tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }, {
      stablehlo.return %x : tensor<64x64xf32>
    }) : (tensor<i32>) -> tensor<64x64xf32>
    %2 = call @f(%p, %0) : (tensor<i1>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = call @f(%p, %2) : (tensor<i1>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
  func.func private @f(%p: tensor<i1>, %x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.tanh %x : tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }, {
      stablehlo.return %x : tensor<64x64xf32>
    }) : (tensor<i1>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @stated
// CHECK: {hespas.branch = 1 : i64} : (tensor<i32>)
module @stated {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %n = stablehlo.constant dense<0> : tensor<i32>
    %0 = "stablehlo.case"(%n) ({
      stablehlo.return %x : tensor<64x64xf32>
    }, {
      %1 = stablehlo.tanh %x : tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }) {hespas.branch = 1 : i64} : (tensor<i32>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}

// -----

/// An if whose selector is true runs its first branch. Who states the branch that runs is not contradicted.

// CHECK-LABEL: module @true
// CHECK: {hespas.branch = 0 : i64, hespas.branch_found = 0 : i64} : (tensor<i1>)
// CHECK: {hespas.branch = 0 : i64} : (tensor<i1>)
module @true {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %p = stablehlo.constant dense<true> : tensor<i1>
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %x : tensor<64x64xf32>
    }, {
      %1 = stablehlo.tanh %x : tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }) : (tensor<i1>) -> tensor<64x64xf32>
    %2 = "stablehlo.if"(%p) ({
      stablehlo.return %0 : tensor<64x64xf32>
    }, {
      %1 = stablehlo.tanh %0 : tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }) {hespas.branch = 0 : i64} : (tensor<i1>) -> tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}
