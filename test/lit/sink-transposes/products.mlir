// RUN: hespas-opt %s --sink-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-transposes --sink-transposes --split-input-file | filecheck %s

/// A sum of two transposed results is computed in their order, and a product of two in its own.

// CHECK-LABEL: module @both
module @both {
  // CHECK: stablehlo.dot_general %arg0, %arg1
  // CHECK: stablehlo.dot_general %arg0, %arg2
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.add %{{.*}} : tensor<6x16x3xf32>
  // CHECK-NEXT: stablehlo.transpose
  // CHECK: stablehlo.dot_general {{.*}} batching_dims = [0] x [0], contracting_dims = [2] x [2]
  // CHECK: return
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>, %v: tensor<8x16x3xf32>) -> tensor<3x6x6xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<6x16x3xf32>) -> tensor<3x6x16xf32>
    %2 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %3 = stablehlo.transpose %2, dims = [2, 0, 1] : (tensor<6x16x3xf32>) -> tensor<3x6x16xf32>
    %4 = stablehlo.add %1, %3 : tensor<3x6x16xf32>
    %5 = stablehlo.dot_general %4, %3, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<3x6x16xf32>, tensor<3x6x16xf32>) -> tensor<3x6x6xf32>
    return %5 : tensor<3x6x6xf32>
  }
}

// -----

/// What both need is transposed once.

// CHECK-LABEL: module @bytes
module @bytes {
  // CHECK: stablehlo.dot_general %arg0, %arg1
  // CHECK: stablehlo.dot_general %arg0, %arg2
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: stablehlo.transpose
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>, %v: tensor<8x16x3xf32>) -> tensor<3x6x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<6x16x3xf32>) -> tensor<3x6x16xf32>
    %2 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %3 = stablehlo.transpose %2, dims = [2, 0, 1] : (tensor<6x16x3xf32>) -> tensor<3x6x16xf32>
    %4 = stablehlo.add %1, %3 : tensor<3x6x16xf32>
    return %4 : tensor<3x6x16xf32>
  }
}

// -----

/// Merged dimensions are contracted part by part, with an operand in its plain order, which is divided too,

// CHECK-LABEL: module @merged
module @merged {
  // CHECK: stablehlo.dot_general %arg0, %arg1
  // CHECK: stablehlo.tanh %{{.*}} : tensor<2x6x4x16x3x2xf32>
  // CHECK: stablehlo.reshape %arg2 : (tensor<2x5x96xf32>) -> tensor<2x5x3x16x2xf32>
  // CHECK: stablehlo.dot_general %{{.*}}, batching_dims = [0] x [0], contracting_dims = [4, 3, 5] x [2, 3, 4] : (tensor<2x6x4x16x3x2xf32>, tensor<2x5x3x16x2xf32>) -> tensor<2x6x4x5xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: return
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<2x8x4x16x3x2xf32>, %u: tensor<2x5x96xf32>) -> tensor<2x6x4x5xf32> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x4x16x3x2xf32>) -> tensor<2x6x4x16x3x2xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1, 4, 3, 5] : (tensor<2x6x4x16x3x2xf32>) -> tensor<2x4x6x3x16x2xf32>
    %2 = stablehlo.tanh %1 : tensor<2x4x6x3x16x2xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x4x6x3x16x2xf32>) -> tensor<2x4x6x96xf32>
    %4 = stablehlo.dot_general %3, %u, batching_dims = [0] x [0], contracting_dims = [3] x [2] : (tensor<2x4x6x96xf32>, tensor<2x5x96xf32>) -> tensor<2x4x6x5xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1, 3] : (tensor<2x4x6x5xf32>) -> tensor<2x6x4x5xf32>
    return %5 : tensor<2x6x4x5xf32>
  }
}

// -----

/// if the innermost one is the same in memory.

// CHECK-LABEL: module @innermost
module @innermost {
  // CHECK: stablehlo.tanh %{{.*}} : tensor<2x6x4x16x3xf32>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 1, 4, 3]
  // CHECK: stablehlo.dot_general {{.*}} (tensor<2x4x6x48xf32>, tensor<2x5x48xf32>) -> tensor<2x4x6x5xf32>
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<2x8x4x16x3xf32>, %u: tensor<2x5x48xf32>) -> tensor<2x6x4x5xf32> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x4x16x3xf32>) -> tensor<2x6x4x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1, 4, 3] : (tensor<2x6x4x16x3xf32>) -> tensor<2x4x6x3x16xf32>
    %2 = stablehlo.tanh %1 : tensor<2x4x6x3x16xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x4x6x3x16xf32>) -> tensor<2x4x6x48xf32>
    %4 = stablehlo.dot_general %3, %u, batching_dims = [0] x [0], contracting_dims = [3] x [2] : (tensor<2x4x6x48xf32>, tensor<2x5x48xf32>) -> tensor<2x4x6x5xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1, 3] : (tensor<2x4x6x5xf32>) -> tensor<2x6x4x5xf32>
    return %5 : tensor<2x6x4x5xf32>
  }
}

// -----

