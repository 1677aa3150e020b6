// RUN: hespas-opt %s --inline --split-input-file --verify-diagnostics
// RUN: hespas-opt %s -p "func.func(cse),inline{max-iterations=2}" --split-input-file --verify-diagnostics
// RUN: hespas-opt %s --inline-all-calls --split-input-file | filecheck %s

/// The inliner of the bindings does nothing to calls of func, which is said; the one of hespas inlines them.

// CHECK-NOT: call @
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-warning @+1 {{'inline' leaves calls, because the bindings of jaxlib lack the inliner of func; --inline-all-calls inlines them}}
  %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
