// RUN: hespas-opt %s --fuse-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products --fuse-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products=own=false --split-input-file | filecheck %s --check-prefix=LIBRARY

/// On GPUs XLA's own kernels compute products, also those alone.

// CHECK-LABEL: module @alone
// LIBRARY-LABEL: module @alone
module @alone {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0, %arg1) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK-NEXT: bb0
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: mhlo.return
  // CHECK-NEXT: {hespas.kernel = {kind = "gemm"}}
  // CHECK-NEXT: return %[[F]]
  // LIBRARY-NOT: mhlo.fusion
  // LIBRARY: return
  func.func @main(%x: tensor<64x128xi8>, %w: tensor<128x256xi8>) -> tensor<64x256xi32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xi8>, tensor<128x256xi8>) -> tensor<64x256xi32>
    return %0 : tensor<64x256xi32>
  }
}

// -----

/// XLA has none in f64.

// CHECK-LABEL: module @wide
module @wide {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<64x128xf64>, %w: tensor<128x256xf64>) -> tensor<64x256xf64> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf64>, tensor<128x256xf64>) -> tensor<64x256xf64>
    return %0 : tensor<64x256xf64>
  }
}