/// A product of matrices reads its operand in the order of its dimensions.

// CHECK-LABEL: module @matrices
module @matrices {
  // CHECK: stablehlo.tanh %{{.*}} : tensor<6x4x16xf32>
  // CHECK-NEXT: stablehlo.transpose %{{.*}}, dims = [1, 0, 2]
  // CHECK: stablehlo.dot_general {{.*}} (tensor<4x6x16xf32>, tensor<5x16xf32>) -> tensor<4x6x5xf32>
  // CHECK: stablehlo.transpose
  // CHECK: return
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x4x16xf32>, %u: tensor<5x16xf32>) -> tensor<6x4x5xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x4x16xf32>) -> tensor<6x4x16xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<6x4x16xf32>) -> tensor<4x6x16xf32>
    %2 = stablehlo.tanh %1 : tensor<4x6x16xf32>
    %3 = stablehlo.dot_general %2, %u, contracting_dims = [2] x [1] : (tensor<4x6x16xf32>, tensor<5x16xf32>) -> tensor<4x6x5xf32>
    %4 = stablehlo.transpose %3, dims = [1, 0, 2] : (tensor<4x6x5xf32>) -> tensor<6x4x5xf32>
    return %4 : tensor<6x4x5xf32>
  }
}

// -----

/// Two operands whose merged dimensions have other parts need their own order.

// CHECK-LABEL: module @other_parts
module @other_parts {
  // CHECK: stablehlo.dot_general %arg0, %arg1
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.dot_general %arg0, %arg2
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.dot_general {{.*}} (tensor<6x48xf32>, tensor<6x48xf32>)
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>, %v: tensor<8x12x4xf32>) -> tensor<6x6xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<6x16x3xf32>) -> tensor<6x3x16xf32>
    %2 = stablehlo.reshape %1 : (tensor<6x3x16xf32>) -> tensor<6x48xf32>
    %3 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x12x4xf32>) -> tensor<6x12x4xf32>
    %4 = stablehlo.transpose %3, dims = [0, 2, 1] : (tensor<6x12x4xf32>) -> tensor<6x4x12xf32>
    %5 = stablehlo.reshape %4 : (tensor<6x4x12xf32>) -> tensor<6x48xf32>
    %6 = stablehlo.dot_general %2, %5, contracting_dims = [1] x [1] : (tensor<6x48xf32>, tensor<6x48xf32>) -> tensor<6x6xf32>
    return %6 : tensor<6x6xf32>
  }
}

// -----

/// A product keeps the order of its dimensions if more than a transpose reads its result,

// CHECK-LABEL: module @read_twice
module @read_twice {
  // CHECK: %[[T:.*]] = stablehlo.transpose %{{.*}} -> tensor<2x4x6x16xf32>
  // CHECK-NEXT: stablehlo.dot_general %[[T]], %arg2
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<2x8x4x16xf32>, %u: tensor<2x5x16xf32>) -> (tensor<2x6x4x5xf32>, tensor<2x4x6x5xf32>) {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x4x16xf32>) -> tensor<2x6x4x16xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<2x6x4x16xf32>) -> tensor<2x4x6x16xf32>
    %2 = stablehlo.tanh %1 : tensor<2x4x6x16xf32>
    %4 = stablehlo.dot_general %2, %u, batching_dims = [0] x [0], contracting_dims = [3] x [2] : (tensor<2x4x6x16xf32>, tensor<2x5x16xf32>) -> tensor<2x4x6x5xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1, 3] : (tensor<2x4x6x5xf32>) -> tensor<2x6x4x5xf32>
    return %5, %4 : tensor<2x6x4x5xf32>, tensor<2x4x6x5xf32>
  }
}

// -----

/// and if its operands are divided into other parts, also with a batch.

// CHECK-LABEL: module @other_parts_of_batches
module @other_parts_of_batches {
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.transpose
  // CHECK: stablehlo.dot_general {{.*}} (tensor<2x6x96xf32>, tensor<2x6x96xf32>)
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<2x8x16x3x2xf32>, %v: tensor<2x8x12x4x2xf32>) -> tensor<2x6x6xf32> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x16x3x2xf32>) -> tensor<2x6x16x3x2xf32>
    %1 = stablehlo.transpose %0, dims = [0, 1, 3, 2, 4] : (tensor<2x6x16x3x2xf32>) -> tensor<2x6x3x16x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x6x3x16x2xf32>) -> tensor<2x6x96xf32>
    %3 = stablehlo.dot_general %x, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x12x4x2xf32>) -> tensor<2x6x12x4x2xf32>
    %4 = stablehlo.transpose %3, dims = [0, 1, 3, 2, 4] : (tensor<2x6x12x4x2xf32>) -> tensor<2x6x4x12x2xf32>
    %5 = stablehlo.reshape %4 : (tensor<2x6x4x12x2xf32>) -> tensor<2x6x96xf32>
    %6 = stablehlo.dot_general %2, %5, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x6x96xf32>, tensor<2x6x96xf32>) -> tensor<2x6x6xf32>
    return %6 : tensor<2x6x6xf32>
  }
}
