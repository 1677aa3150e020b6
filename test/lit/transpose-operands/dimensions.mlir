// RUN: hespas-opt %s --transpose-operands --split-input-file | filecheck %s
// RUN: hespas-opt %s --transpose-operands --transpose-operands --split-input-file | filecheck %s

/// Where the positions of a sequence are between the dimensions of the batch, as in attention over
/// [batch, positions, heads, features], the operands are transposed, each to the order in which XLA
/// reads its side.

// CHECK-LABEL: module @attention
module @attention {
  // CHECK: %[[Q:.*]] = stablehlo.transpose %arg0, dims = [0, 2, 1, 3] : (tensor<2x16x3x8xf32>) -> tensor<2x3x16x8xf32>
  // CHECK-NEXT: %[[K:.*]] = stablehlo.transpose %arg1, dims = [0, 2, 3, 1] : (tensor<2x24x3x8xf32>) -> tensor<2x3x8x24xf32>
  // CHECK-NEXT: stablehlo.dot_general %[[Q]], %[[K]], batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2]
  func.func @main(%q: tensor<2x16x3x8xf32>, %k: tensor<2x24x3x8xf32>) -> tensor<2x3x16x24xf32> {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x3x8xf32>, tensor<2x24x3x8xf32>) -> tensor<2x3x16x24xf32>
    return %0 : tensor<2x3x16x24xf32>
  }
}

// -----

/// Batches of matrices stay, in each order of rows and columns, also with the batch between them;

// CHECK-LABEL: module @matrices
module @matrices {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [3]
  // CHECK-NEXT: stablehlo.dot_general %arg2, %arg3, batching_dims = [1] x [1], contracting_dims = [0] x [0]
  // CHECK-NEXT: return
  func.func @main(%a: tensor<2x3x8x16xf32>, %b: tensor<2x3x24x8xf32>, %c: tensor<8x3x16xf32>, %d: tensor<8x3x24xf32>) -> (tensor<2x3x16x24xf32>, tensor<3x16x24xf32>) {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [3] : (tensor<2x3x8x16xf32>, tensor<2x3x24x8xf32>) -> tensor<2x3x16x24xf32>
    %1 = stablehlo.dot_general %c, %d, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<8x3x16xf32>, tensor<8x3x24xf32>) -> tensor<3x16x24xf32>
    return %0, %1 : tensor<2x3x16x24xf32>, tensor<3x16x24xf32>
  }
}

// -----

/// an innermost batch does not.

// CHECK-LABEL: module @innermost_batch
module @innermost_batch {
  // CHECK: %[[A:.*]] = stablehlo.transpose %arg0, dims = [2, 0, 1]
  // CHECK-NEXT: stablehlo.dot_general %[[A]], %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1]
  func.func @main(%a: tensor<16x8x3xf32>, %b: tensor<3x8x24xf32>) -> tensor<3x16x24xf32> {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [2] x [0], contracting_dims = [1] x [1] : (tensor<16x8x3xf32>, tensor<3x8x24xf32>) -> tensor<3x16x24xf32>
    return %0 : tensor<3x16x24xf32>
  }
}

// -----

/// Contracted dimensions, and free ones, are neighbours, too; the order of pairs does not matter.

