// RUN: hespas-opt %s --copy-carried-values --split-input-file | filecheck %s

/// The copies of all cases are those of jaxlib 0.12 for an H100.

/// A result is written over the argument that is donated to it, where it needs the same elements.

// CHECK-LABEL: module @elementwise
module @elementwise {
  // CHECK-NOT: mhlo.copy
  func.func @main(%x: tensor<512x512xf32> {tf.aliasing_output = 0 : i32}) -> tensor<512x512xf32> {
    %0 = stablehlo.tanh %x : tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
}

// -----

/// Otherwise it is copied there.

// CHECK-LABEL: module @transposed
module @transposed {
  // CHECK: %[[T:.*]] = stablehlo.transpose
  // CHECK: %[[C:.*]] = {{.*}}mhlo.copy{{.*}}%[[T]]
  // CHECK: return %[[C]]
  func.func @main(%x: tensor<512x512xf32> {tf.aliasing_output = 0 : i32}) -> tensor<512x512xf32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<512x512xf32>) -> tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
}

// -----

/// An argument that is not donated keeps its value.

// CHECK-LABEL: module @kept
module @kept {
  // CHECK-NOT: mhlo.copy
  func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<512x512xf32>) -> tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
}

// -----

/// A reader may run before the op that makes the result, unless it needs that.

// CHECK-LABEL: module @readers
module @readers {
  // CHECK: %[[A:.*]] = stablehlo.add
  // CHECK: %[[C:.*]] = {{.*}}mhlo.copy{{.*}}%[[T:.*]] :
  // CHECK: return %[[A]], %[[C]]
  func.func @main(%x: tensor<512x512xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<512x512xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) {
    %0 = stablehlo.add %x, %x : tensor<512x512xf32>
    %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %2 = stablehlo.tanh %y : tensor<512x512xf32>
    %3 = stablehlo.dot_general %2, %y, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    return %0, %2, %3 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>
  }
}

// -----

/// A loop reads a cache to its last step, and writes the new one elsewhere.

// CHECK-LABEL: module @layers
module @layers {
  // CHECK: %[[W:.*]]:3 = stablehlo.while
  // CHECK: %[[C:.*]] = {{.*}}mhlo.copy{{.*}}%[[W]]#2
  // CHECK: return %[[C]]
  func.func @main(%x: tensor<4x512xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4x512xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<f32>
    %empty = stablehlo.broadcast_in_dim %start, dims = [] : (tensor<f32>) -> tensor<4x512xf32>
    %0:3 = stablehlo.while(%i = %zero, %old = %x, %new = %empty) : tensor<i32>, tensor<4x512xf32>, tensor<4x512xf32>
    cond {
      %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %1 = stablehlo.dynamic_slice %old, %i, %zero, sizes = [1, 512] : (tensor<4x512xf32>, tensor<i32>, tensor<i32>) -> tensor<1x512xf32>
      %2 = stablehlo.tanh %1 : tensor<1x512xf32>
      %3 = stablehlo.dynamic_update_slice %new, %2, %i, %zero : (tensor<4x512xf32>, tensor<1x512xf32>, tensor<i32>, tensor<i32>) -> tensor<4x512xf32>
      %4 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %4, %old, %3 : tensor<i32>, tensor<4x512xf32>, tensor<4x512xf32>
    }
    return %0#2 : tensor<4x512xf32>
  }
}

// -----

/// A result that is an argument, or a view of one, is copied, also a single number; one that replaces it
/// is not.

// CHECK-LABEL: module @returned_arguments
module @returned_arguments {
  // CHECK: %[[V:.*]] = stablehlo.reshape %arg1
  // CHECK-DAG: %[[A:.*]] = mhlo.copy %arg0
  // CHECK-DAG: %[[B:.*]] = mhlo.copy %[[V]]
  // CHECK-DAG: %[[N:.*]] = mhlo.copy %arg2
  // CHECK-NOT: mhlo.copy
  // CHECK: return %[[A]], %[[B]], %[[N]], %arg3
  func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %n: tensor<i32>, %z: tensor<8x8xf32> {tf.aliasing_output = 3 : i32}) -> (tensor<8x8xf32>, tensor<64xf32>, tensor<i32>, tensor<8x8xf32>) {
    %0 = stablehlo.reshape %y : (tensor<8x8xf32>) -> tensor<64xf32>
    return %x, %0, %n, %z : tensor<8x8xf32>, tensor<64xf32>, tensor<i32>, tensor<8x8xf32>
  }
}

// -----

/// So is a value that is returned once more; the first of them, or what replaces an argument, is not.

// CHECK-LABEL: module @returned_twice
module @returned_twice {
  // CHECK: %[[T:.*]] = stablehlo.tanh
  // CHECK: %[[E:.*]] = stablehlo.exponential
  // CHECK-DAG: %[[A:.*]] = mhlo.copy %[[T]]
  // CHECK-DAG: %[[B:.*]] = mhlo.copy %[[E]]
  // CHECK-NOT: mhlo.copy
  // CHECK: return %[[T]], %[[A]], %[[B]], %[[E]]
  func.func @main(%x: tensor<8x8xf32>, %z: tensor<8x8xf32> {tf.aliasing_output = 3 : i32}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.tanh %x : tensor<8x8xf32>
    %1 = stablehlo.exponential %z : tensor<8x8xf32>
    return %0, %0, %1, %1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}
