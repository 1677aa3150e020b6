// RUN: hespas-opt %s --fuse-products --split-input-file | filecheck %s

/// The kernel of a product reads an operand that is not transposed yet, in whole tiles, and computes what is before,

// CHECK-LABEL: module @whole
module @whole {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: stablehlo.exponential
  // CHECK: stablehlo.transpose
  func.func @main(%a: tensor<4x8x64x1024xbf16>, %w: tensor<512x64xbf16>) -> tensor<4x1024x64xbf16> {
    %e = stablehlo.exponential %a : tensor<4x8x64x1024xbf16>
    %0 = stablehlo.transpose %e, dims = [0, 3, 1, 2] : (tensor<4x8x64x1024xbf16>) -> tensor<4x1024x8x64xbf16>
    %1 = stablehlo.reshape %0 : (tensor<4x1024x8x64xbf16>) -> tensor<4x1024x512xbf16>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [2] x [0] : (tensor<4x1024x512xbf16>, tensor<512x64xbf16>) -> tensor<4x1024x64xbf16>
    return %2 : tensor<4x1024x64xbf16>
  }
}

// -----

/// but not dimensions that it merges, if tiles of 16 are no parts of the inner one: of what is contracted,

// CHECK-LABEL: module @heads
module @heads {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK: "mhlo.fusion"(%{{.*}}, %arg1)
  func.func @main(%a: tensor<4x8x40x1024xbf16>, %w: tensor<320x64xbf16>) -> tensor<4x1024x64xbf16> {
    %0 = stablehlo.transpose %a, dims = [0, 3, 1, 2] : (tensor<4x8x40x1024xbf16>) -> tensor<4x1024x8x40xbf16>
    %1 = stablehlo.reshape %0 : (tensor<4x1024x8x40xbf16>) -> tensor<4x1024x320xbf16>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [2] x [0] : (tensor<4x1024x320xbf16>, tensor<320x64xbf16>) -> tensor<4x1024x64xbf16>
    return %2 : tensor<4x1024x64xbf16>
  }
}

// -----

/// or of the rows.

// CHECK-LABEL: module @positions
module @positions {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK: "mhlo.fusion"(%{{.*}}, %arg1)
  func.func @main(%a: tensor<4x8x64x1000xbf16>, %w: tensor<512x64xbf16>) -> tensor<4x1000x64xbf16> {
    %0 = stablehlo.transpose %a, dims = [0, 3, 1, 2] : (tensor<4x8x64x1000xbf16>) -> tensor<4x1000x8x64xbf16>
    %1 = stablehlo.reshape %0 : (tensor<4x1000x8x64xbf16>) -> tensor<4x1000x512xbf16>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [2] x [0] : (tensor<4x1000x512xbf16>, tensor<512x64xbf16>) -> tensor<4x1000x64xbf16>
    return %2 : tensor<4x1000x64xbf16>
  }
}

// -----

/// Also if a view has merged them before.

// CHECK-LABEL: module @merged
module @merged {
  // CHECK: stablehlo.transpose
  // CHECK: "mhlo.fusion"(%{{.*}}, %arg1)
  func.func @main(%a: tensor<4x8x40x1024xbf16>, %w: tensor<320x64xbf16>) -> tensor<4x1024x64xbf16> {
    %0 = stablehlo.reshape %a : (tensor<4x8x40x1024xbf16>) -> tensor<4x320x1024xbf16>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<4x320x1024xbf16>) -> tensor<4x1024x320xbf16>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [2] x [0] : (tensor<4x1024x320xbf16>, tensor<320x64xbf16>) -> tensor<4x1024x64xbf16>
    return %2 : tensor<4x1024x64xbf16>
  }
}

// -----

/// A transpose of the result is another kernel, if it moves a dimension that a view has merged of the batch and the rows.

// CHECK-LABEL: module @result
module @result {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: mhlo.return %{{.*}} : tensor<4x8x40x1024xbf16>
  // CHECK: stablehlo.transpose
  // CHECK-NEXT: return
  func.func @main(%a: tensor<4x8x40x64xbf16>, %b: tensor<4x8x64x1024xbf16>) -> tensor<4x1024x320xbf16> {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<4x8x40x64xbf16>, tensor<4x8x64x1024xbf16>) -> tensor<4x8x40x1024xbf16>
    %1 = stablehlo.reshape %0 : (tensor<4x8x40x1024xbf16>) -> tensor<4x320x1024xbf16>
    %2 = stablehlo.transpose %1, dims = [0, 2, 1] : (tensor<4x320x1024xbf16>) -> tensor<4x1024x320xbf16>
    return %2 : tensor<4x1024x320xbf16>
  }
}

