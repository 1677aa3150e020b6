// RUN: hespas-opt %s --remove-empty-values | filecheck %s
// RUN: hespas-opt %s --remove-empty-values --remove-empty-values | filecheck %s

/// Each result of a reduction of two values without elements is what it starts from.

// CHECK: %[[A:.*]] = stablehlo.broadcast_in_dim %arg2, dims = []
// CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %arg3, dims = []
// CHECK: return %[[A]], %[[B]]
func.func @main(%x: tensor<4x0xf32>, %y: tensor<4x0xi32>, %low: tensor<f32>, %zero: tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0:2 = stablehlo.reduce(%x init: %low), (%y init: %zero) across dimensions = [1] : (tensor<4x0xf32>, tensor<4x0xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    %2 = stablehlo.maximum %c, %d : tensor<i32>
    stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
}