// CHECK-LABEL: module @neighbours
module @neighbours {
  // CHECK: %[[A:.*]] = stablehlo.transpose %arg0, dims = [1, 0, 2]
  // CHECK-NEXT: stablehlo.dot_general %[[A]], %arg1, contracting_dims = [1, 2] x [0, 1]
  // CHECK-NEXT: stablehlo.dot_general %arg2, %arg1, contracting_dims = [2, 1] x [1, 0]
  // CHECK-NEXT: %[[B:.*]] = stablehlo.transpose %arg1, dims = [1, 0, 2]
  // CHECK-NEXT: stablehlo.dot_general %arg3, %[[B]], contracting_dims = [1] x [0]
  // CHECK-NEXT: return
  func.func @main(%a: tensor<4x16x8xf32>, %w: tensor<4x8x24xf32>, %c: tensor<16x4x8xf32>, %d: tensor<16x8xf32>) -> (tensor<16x24xf32>, tensor<16x24xf32>, tensor<16x4x24xf32>) {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [0, 2] x [0, 1] : (tensor<4x16x8xf32>, tensor<4x8x24xf32>) -> tensor<16x24xf32>
    %1 = stablehlo.dot_general %c, %w, contracting_dims = [2, 1] x [1, 0] : (tensor<16x4x8xf32>, tensor<4x8x24xf32>) -> tensor<16x24xf32>
    %2 = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<4x8x24xf32>) -> tensor<16x4x24xf32>
    return %0, %1, %2 : tensor<16x24xf32>, tensor<16x24xf32>, tensor<16x4x24xf32>
  }
}

// -----

/// Pairs that no order makes neighbours on both sides are transposed on one.

// CHECK-LABEL: module @crossed
module @crossed {
  // CHECK: %[[A:.*]] = stablehlo.transpose %arg0, dims = [0, 2, 1]
  // CHECK-NEXT: stablehlo.dot_general %[[A]], %arg1, contracting_dims = [1, 2] x [0, 1]
  func.func @main(%a: tensor<16x4x8xf32>, %b: tensor<8x4x24xf32>) -> tensor<16x24xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1, 2] x [1, 0] : (tensor<16x4x8xf32>, tensor<8x4x24xf32>) -> tensor<16x24xf32>
    return %0 : tensor<16x24xf32>
  }
}

// -----

/// Dimensions of size 1 may be anywhere.

// CHECK-LABEL: module @units
module @units {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: stablehlo.dot_general %arg0, %arg1
  // CHECK-NEXT: return
  func.func @main(%a: tensor<1x16x3x8xf32>, %b: tensor<1x24x3x8xf32>) -> tensor<1x3x16x24xf32> {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<1x16x3x8xf32>, tensor<1x24x3x8xf32>) -> tensor<1x3x16x24xf32>
    return %0 : tensor<1x3x16x24xf32>
  }
}

// -----

/// Other attributes stay.

// CHECK-LABEL: module @attributes
module @attributes {
  // CHECK: stablehlo.transpose %arg0, dims = [2, 0, 1]
  // CHECK-NEXT: stablehlo.dot_general {{.*}} precision = [HIGHEST, DEFAULT] {note = "kept"}
  func.func @main(%a: tensor<16x8x3xf32>, %b: tensor<3x8x24xf32>) -> tensor<3x16x24xf32> {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [2] x [0], contracting_dims = [1] x [1], precision = [HIGHEST, DEFAULT] {note = "kept"} : (tensor<16x8x3xf32>, tensor<3x8x24xf32>) -> tensor<3x16x24xf32>
    return %0 : tensor<3x16x24xf32>
  }
}

// -----

/// XLA's own kernels read the rows of the left operand in two pieces, and those of the right one in one.

// CHECK-LABEL: module @pieces
module @pieces {
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.dot_general
  // CHECK: %[[T:.*]] = stablehlo.transpose
  // CHECK: stablehlo.dot_general %arg1, %[[T]]
  func.func @main(%x: tensor<8x64x32xbf16>, %w: tensor<64x128xbf16>) -> (tensor<8x32x128xbf16>, tensor<128x8x32xbf16>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x64x32xbf16>, tensor<64x128xbf16>) -> tensor<8x32x128xbf16>
    %1 = stablehlo.dot_general %w, %x, contracting_dims = [0] x [1] : (tensor<64x128xbf16>, tensor<8x64x32xbf16>) -> tensor<128x8x32xbf16>
    return %0, %1 : tensor<8x32x128xbf16>, tensor<128x8x32xbf16>
  }
}

// -----

/// An operand that is transposed anyway, because no product can read what it is made of, has that order too.

