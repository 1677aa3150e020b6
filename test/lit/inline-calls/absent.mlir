// RUN: hespas-opt %s --inline-calls | filecheck %s

/// A custom call may name a function that is not in the module: its target knows what it means.

// CHECK: stablehlo.custom_call @kernel(%{{.*}}) {called_computations = [@elsewhere]}
// CHECK-NEXT: return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @kernel(%x) {called_computations = [@elsewhere]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
