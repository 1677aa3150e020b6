// RUN: hespas-opt %s --fuse-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products --fuse-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products=own=false --split-input-file | filecheck %s --check-prefix=LIBRARY

/// What XLA's GemmFusionSwapOperands of jaxlib 0.12 makes of the cases for an H100, and for an A100
/// (hespas-opt --xla-optimize=target=H100_80GB,keep-hlo=FOLDER).

/// Fewer than 64 rows are the columns of the transposed product. The kernel writes its result
/// as the program has it.

// CHECK-LABEL: module @few_rows
// LIBRARY-LABEL: module @few_rows
module @few_rows {
  // CHECK: "mhlo.fusion"(%arg0, %arg1)
  // CHECK: bb0(%[[X:.*]]: tensor<4x16x128xbf16>, %[[W:.*]]: tensor<4x128x256xbf16>)
  // CHECK-NEXT: %[[DOT:.*]] = stablehlo.dot_general %[[W]], %[[X]], batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [HIGH, DEFAULT] {{.*}} -> tensor<4x256x16xbf16>
  // CHECK-NEXT: %[[RESULT:.*]] = stablehlo.transpose %[[DOT]], dims = [0, 2, 1]
  // CHECK-NEXT: stablehlo.tanh %[[RESULT]]
  // LIBRARY: stablehlo.dot_general %{{.*}}, contracting_dims = [2] x [1], precision = [DEFAULT, HIGH]
  func.func @main(%x: tensor<4x16x128xbf16>, %w: tensor<4x128x256xbf16>) -> tensor<4x16x256xbf16> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, HIGH] : (tensor<4x16x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x16x256xbf16>
    %1 = stablehlo.tanh %0 : tensor<4x16x256xbf16>
    return %1 : tensor<4x16x256xbf16>
  }
}

// -----

/// They stay rows if there are as few columns.

// CHECK-LABEL: module @few_results
module @few_results {
  // CHECK: stablehlo.dot_general %{{.*}}, contracting_dims = [1] x [0]
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<16x128xbf16>, %w: tensor<128x32xbf16>) -> tensor<16x32xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x128xbf16>, tensor<128x32xbf16>) -> tensor<16x32xbf16>
    return %0 : tensor<16x32xbf16>
  }
}

// -----

/// Weights that the kernel converts are its left operand.

// CHECK-LABEL: module @converted
module @converted {
  // CHECK: bb0(%[[W:.*]]: tensor<128x256xi8>, %[[X:.*]]: tensor<2x64x128xbf16>)
  // CHECK-NEXT: %[[WIDE:.*]] = stablehlo.convert %[[W]]
  // CHECK-NEXT: %[[DOT:.*]] = stablehlo.dot_general %[[WIDE]], %[[X]], contracting_dims = [0] x [2]
  // CHECK-NEXT: stablehlo.transpose %[[DOT]], dims = [1, 2, 0]
  func.func @main(%x: tensor<2x64x128xbf16>, %w: tensor<128x256xi8>) -> tensor<2x64x256xbf16> {
    %0 = stablehlo.convert %w : (tensor<128x256xi8>) -> tensor<128x256xbf16>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [2] x [0] : (tensor<2x64x128xbf16>, tensor<128x256xbf16>) -> tensor<2x64x256xbf16>
    return %1 : tensor<2x64x256xbf16>
  }
}

// -----

/// If the kernel computes both operands, they stay.

// CHECK-LABEL: module @both
module @both {
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<64x128xbf16>, %w: tensor<128x256xi8>) -> tensor<64x256xbf16> {
    %0 = stablehlo.convert %w : (tensor<128x256xi8>) -> tensor<128x256xbf16>
    %1 = stablehlo.negate %x : tensor<64x128xbf16>
    %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, tensor<128x256xbf16>) -> tensor<64x256xbf16>
    return %2 : tensor<64x256xbf16>
  }
}
