// RUN: hespas-opt %s --inline --split-input-file | filecheck %s
// RUN: hespas-opt %s -p "inline{max-iterations=2}" --split-input-file --verify-diagnostics
// RUN: hespas-opt %s -p "func.func(cse),builtin.module(inline)" --split-input-file | filecheck %s --check-prefix=AGAIN

/// The inliner of the bindings does nothing to calls of func: hespas inlines them, callees first, and erases what nothing
/// refers to any more.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: stablehlo.tanh %arg0 :
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: return
// CHECK-NOT: @f
// CHECK: func.func @public
// AGAIN-LABEL: func.func @main
// AGAIN-NOT: call
// AGAIN: func.func @public
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @public(%0) : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @public(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @public(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// As MLIR does, it leaves calls of functions that call themselves, or have no body, and calls that are marked.

// CHECK-LABEL: func.func @main
// CHECK: call @marked
// CHECK: call @outside
// CHECK: call @again
// CHECK: func.func private @marked
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "func.call"(%x) <{callee = @marked, no_inline}> : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @outside(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @again(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
func.func private @marked(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func private @outside(tensor<8xf32>) -> tensor<8xf32>
func.func private @again(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @other(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @again(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

/// A function of several blocks stays, which is said.

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-warning @+1 {{'inline' leaves calls, because the called functions have several blocks}}
  %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
^bb1:
  return %x : tensor<8xf32>
}
