// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s

/// Calls that only mark something go, also those of checks; a function that nothing calls goes with a
/// warning, and another call stays.

// CHECK: warning: the function @unused is not called from the entry function: removed
// CHECK: func.func public @main(%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT: %[[K:.*]] = stablehlo.custom_call @kernel(%[[T]])
// CHECK-NEXT: return %[[K]]
// CHECK-NOT: func.func
func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @LayoutConstraint(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.tanh %0 : tensor<8xf32>
  %2 = stablehlo.custom_call @kernel(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
func.func public @unused(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
