// RUN: hespas-opt %s --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify --simplify --split-input-file | filecheck %s

/// What is written at a constant place of equal elements is padded; a place outside is moved inside.

// CHECK-LABEL: module @padded
module @padded {
  // CHECK: stablehlo.pad %arg0, %{{.*}}, low = [4, 0], high = [4, 3], interior = [0, 0]
  // CHECK: stablehlo.pad %arg0, %arg1, low = [8, 0], high = [0, 3], interior = [0, 0]
  func.func @main(%u: tensor<2x5xf32>, %k: tensor<f32>) -> (tensor<10x8xf32>, tensor<10x8xf32>) {
    %zeros = stablehlo.constant dense<0.0> : tensor<10x8xf32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %twenty = stablehlo.constant dense<20> : tensor<i32>
    %negative = stablehlo.constant dense<-1> : tensor<i32>
    %filled = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<10x8xf32>
    %0 = stablehlo.dynamic_update_slice %zeros, %u, %four, %negative : (tensor<10x8xf32>, tensor<2x5xf32>, tensor<i32>, tensor<i32>) -> tensor<10x8xf32>
    %1 = stablehlo.dynamic_update_slice %filled, %u, %twenty, %negative : (tensor<10x8xf32>, tensor<2x5xf32>, tensor<i32>, tensor<i32>) -> tensor<10x8xf32>
    return %0, %1 : tensor<10x8xf32>, tensor<10x8xf32>
  }
}

// -----

/// What is written at another place, or between elements that are not equal, is not.

// CHECK-LABEL: module @written
module @written {
  // CHECK-COUNT-3: stablehlo.dynamic_update_slice
  func.func @main(%u: tensor<2x5xf32>, %x: tensor<10x8xf32>, %row: tensor<8xf32>, %i: tensor<i32>) -> (tensor<10x8xf32>, tensor<10x8xf32>, tensor<10x8xf32>) {
    %zeros = stablehlo.constant dense<0.0> : tensor<10x8xf32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %filled = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<8xf32>) -> tensor<10x8xf32>
    %0 = stablehlo.dynamic_update_slice %zeros, %u, %four, %i : (tensor<10x8xf32>, tensor<2x5xf32>, tensor<i32>, tensor<i32>) -> tensor<10x8xf32>
    %1 = stablehlo.dynamic_update_slice %filled, %u, %four, %four : (tensor<10x8xf32>, tensor<2x5xf32>, tensor<i32>, tensor<i32>) -> tensor<10x8xf32>
    %2 = stablehlo.dynamic_update_slice %x, %u, %four, %four : (tensor<10x8xf32>, tensor<2x5xf32>, tensor<i32>, tensor<i32>) -> tensor<10x8xf32>
    return %0, %1, %2 : tensor<10x8xf32>, tensor<10x8xf32>, tensor<10x8xf32>
  }
}

// -----

/// Slices and updates of the whole are no ops.

// CHECK-LABEL: module @whole
module @whole {
  // CHECK-NOT: dynamic
  // CHECK: return %arg0, %arg1
  func.func @main(%x: tensor<10x8xf32>, %u: tensor<10x8xf32>, %i: tensor<i32>) -> (tensor<10x8xf32>, tensor<10x8xf32>) {
    %0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [10, 8] : (tensor<10x8xf32>, tensor<i32>, tensor<i32>) -> tensor<10x8xf32>
    %1 = stablehlo.dynamic_update_slice %x, %u, %i, %i : (tensor<10x8xf32>, tensor<10x8xf32>, tensor<i32>, tensor<i32>) -> tensor<10x8xf32>
    return %0, %1 : tensor<10x8xf32>, tensor<10x8xf32>
  }
}
