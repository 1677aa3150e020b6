// RUN: hespas-opt %s --fold-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --fold-transposes --fold-transposes --split-input-file | filecheck %s

/// Transposes of operands, and one that swaps the sides of the result, are part of the product.

// CHECK-LABEL: module @transposed
module @transposed {
  // CHECK: stablehlo.dot_general %arg1, %arg0, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x128x256xf32>, tensor<4x256x64xf32>) -> tensor<4x128x64xf32>
  // CHECK-NEXT: return
  func.func @main(%a: tensor<4x256x64xf32>, %b: tensor<4x128x256xf32>) -> tensor<4x128x64xf32> {
    %0 = stablehlo.transpose %a, dims = [0, 2, 1] : (tensor<4x256x64xf32>) -> tensor<4x64x256xf32>
    %1 = stablehlo.transpose %b, dims = [0, 2, 1] : (tensor<4x128x256xf32>) -> tensor<4x256x128xf32>
    %2 = stablehlo.dot_general %0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x64x256xf32>, tensor<4x256x128xf32>) -> tensor<4x64x128xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<4x64x128xf32>) -> tensor<4x128x64xf32>
    return %3 : tensor<4x128x64xf32>
  }
}

// -----

/// Dimensions of size 1 have no place in memory: the gradient of the scores of attention with one query head
/// for each key head swaps its sides, though that leaves the 1 elsewhere. A reshape of the result restores the
/// place of the 1. The scores themselves are not swapped, because XLA transposes the operands of products whose
/// batch is not their first dimensions.

// CHECK-LABEL: module @heads_of_one
module @heads_of_one {
  // CHECK: %[[S:.*]] = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4]
  // CHECK-NEXT: stablehlo.transpose %[[S]]
  // CHECK: stablehlo.dot_general %arg2, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1] {{.*}} -> tensor<2x8x1x64x32xf32>
  func.func @main(%k: tensor<2x128x8x32xf32>, %q: tensor<2x64x8x1x32xf32>, %g: tensor<2x8x1x64x128xf32>) -> (tensor<2x8x1x64x128xf32>, tensor<2x8x64x1x32xf32>) {
    %0 = stablehlo.dot_general %k, %q, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4] : (tensor<2x128x8x32xf32>, tensor<2x64x8x1x32xf32>) -> tensor<2x8x128x64x1xf32>
    %1 = stablehlo.transpose %0, dims = [0, 1, 4, 3, 2] : (tensor<2x8x128x64x1xf32>) -> tensor<2x8x1x64x128xf32>
    %2 = stablehlo.transpose %g, dims = [0, 1, 4, 3, 2] : (tensor<2x8x1x64x128xf32>) -> tensor<2x8x128x64x1xf32>
    %3 = stablehlo.dot_general %2, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x8x128x64x1xf32>, tensor<2x128x8x32xf32>) -> tensor<2x8x64x1x32xf32>
    return %1, %3 : tensor<2x8x1x64x128xf32>, tensor<2x8x64x1x32xf32>
  }
}

// -----

/// Where a transpose swaps the sides of a product, their precisions go along.

// CHECK-LABEL: module @precision
module @precision {
  // CHECK: stablehlo.dot_general %arg1, %arg0, contracting_dims = [0] x [1], precision = [DEFAULT, HIGHEST]
  func.func @main(%x: tensor<64x128xf32>, %w: tensor<128x16xf32>) -> tensor<16x64xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<64x128xf32>, tensor<128x16xf32>) -> tensor<64x16xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<64x16xf32>) -> tensor<16x64xf32>
    return %1 : tensor<16x64xf32>
  }
}

// -----

/// Several transposes in a row are folded.

// CHECK-LABEL: module @chains
module @chains {
  // CHECK: %[[D:.*]] = stablehlo.dot_general %arg1, %arg0, batching_dims = [0] x [0], contracting_dims = [1] x [2] : (tensor<4x16x8xf32>, tensor<4x32x16xf32>) -> tensor<4x8x32xf32>
  // CHECK-NEXT: return %[[D]]
  func.func @main(%a: tensor<4x32x16xf32>, %b: tensor<4x16x8xf32>) -> tensor<4x8x32xf32> {
    %0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<4x32x16xf32>) -> tensor<16x4x32xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<16x4x32xf32>) -> tensor<4x16x32xf32>
    %2 = stablehlo.transpose %b, dims = [0, 1, 2] : (tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
    %3 = stablehlo.dot_general %1, %2, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x16x32xf32>, tensor<4x16x8xf32>) -> tensor<4x32x8xf32>
    %4 = stablehlo.transpose %3, dims = [0, 2, 1] : (tensor<4x32x8xf32>) -> tensor<4x8x32xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1] : (tensor<4x8x32xf32>) -> tensor<4x32x8xf32>
    %6 = stablehlo.transpose %5, dims = [0, 2, 1] : (tensor<4x32x8xf32>) -> tensor<4x8x32xf32>
    return %6 : tensor<4x8x32xf32>
  }
}

// -----

/// A transpose of an operand stays if it changes the order of the free dimensions,

