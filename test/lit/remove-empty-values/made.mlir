// RUN: hespas-opt %s --remove-empty-values --trivial-dce | filecheck %s
// RUN: hespas-opt %s --remove-empty-values --remove-empty-values --trivial-dce | filecheck %s

/// No argument need be empty: a slice of no columns is. What has no type of a tensor, such as a token, stays.

// CHECK: stablehlo.create_token
// CHECK-NOT: stablehlo.slice
// CHECK-NOT: stablehlo.concatenate
// CHECK: return %arg0, %{{.*}} : tensor<8x4xf32>, !stablehlo.token
func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, !stablehlo.token) {
  %t = stablehlo.create_token : !stablehlo.token
  %0 = stablehlo.slice %x [0:8, 2:2] : (tensor<8x4xf32>) -> tensor<8x0xf32>
  %1 = stablehlo.concatenate %0, %x, dim = 1 : (tensor<8x0xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1, %t : tensor<8x4xf32>, !stablehlo.token
}
