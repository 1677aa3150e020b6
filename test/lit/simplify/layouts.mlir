// RUN: hespas-opt %s --simplify=layouts | filecheck %s
// RUN: hespas-opt %s --simplify=layouts --simplify=layouts | filecheck %s
// RUN: hespas-opt %s --simplify | filecheck %s --check-prefix=BEFORE

/// A transpose before a broadcast becomes part of it, but with layouts it is a copy that stays if elements are repeated.

module @layouts {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0, dims = [1, 0]
  // CHECK: %[[U:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
  // CHECK: %[[R:.*]] = stablehlo.broadcast_in_dim %[[T]], dims = [2, 1] : (tensor<8x4xf32>) -> tensor<2x4x8xf32>
  // CHECK: return %[[U]], %[[R]]
  // BEFORE-NOT: stablehlo.transpose
  // BEFORE: %[[U:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [0, 2]
  // BEFORE: %[[R:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [1, 2]
  // BEFORE: return %[[U]], %[[R]]
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x1x8xf32>, tensor<2x4x8xf32>) {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [2, 0] : (tensor<8x4xf32>) -> tensor<4x1x8xf32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [2, 1] : (tensor<8x4xf32>) -> tensor<2x4x8xf32>
    return %1, %2 : tensor<4x1x8xf32>, tensor<2x4x8xf32>
  }
}