// CHECK-LABEL: module @transposed_anyway
module @transposed_anyway {
  // CHECK: %[[P:.*]] = stablehlo.transpose %arg1, dims = [0, 3, 2, 1] : (tensor<2x16x4x24xf32>) -> tensor<2x24x4x16xf32>
  // CHECK: %[[R:.*]] = stablehlo.transpose %[[P]], dims = [0, 3, 1, 2] : (tensor<2x24x4x16xf32>) -> tensor<2x16x24x4xf32>
  // CHECK-NEXT: stablehlo.dot_general %arg0, %[[R]], batching_dims = [0] x [0], contracting_dims = [2] x [1]
  func.func @main(%a: tensor<2x8x16xf32>, %b: tensor<2x16x4x24xf32>) -> tensor<2x8x24x4xf32> {
    %0 = stablehlo.transpose %b, dims = [0, 3, 2, 1] : (tensor<2x16x4x24xf32>) -> tensor<2x24x4x16xf32>
    %1 = stablehlo.dot_general %a, %0, batching_dims = [0] x [0], contracting_dims = [2] x [3] : (tensor<2x8x16xf32>, tensor<2x24x4x16xf32>) -> tensor<2x8x24x4xf32>
    return %1 : tensor<2x8x24x4xf32>
  }
}

// -----

/// The rows of the left operand are read in two pieces only if tiles of 16 are parts of dimensions that a view merges.

// CHECK-LABEL: module @pieces
module @pieces {
  // CHECK: stablehlo.dot_general %arg0, %arg2, contracting_dims = [1] x [0]
  // CHECK: %[[V:.*]] = stablehlo.reshape %arg1
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[V]], dims = [0, 2, 1]
  // CHECK-NEXT: stablehlo.dot_general %[[T]], %arg2, contracting_dims = [2] x [0]
  func.func @main(%a: tensor<4x320x1024xbf16>, %b: tensor<4x8x40x1024xbf16>, %w: tensor<320x64xbf16>) -> (tensor<4x1024x64xbf16>, tensor<4x1024x64xbf16>) {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<4x320x1024xbf16>, tensor<320x64xbf16>) -> tensor<4x1024x64xbf16>
    %1 = stablehlo.reshape %b : (tensor<4x8x40x1024xbf16>) -> tensor<4x320x1024xbf16>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<4x320x1024xbf16>, tensor<320x64xbf16>) -> tensor<4x1024x64xbf16>
    return %0, %2 : tensor<4x1024x64xbf16>, tensor<4x1024x64xbf16>
  }
}

// -----

/// Keys that are repeated for each group of query heads are repeated in the order of the product,

// CHECK-LABEL: module @repeated
module @repeated {
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [0, 4, 1, 3] : (tensor<2x24x3x8xf32>) -> tensor<2x3x5x8x24xf32>
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[B]] : (tensor<2x3x5x8x24xf32>) -> tensor<2x15x8x24xf32>
  // CHECK-NEXT: stablehlo.dot_general %arg0, %[[R]], batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2]
  func.func @main(%q: tensor<2x15x16x8xf32>, %k: tensor<2x24x3x8xf32>) -> tensor<2x15x16x24xf32> {
    %0 = stablehlo.broadcast_in_dim %k, dims = [0, 1, 2, 4] : (tensor<2x24x3x8xf32>) -> tensor<2x24x3x5x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x24x3x5x8xf32>) -> tensor<2x24x15x8xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x15x16x8xf32>, tensor<2x24x15x8xf32>) -> tensor<2x15x16x24xf32>
    return %2 : tensor<2x15x16x24xf32>
  }
}

// -----

/// not what a view takes apart otherwise, or has been repeated twice.

