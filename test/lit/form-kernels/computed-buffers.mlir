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

// -----

/// The kernel of an update reads the slice that it updates,

// CHECK-LABEL: module @same_slice
module @same_slice {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.dynamic_slice
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<4x1048576xf32>, %i: tensor<i32>) -> tensor<4x1048576xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 1048576] : (tensor<4x1048576xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1048576xf32>
    %1 = stablehlo.tanh %0 : tensor<1x1048576xf32>
    %2 = stablehlo.dynamic_update_slice %x, %1, %i, %zero : (tensor<4x1048576xf32>, tensor<1x1048576xf32>, tensor<i32>, tensor<i32>) -> tensor<4x1048576xf32>
    return %2 : tensor<4x1048576xf32>
  }
}

// -----

/// also if the place is known,

// CHECK-LABEL: module @known_place
module @known_place {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.slice
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<4x1048576xf32>) -> tensor<4x1048576xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.slice %x [2:3, 0:1048576] : (tensor<4x1048576xf32>) -> tensor<1x1048576xf32>
    %1 = stablehlo.tanh %0 : tensor<1x1048576xf32>
    %2 = stablehlo.dynamic_update_slice %x, %1, %two, %zero : (tensor<4x1048576xf32>, tensor<1x1048576xf32>, tensor<i32>, tensor<i32>) -> tensor<4x1048576xf32>
    return %2 : tensor<4x1048576xf32>
  }
}

// -----

/// not if it also updates a part of that slice: XLA does not see that the place is the same.

// CHECK-LABEL: module @token_of_layer
module @token_of_layer {
  // CHECK: %[[S:.*]]:2 = "mhlo.fusion"
  // CHECK: stablehlo.dynamic_slice
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: stablehlo.reduce
  // CHECK: "mhlo.fusion"({{.*}}%[[S]]#
  // CHECK-NOT: stablehlo.dynamic_slice
  // CHECK: stablehlo.dynamic_update_slice
  // CHECK: stablehlo.dynamic_update_slice
  func.func @main(%x: tensor<4x1024x1024xf32>, %u: tensor<1x1024xf32>, %i: tensor<i32>, %j: tensor<i32>) -> (tensor<1024xf32>, tensor<4x1024x1024xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 1024, 1024] : (tensor<4x1024x1024xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1024x1024xf32>
    %layer = stablehlo.reshape %0 : (tensor<1x1024x1024xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.dynamic_update_slice %layer, %u, %j, %zero : (tensor<1024x1024xf32>, tensor<1x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<1024x1024xf32>
    %2 = stablehlo.reduce(%1 init: %start) applies stablehlo.add across dimensions = [1] : (tensor<1024x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %part = stablehlo.reshape %1 : (tensor<1024x1024xf32>) -> tensor<1x1024x1024xf32>
    %3 = stablehlo.dynamic_update_slice %x, %part, %i, %zero, %zero : (tensor<4x1024x1024xf32>, tensor<1x1024x1024xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x1024x1024xf32>
    return %2, %3 : tensor<1024xf32>, tensor<4x1024x1024xf32>
  }
}

// -----

/// nor if the slice, a row, has another shape than what it updates, a column.

// CHECK-LABEL: module @reshaped_slice
module @reshaped_slice {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.slice %x [0:1, 0:1024] : (tensor<1024x1024xf32>) -> tensor<1x1024xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1024xf32>) -> tensor<1024x1xf32>
    %2 = stablehlo.dynamic_update_slice %x, %1, %zero, %zero : (tensor<1024x1024xf32>, tensor<1024x1xf32>, tensor<i32>, tensor<i32>) -> tensor<1024x1024xf32>
    return %2 : tensor<1024x1024xf32>
  }
}

// -----

/// A kernel that updates rows by their numbers computes no buffer.

// CHECK-LABEL: module @scattered
module @scattered {
  // CHECK: %[[Y:.*]] = stablehlo.tanh
  // CHECK: "stablehlo.scatter"(%[[Y]]
  func.func @main(%x: tensor<4096x1024xf32>, %i: tensor<16x1xi32>, %u: tensor<16x1024xf32>) -> tensor<4096x1024xf32> {
    %y = stablehlo.tanh %x : tensor<4096x1024xf32>
    %0 = "stablehlo.scatter"(%y, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<4096x1024xf32>, tensor<16x1xi32>, tensor<16x1024xf32>) -> tensor<4096x1024xf32>
    return %0 : tensor<4096x1024xf32>
  }
}
