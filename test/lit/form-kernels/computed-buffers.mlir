// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// The kernels of all cases are those of jaxlib 0.12 for an H100.

/// The kernel of an update computes the buffer too, and writes all of it, if elementwise ops do,

// CHECK-LABEL: module @elementwise
module @elementwise {
  // CHECK: %[[F:.*]] = "mhlo.fusion"
  // CHECK: stablehlo.tanh
  // CHECK-NEXT: stablehlo.dynamic_update_slice
  // CHECK: return %[[F]]
  func.func @main(%x: tensor<4096x1024xf32>, %u: tensor<16x1024xf32>, %i: tensor<i32>) -> tensor<4096x1024xf32> {
    %y = stablehlo.tanh %x : tensor<4096x1024xf32>
    %0 = stablehlo.dynamic_update_slice %y, %u, %i, %i : (tensor<4096x1024xf32>, tensor<16x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<4096x1024xf32>
    return %0 : tensor<4096x1024xf32>
  }
}

// -----

/// also if other kernels compute it again;

// CHECK-LABEL: module @repeated
module @repeated {
  // CHECK: %[[F:.*]] = "mhlo.fusion"
  // CHECK: stablehlo.tanh
  // CHECK-NEXT: stablehlo.dynamic_update_slice
  // CHECK: %[[G:.*]] = "mhlo.fusion"
  // CHECK: stablehlo.tanh
  // CHECK: return %[[F]], %[[G]]
  func.func @main(%x: tensor<4096x1024xf32>, %u: tensor<16x1024xf32>, %i: tensor<i32>) -> (tensor<4096x1024xf32>, tensor<4096x1024xf32>) {
    %y = stablehlo.tanh %x : tensor<4096x1024xf32>
    %0 = stablehlo.dynamic_update_slice %y, %u, %i, %i : (tensor<4096x1024xf32>, tensor<16x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<4096x1024xf32>
    %1 = stablehlo.sine %y : tensor<4096x1024xf32>
    return %0, %1 : tensor<4096x1024xf32>, tensor<4096x1024xf32>
  }
}

// -----

/// not if one of them reads a constant, whose broadcast is not elementwise.

// CHECK-LABEL: module @constant
module @constant {
  // CHECK: %[[M:.*]] = "mhlo.fusion"
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.dynamic_update_slice %[[M]]
  func.func @main(%x: tensor<4096x1024xf32>, %u: tensor<16x1024xf32>, %i: tensor<i32>) -> tensor<4096x1024xf32> {
    %two = stablehlo.constant dense<2.0> : tensor<f32>
    %c = stablehlo.broadcast_in_dim %two, dims = [] : (tensor<f32>) -> tensor<4096x1024xf32>
    %y = stablehlo.multiply %x, %c : tensor<4096x1024xf32>
    %0 = stablehlo.dynamic_update_slice %y, %u, %i, %i : (tensor<4096x1024xf32>, tensor<16x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<4096x1024xf32>
    return %0 : tensor<4096x1024xf32>
  }
}

// -----

/// A buffer that is returned too is the second result.

// CHECK-LABEL: module @returned
module @returned {
  // CHECK: %[[F:.*]]:2 = "mhlo.fusion"
  // CHECK: stablehlo.tanh
  // CHECK-NEXT: stablehlo.dynamic_update_slice
  // CHECK: return %[[F]]#{{[01]}}, %[[F]]#{{[01]}}
  func.func @main(%x: tensor<4096x1024xf32>, %u: tensor<16x1024xf32>, %i: tensor<i32>) -> (tensor<4096x1024xf32>, tensor<4096x1024xf32>) {
    %y = stablehlo.tanh %x : tensor<4096x1024xf32>
    %0 = stablehlo.dynamic_update_slice %y, %u, %i, %i : (tensor<4096x1024xf32>, tensor<16x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<4096x1024xf32>
    return %0, %y : tensor<4096x1024xf32>, tensor<4096x1024xf32>
  }
}