// -----

/// A kernel repeats keys for each group of query heads while it reads them, along a part of its batch,

// CHECK-LABEL: module @repeated
module @repeated {
  // CHECK: "mhlo.fusion"(%arg1, %arg0)
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.dot_general
  func.func @main(%q: tensor<2x16x256x64xbf16>, %k: tensor<2x4x64x256xbf16>) -> tensor<2x16x256x256xbf16> {
    %0 = stablehlo.broadcast_in_dim %k, dims = [0, 1, 3, 4] : (tensor<2x4x64x256xbf16>) -> tensor<2x4x4x64x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<2x4x4x64x256xbf16>) -> tensor<2x16x64x256xbf16>
    %2 = stablehlo.dot_general %q, %1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x16x256x64xbf16>, tensor<2x16x64x256xbf16>) -> tensor<2x16x256x256xbf16>
    return %2 : tensor<2x16x256x256xbf16>
  }
}

// -----

/// and of nothing else.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: "mhlo.fusion"
  func.func @main(%a: tensor<64x64xbf16>, %b: tensor<64x256xbf16>) -> tensor<256x256xbf16> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<64x64xbf16>) -> tensor<64x4x64xbf16>
    %1 = stablehlo.reshape %0 : (tensor<64x4x64xbf16>) -> tensor<256x64xbf16>
    %2 = stablehlo.dot_general %1, %b, contracting_dims = [1] x [0] : (tensor<256x64xbf16>, tensor<64x256xbf16>) -> tensor<256x256xbf16>
    return %2 : tensor<256x256xbf16>
  }
}

// -----

/// The result may have its columns, or its rows, in any order, and what follows is computed in that order.

// CHECK-LABEL: module @columns
module @columns {
  // CHECK: "mhlo.fusion"(%arg0, %arg1, %arg2)
  // CHECK: stablehlo.transpose %{{.*}}, dims = [2, 1, 0]
  // CHECK: stablehlo.select
  // CHECK-NEXT: mhlo.return
  func.func @main(%a: tensor<256x64xbf16>, %b: tensor<512x4x64xbf16>, %m: tensor<512x256xi1>) -> tensor<4x512x256xf32> {
    %c = stablehlo.constant dense<-1.0> : tensor<4x512x256xf32>
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [2] : (tensor<256x64xbf16>, tensor<512x4x64xbf16>) -> tensor<256x512x4xf32>
    %1 = stablehlo.transpose %0, dims = [2, 1, 0] : (tensor<256x512x4xf32>) -> tensor<4x512x256xf32>
    %2 = stablehlo.broadcast_in_dim %m, dims = [1, 2] : (tensor<512x256xi1>) -> tensor<4x512x256xi1>
    %3 = stablehlo.select %2, %1, %c : tensor<4x512x256xi1>, tensor<4x512x256xf32>
    return %3 : tensor<4x512x256xf32>
  }
}

// -----

/// Without such a transpose a broadcast along a part of the columns is none of matrices.

// CHECK-LABEL: module @swapped
module @swapped {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: stablehlo.transpose %{{.*}}, dims = [1, 2, 0]
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.select
  func.func @main(%a: tensor<256x64xbf16>, %b: tensor<512x4x64xbf16>, %m: tensor<512x256xi1>) -> tensor<512x4x256xf32> {
    %c = stablehlo.constant dense<-1.0> : tensor<512x4x256xf32>
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [2] : (tensor<256x64xbf16>, tensor<512x4x64xbf16>) -> tensor<256x512x4xf32>
    %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<256x512x4xf32>) -> tensor<512x4x256xf32>
    %2 = stablehlo.broadcast_in_dim %m, dims = [0, 2] : (tensor<512x256xi1>) -> tensor<512x4x256xi1>
    %3 = stablehlo.select %2, %1, %c : tensor<512x4x256xi1>, tensor<512x4x256xf32>
    return %3 : tensor<512x4x256xf32>
  }
}

// -----

/// An operand may have its rows in any order, in two pieces.

// CHECK-LABEL: module @operand_rows
module @operand_rows {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: stablehlo.transpose %{{.*}}, dims = [1, 0, 2]
  func.func @main(%a: tensor<64x16x256xbf16>, %w: tensor<256x512xbf16>) -> tensor<16x64x512xbf16> {
    %0 = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<64x16x256xbf16>) -> tensor<16x64x256xbf16>
    %1 = stablehlo.dot_general %0, %w, contracting_dims = [2] x [0] : (tensor<16x64x256xbf16>, tensor<256x512xbf16>) -> tensor<16x64x512xbf16>
    return %1 : tensor<16x64x512xbf16>
  }
}