// CHECK-LABEL: module @free
module @free {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0, dims = [2, 1, 0]
  // CHECK-NEXT: stablehlo.dot_general %[[T]], %arg1
  // CHECK: %[[U:.*]] = stablehlo.transpose %arg2, dims = [1, 0, 2]
  // CHECK-NEXT: stablehlo.dot_general %[[U]], %arg1
  func.func @main(%a: tensor<8x16x32xf32>, %b: tensor<16x4xf32>, %c: tensor<8x32x16xf32>) -> (tensor<32x8x4xf32>, tensor<32x8x4xf32>) {
    %0 = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<8x16x32xf32>) -> tensor<32x16x8xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<32x16x8xf32>, tensor<16x4xf32>) -> tensor<32x8x4xf32>
    %2 = stablehlo.transpose %c, dims = [1, 0, 2] : (tensor<8x32x16xf32>) -> tensor<32x8x16xf32>
    %3 = stablehlo.dot_general %2, %b, contracting_dims = [2] x [0] : (tensor<32x8x16xf32>, tensor<16x4xf32>) -> tensor<32x8x4xf32>
    return %1, %3 : tensor<32x8x4xf32>, tensor<32x8x4xf32>
  }
}

// -----

/// or of the contracted ones: these have the order that they have in the right operand.

// CHECK-LABEL: module @contracted
module @contracted {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg1, dims = [1, 0, 2]
  // CHECK-NEXT: stablehlo.dot_general %arg0, %[[T]], contracting_dims = [1, 2] x [0, 1]
  // CHECK: stablehlo.dot_general %arg2, %arg3, contracting_dims = [2, 1] x [1, 2]
  func.func @main(%a: tensor<64x4x16xf32>, %b: tensor<16x4x32xf32>, %c: tensor<64x16x4xf32>, %d: tensor<32x4x16xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
    %0 = stablehlo.transpose %b, dims = [1, 0, 2] : (tensor<16x4x32xf32>) -> tensor<4x16x32xf32>
    %1 = stablehlo.dot_general %a, %0, contracting_dims = [1, 2] x [0, 1] : (tensor<64x4x16xf32>, tensor<4x16x32xf32>) -> tensor<64x32xf32>
    %2 = stablehlo.transpose %d, dims = [1, 2, 0] : (tensor<32x4x16xf32>) -> tensor<4x16x32xf32>
    %3 = stablehlo.dot_general %c, %2, contracting_dims = [2, 1] x [0, 1] : (tensor<64x16x4xf32>, tensor<4x16x32xf32>) -> tensor<64x32xf32>
    return %1, %3 : tensor<64x32xf32>, tensor<64x32xf32>
  }
}

// -----

/// A transpose stays, too, if a product cannot read what is transposed as a batch of matrices: XLA folds it into the
/// product of matrices, after products that share an operand have been merged.

// CHECK-LABEL: module @no_matrices
module @no_matrices {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0, dims = [0, 3, 1, 2]
  // CHECK-NEXT: stablehlo.dot_general %[[T]], %arg1, contracting_dims = [2, 3] x [0, 1]
  func.func @main(%a: tensor<2x4x16x64xf32>, %w: tensor<4x16x32xf32>) -> tensor<2x64x32xf32> {
    %0 = stablehlo.transpose %a, dims = [0, 3, 1, 2] : (tensor<2x4x16x64xf32>) -> tensor<2x64x4x16xf32>
    %1 = stablehlo.dot_general %0, %w, contracting_dims = [2, 3] x [0, 1] : (tensor<2x64x4x16xf32>, tensor<4x16x32xf32>) -> tensor<2x64x32xf32>
    return %1 : tensor<2x64x32xf32>
  }
}

// -----

/// A transpose of the result stays if it does more than swap the sides, or if something else reads the
/// result.

// CHECK-LABEL: module @results
module @results {
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0, %arg1
  // CHECK: stablehlo.transpose %[[A]], dims = [1, 0, 2]
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg1, %arg2
  // CHECK: stablehlo.transpose %[[B]], dims = [1, 0]
  func.func @main(%a: tensor<8x4x16xf32>, %b: tensor<16x32xf32>, %c: tensor<32x4xf32>) -> (tensor<4x8x32xf32>, tensor<4x16xf32>, tensor<16x4xf32>) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [2] x [0] : (tensor<8x4x16xf32>, tensor<16x32xf32>) -> tensor<8x4x32xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<8x4x32xf32>) -> tensor<4x8x32xf32>
    %2 = stablehlo.dot_general %b, %c, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x4xf32>) -> tensor<16x4xf32>
    %4 = stablehlo.tanh %2 : tensor<16x4xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<16x4xf32>) -> tensor<4x16xf32>
    return %1, %3, %4 : tensor<4x8x32xf32>, tensor<4x16xf32>, tensor<16x4xf32>
  }
}

// -----

/// A transpose with a layout may move no data: it stays, before and after a product.

// CHECK-LABEL: module @layouts
module @layouts {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK-NEXT: %[[D:.*]] = stablehlo.dot_general %[[T]], %arg1
  // CHECK-NEXT: stablehlo.transpose %[[D]]
  func.func @main(%a: tensor<8x16xf32>, %b: tensor<8x4xf32>) -> tensor<4x16xf32> {
    %0 = stablehlo.transpose %a, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>} : (tensor<16x4xf32>) -> tensor<4x16xf32>
    return %2 : tensor<4x16xf32>
  }
}

// -----

/// A transpose that something else reads is folded, and stays for the other reader; what comes before the
/// product and is no transpose stays.

// CHECK-LABEL: module @shared
module @shared {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK-NEXT: %[[N:.*]] = stablehlo.negate %arg1
  // CHECK-NEXT: %[[D:.*]] = stablehlo.dot_general %arg0, %[[N]], contracting_dims = [0] x [0], precision = [HIGHEST, DEFAULT]
  // CHECK-NEXT: return %[[T]], %[[D]]
  func.func @main(%a: tensor<8x16xf32>, %b: tensor<8x4xf32>) -> (tensor<16x8xf32>, tensor<16x4xf32>) {
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %1 = stablehlo.negate %b : tensor<8x4xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %0, %2 : tensor<16x8xf32>, tensor<16x4xf32>
  }
}
