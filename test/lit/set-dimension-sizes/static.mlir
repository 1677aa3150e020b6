// RUN: hespas-opt %s --set-dimension-sizes 2>&1 | filecheck %s
// RUN: not hespas-opt %s --set-dimension-sizes=dims=b=8 2>&1 | filecheck %s --check-prefix=UNUSED

/// A module with static shapes stays as it is, tokens and all; a size that nothing uses is an error.

// UNUSED: error: prepare: dims=b=8, but the module has no symbolic dimensions
// CHECK-NOT: warning
// CHECK: func.func public @main(%[[X:.*]]: tensor<4xf32>, %[[T:.*]]: !stablehlo.token) -> tensor<4xf32> {
// CHECK-NEXT: return %[[X]]
func.func public @main(%x: tensor<4xf32>, %t: !stablehlo.token) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