// CHECK-LABEL: module @others
module @others {
  // CHECK-COUNT-2: stablehlo.transpose %{{.*}}, dims = [0, 2, 3, 1] : (tensor<2x24x15x8xf32>)
  func.func @main(%q: tensor<2x15x16x8xf32>, %k: tensor<2x24x3x8xf32>, %l: tensor<2x24x5x8xf32>) -> (tensor<2x15x16x24xf32>, tensor<2x15x16x24xf32>) {
    %0 = stablehlo.broadcast_in_dim %l, dims = [0, 1, 3, 4] : (tensor<2x24x5x8xf32>) -> tensor<2x24x3x5x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x24x3x5x8xf32>) -> tensor<2x24x15x8xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x15x16x8xf32>, tensor<2x24x15x8xf32>) -> tensor<2x15x16x24xf32>
    %3 = stablehlo.slice %k [0:2, 0:24, 0:1, 0:8] : (tensor<2x24x3x8xf32>) -> tensor<2x24x1x8xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x24x1x8xf32>) -> tensor<2x24x8xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 4] : (tensor<2x24x8xf32>) -> tensor<2x24x3x5x8xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x24x3x5x8xf32>) -> tensor<2x24x15x8xf32>
    %7 = stablehlo.dot_general %q, %6, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x15x16x8xf32>, tensor<2x24x15x8xf32>) -> tensor<2x15x16x24xf32>
    return %2, %7 : tensor<2x15x16x24xf32>, tensor<2x15x16x24xf32>
  }
}

// -----

/// Only what is repeated along one dimension after the first, in the order of its dimensions, is repeated in the other
/// order; the rest is transposed as it is.

// CHECK-LABEL: module @other_repetitions
module @other_repetitions {
  // CHECK: %[[A:.*]] = stablehlo.reshape %{{.*}} -> tensor<24x8x16xf32>
  // CHECK-NEXT: stablehlo.transpose %[[A]], dims = [2, 1, 0]
  // CHECK: %[[B:.*]] = stablehlo.reshape %{{.*}} -> tensor<8x8x16xf32>
  // CHECK-NEXT: stablehlo.transpose %[[B]], dims = [2, 1, 0]
  // CHECK: %[[C:.*]] = stablehlo.reshape %{{.*}} -> tensor<8x8x8xf32>
  // CHECK-NEXT: stablehlo.transpose %[[C]], dims = [2, 1, 0]
  func.func @main(%q: tensor<16x5x8xf32>, %s: tensor<4x8x16xf32>, %t: tensor<4x8x8xf32>, %u: tensor<8x5x8xf32>) -> (tensor<16x5x24xf32>, tensor<16x5x8xf32>, tensor<8x5x8xf32>) {
    %0 = stablehlo.broadcast_in_dim %s, dims = [0, 3, 4] : (tensor<4x8x16xf32>) -> tensor<4x2x3x8x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<4x2x3x8x16xf32>) -> tensor<24x8x16xf32>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0] x [2], contracting_dims = [2] x [1] : (tensor<16x5x8xf32>, tensor<24x8x16xf32>) -> tensor<16x5x24xf32>
    %3 = stablehlo.broadcast_in_dim %s, dims = [1, 2, 3] : (tensor<4x8x16xf32>) -> tensor<2x4x8x16xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x4x8x16xf32>) -> tensor<8x8x16xf32>
    %5 = stablehlo.dot_general %q, %4, batching_dims = [0] x [2], contracting_dims = [2] x [1] : (tensor<16x5x8xf32>, tensor<8x8x16xf32>) -> tensor<16x5x8xf32>
    %6 = stablehlo.broadcast_in_dim %t, dims = [0, 3, 2] : (tensor<4x8x8xf32>) -> tensor<4x2x8x8xf32>
    %7 = stablehlo.reshape %6 : (tensor<4x2x8x8xf32>) -> tensor<8x8x8xf32>
    %8 = stablehlo.dot_general %u, %7, batching_dims = [0] x [2], contracting_dims = [2] x [1] : (tensor<8x5x8xf32>, tensor<8x8x8xf32>) -> tensor<8x5x8xf32>
    return %2, %5, %8 : tensor<16x5x24xf32>, tensor<16x5x8xf32>, tensor<8x5x8xf32>
  }
}
