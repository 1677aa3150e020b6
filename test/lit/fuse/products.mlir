// RUN: hespas-opt %s --fuse --split-input-file | filecheck %s

/// What makes an operand and is read by others too is its own kernel: a cast is one, and the product in
/// eight parts another.

// CHECK-LABEL: module @cast
module @cast {
  // CHECK: %[[C:.*]] = stablehlo.convert %arg0
  // CHECK: %[[P:.*]] = stablehlo.reshape %[[C]] : (tensor<64x1024xbf16>) -> tensor<64x8x128xbf16>
  // CHECK: "mhlo.fusion"(%[[P]], %{{.*}}) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.reduce
  // CHECK: return %{{.*}}, %[[C]]
  func.func @main(%a: tensor<64x1024xf32>, %w: tensor<1024x256xbf16>) -> (tensor<64x256xbf16>, tensor<64x1024xbf16>) {
    %0 = stablehlo.convert %a : (tensor<64x1024xf32>) -> tensor<64x1024xbf16>
    %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<64x1024xbf16>, tensor<1024x256xbf16>) -> tensor<64x256xbf16>
    return %1, %0 : tensor<64x256xbf16>, tensor<64x1024xbf16>
  }
}

// -----

/// Query, key and value: one product of the weights side by side. The third weight is made after
/// the first product, which does not matter; a product that needs another does.

// CHECK-LABEL: module @qkv
module @qkv {
  // CHECK: %[[V:.*]] = stablehlo.convert
  // CHECK: %[[D:.*]] = "mhlo.fusion"(%{{.*}}, %{{.*}}, %[[V]], %arg0)
  // CHECK: stablehlo.concatenate
  // CHECK: stablehlo.dot_general {{.*}} -> tensor<3456x4096xbf16>
  // CHECK-NEXT: stablehlo.transpose
  // CHECK: mhlo.return
  // CHECK-COUNT-3: stablehlo.slice %[[D]]
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%x: tensor<4096x576xbf16>, %q: tensor<576x9x128xbf16>, %k: tensor<576x9x128xbf16>, %v: tensor<576x1152xf32>) -> (tensor<4096x9x128xbf16>, tensor<4096x9x128xbf16>, tensor<4096x1152xbf16>, tensor<4096x1152xbf16>) {
    %0 = stablehlo.dot_general %x, %q, contracting_dims = [1] x [0] : (tensor<4096x576xbf16>, tensor<576x9x128xbf16>) -> tensor<4096x9x128xbf16>
    %1 = stablehlo.dot_general %x, %k, contracting_dims = [1] x [0] : (tensor<4096x576xbf16>, tensor<576x9x128xbf16>) -> tensor<4096x9x128xbf16>
    %2 = stablehlo.convert %v : (tensor<576x1152xf32>) -> tensor<576x1152xbf16>
    %3 = stablehlo.dot_general %x, %2, contracting_dims = [1] x [0] : (tensor<4096x576xbf16>, tensor<576x1152xbf16>) -> tensor<4096x1152xbf16>
    %4 = stablehlo.slice %3 [0:576, 0:1152] : (tensor<4096x1152xbf16>) -> tensor<576x1152xbf16>
    %5 = stablehlo.dot_general %x, %4, contracting_dims = [1] x [0] : (tensor<4096x576xbf16>, tensor<576x1152xbf16>) -> tensor<4096x1152xbf16>
    return %0, %1, %3, %5 : tensor<4096x9x128xbf16>, tensor<4096x9x128xbf16>, tensor<4096x1152xbf16>, tensor<4096x1152xbf16>
  }
}
