// RUN: hespas-opt %s --simplify | filecheck %s
// RUN: hespas-opt %s --simplify --simplify | filecheck %s

/// Ops that differ by the order of their operands are equal, if the order does not matter.

// CHECK: %[[M:.*]] = stablehlo.multiply %arg0, %arg1
// CHECK-NEXT: %[[S:.*]] = stablehlo.subtract %arg0, %arg1
// CHECK-NEXT: %[[D:.*]] = stablehlo.subtract %arg1, %arg0
// CHECK-NEXT: return %[[M]], %[[M]], %[[S]], %[[D]]
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.multiply %x, %y : tensor<8xf32>
  %1 = stablehlo.multiply %y, %x : tensor<8xf32>
  %2 = stablehlo.subtract %x, %y : tensor<8xf32>
  %3 = stablehlo.subtract %y, %x : tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