// -----

/// So does a right operand, unless what is contracted is innermost: XLA's order of it is columns of rows.

// CHECK-LABEL: module @right_operand
module @right_operand {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: stablehlo.transpose %{{.*}}, dims = [2, 0, 1]
  func.func @main(%a: tensor<64x256x16xbf16>, %w: tensor<512x256xbf16>) -> tensor<512x16x64xbf16> {
    %0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<64x256x16xbf16>) -> tensor<16x64x256xbf16>
    %1 = stablehlo.dot_general %w, %0, contracting_dims = [1] x [2] : (tensor<512x256xbf16>, tensor<16x64x256xbf16>) -> tensor<512x16x64xbf16>
    return %1 : tensor<512x16x64xbf16>
  }
}

// -----

// CHECK-LABEL: module @innermost
module @innermost {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0
  // CHECK: "mhlo.fusion"(%arg1, %[[T]])
  func.func @main(%a: tensor<64x16x256xbf16>, %w: tensor<512x256xbf16>) -> tensor<512x16x64xbf16> {
    %0 = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<64x16x256xbf16>) -> tensor<16x64x256xbf16>
    %1 = stablehlo.dot_general %w, %0, contracting_dims = [1] x [2] : (tensor<512x256xbf16>, tensor<16x64x256xbf16>) -> tensor<512x16x64xbf16>
    return %1 : tensor<512x16x64xbf16>
  }
}

// -----

/// Of a batch of matrices, too, if the batch is outermost and the elements that stay in a row are multiples of 16 bytes.

// CHECK-LABEL: module @batch
module @batch {
  // CHECK: "mhlo.fusion"(%arg1, %arg0)
  // CHECK: stablehlo.transpose %{{.*}}, dims = [0, 1, 3, 2] : (tensor<16x64x32x4xf32>)
  func.func @main(%v: tensor<16x128x64xf32>, %p: tensor<16x64x32x4xf32>) -> tensor<16x128x128xf32> {
    %0 = stablehlo.transpose %p, dims = [0, 1, 3, 2] : (tensor<16x64x32x4xf32>) -> tensor<16x64x4x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<16x64x4x32xf32>) -> tensor<16x64x128xf32>
    %2 = stablehlo.dot_general %v, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<16x128x64xf32>, tensor<16x64x128xf32>) -> tensor<16x128x128xf32>
    return %2 : tensor<16x128x128xf32>
  }
}

// -----

/// Not 8 bytes, or a batch behind other dimensions.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: %[[P:.*]] = stablehlo.transpose %arg1
  // CHECK: %[[PV:.*]] = stablehlo.reshape %[[P]]
  // CHECK: "mhlo.fusion"(%arg0, %[[PV]])
  // CHECK: %[[Q:.*]] = stablehlo.transpose %arg2
  // CHECK: %[[QV:.*]] = stablehlo.reshape %[[Q]]
  // CHECK: "mhlo.fusion"(%arg0, %[[QV]])
  func.func @main(%v: tensor<16x128x64xbf16>, %p: tensor<16x64x32x4xbf16>, %q: tensor<64x16x4x32xbf16>) -> (tensor<16x128x128xbf16>, tensor<16x128x128xbf16>) {
    %0 = stablehlo.transpose %p, dims = [0, 1, 3, 2] : (tensor<16x64x32x4xbf16>) -> tensor<16x64x4x32xbf16>
    %1 = stablehlo.reshape %0 : (tensor<16x64x4x32xbf16>) -> tensor<16x64x128xbf16>
    %2 = stablehlo.dot_general %v, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<16x128x64xbf16>, tensor<16x64x128xbf16>) -> tensor<16x128x128xbf16>
    %3 = stablehlo.transpose %q, dims = [1, 0, 2, 3] : (tensor<64x16x4x32xbf16>) -> tensor<16x64x4x32xbf16>
    %4 = stablehlo.reshape %3 : (tensor<16x64x4x32xbf16>) -> tensor<16x64x128xbf16>
    %5 = stablehlo.dot_general %v, %4, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<16x128x64xbf16>, tensor<16x64x128xbf16>) -> tensor<16x128x128xbf16>
    return %2, %5 : tensor<16x128x128xbf16>, tensor<16x128x128xbf16>
  }
}
