// RUN: hespas-opt %s --fuse-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products=own=false --split-input-file | filecheck %s --check-prefix=TPU

/// XLA views its batch of matrices in the dimensions of the program, and moves the view behind an elementwise op (for
/// jaxlib 0.12 and an H100). The broadcast of a dimension that the view leaves as it is can be moved, also that of a number;

// CHECK-LABEL: module @columns
module @columns {
  // CHECK: "mhlo.fusion"(%{{.*}}, %{{.*}}, %{{.*}}) <{fusion_kind
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.add
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<8x64x128xbf16>, %w: tensor<128x256xbf16>, %bias: tensor<256xbf16>) -> tensor<8x64x256xbf16> {
    %b = stablehlo.broadcast_in_dim %bias, dims = [2] : (tensor<256xbf16>) -> tensor<8x64x256xbf16>
    %c = stablehlo.constant dense<0.1> : tensor<8x64x256xbf16>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<8x64x128xbf16>, tensor<128x256xbf16>) -> tensor<8x64x256xbf16>
    %1 = stablehlo.multiply %0, %c : tensor<8x64x256xbf16>
    %2 = stablehlo.add %1, %b : tensor<8x64x256xbf16>
    return %2 : tensor<8x64x256xbf16>
  }
}

// -----

/// that of one of the dimensions which are the rows cannot, nor, if the batch has several dimensions, that of a number.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.add
  func.func @main(%x: tensor<8x64x128xbf16>, %w: tensor<128x256xbf16>, %bias: tensor<64xbf16>) -> tensor<8x64x256xbf16> {
    %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<64xbf16>) -> tensor<8x64x256xbf16>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<8x64x128xbf16>, tensor<128x256xbf16>) -> tensor<8x64x256xbf16>
    %1 = stablehlo.add %0, %b : tensor<8x64x256xbf16>
    return %1 : tensor<8x64x256xbf16>
  }
}

// -----

// CHECK-LABEL: module @batch
// TPU-LABEL: module @batch
module @batch {
  // CHECK: "mhlo.fusion"
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.multiply
  // TPU: "mhlo.fusion"
  // TPU: stablehlo.dot_general
  // TPU-NEXT: stablehlo.multiply
  func.func @main(%q: tensor<8x4x64x16xbf16>, %k: tensor<8x4x32x16xbf16>) -> tensor<8x4x64x32xbf16> {
    %c = stablehlo.constant dense<0.1> : tensor<8x4x64x32xbf16>
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<8x4x64x16xbf16>, tensor<8x4x32x16xbf16>) -> tensor<8x4x64x32xbf16>
    %1 = stablehlo.multiply %0, %c : tensor<8x4x64x32xbf16>
    return %1 : tensor<8x4x64x32xbf16>
  }
}

// -----

/// What is as large as the result needs no broadcast.

// CHECK-LABEL: module @whole
module @whole {
  // CHECK: "mhlo.fusion"(%{{.*}}, %{{.*}}, %{{.*}}) <{fusion_kind
  // CHECK: stablehlo.add
  // CHECK: mhlo.return
  func.func @main(%q: tensor<8x4x64x16xbf16>, %k: tensor<8x4x32x16xbf16>, %bias: tensor<8x4x64x32xbf16>) -> tensor<8x4x64x32xbf16> {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<8x4x64x16xbf16>, tensor<8x4x32x16xbf16>) -> tensor<8x4x64x32xbf16>
    %1 = stablehlo.add %0, %bias : tensor<8x4x64x32xbf16>
    return %1 : tensor<8x4x64x32xbf16>
  }
}
