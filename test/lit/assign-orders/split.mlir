// RUN: not hespas-opt %s --split-linear --assign-orders 2>&1 | filecheck %s

/// A split module is refused.

// CHECK: error: 'builtin.module': assign-orders: the module is already split
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
