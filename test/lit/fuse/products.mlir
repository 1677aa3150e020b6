// RUN: hespas-opt %s --fuse --split-input-file | filecheck %s

/// Scale, bias and ReLU belong to the product.

// CHECK-LABEL: module @epilogue
module @epilogue {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0, %arg1, %arg2) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.broadcast_in_dim
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.multiply
  // CHECK: stablehlo.add
  // CHECK: stablehlo.maximum
  // CHECK: {hespas.kernel = {kind = "gemm"}}
  // CHECK-NEXT: return %[[F]]
  func.func @main(%a: tensor<64x1024xbf16>, %w: tensor<1024x256xbf16>, %bias: tensor<256xbf16>) -> tensor<64x256xbf16> {
    %s = stablehlo.constant dense<0.125> : tensor<64x256xbf16>
    %z = stablehlo.constant dense<0.0> : tensor<64x256xbf16>
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x1024xbf16>, tensor<1024x256xbf16>) -> tensor<64x256xbf16>
    %1 = stablehlo.multiply %s, %0 : tensor<64x256xbf16>
    %2 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<256xbf16>) -> tensor<64x256xbf16>
    %3 = stablehlo.add %1, %2 : tensor<64x256xbf16>
    %4 = stablehlo.maximum %z, %3 : tensor<64x256xbf16>
    return %4 : tensor<64x256xbf16>
  }
}

// -----

/// So does GELU; what follows does not, and a product with another user has no epilogue.

// CHECK-LABEL: module @gelu
module @gelu {
  // CHECK: %[[G:.*]] = "mhlo.fusion"{{.*}} kOutput
  // CHECK: stablehlo.tanh
  // CHECK: mhlo.return
  // CHECK: %[[E:.*]] = stablehlo.dot_general %[[G]]
  // CHECK: %[[D:.*]] = stablehlo.dot_general %[[E]]
  // CHECK: %[[T:.*]] = stablehlo.tanh %[[D]]
  // CHECK: return %[[G]], %[[T]], %[[D]]
  func.func @main(%a: tensor<64x1024xf32>, %w: tensor<1024x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>, tensor<64x256xf32>) {
    %half = stablehlo.constant dense<0.5> : tensor<64x256xf32>
    %one = stablehlo.constant dense<1.0> : tensor<64x256xf32>
    %c = stablehlo.constant dense<0.044715> : tensor<64x256xf32>
    %s = stablehlo.constant dense<0.797884583> : tensor<64x256xf32>
    %three = stablehlo.constant dense<3.0> : tensor<64x256xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x1024xf32>, tensor<1024x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.power %d, %three : tensor<64x256xf32>
    %1 = stablehlo.multiply %0, %c : tensor<64x256xf32>
    %2 = stablehlo.add %d, %1 : tensor<64x256xf32>
    %3 = stablehlo.multiply %2, %s : tensor<64x256xf32>
    %4 = stablehlo.tanh %3 : tensor<64x256xf32>
    %5 = stablehlo.add %4, %one : tensor<64x256xf32>
    %6 = stablehlo.multiply %5, %half : tensor<64x256xf32>
    %7 = stablehlo.multiply %d, %6 : tensor<64x256xf32>
    %e = stablehlo.dot_general %7, %w, contracting_dims = [1] x [1] : (tensor<64x256xf32>, tensor<1024x256xf32>) -> tensor<64x1024xf32>
    %f = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0] : (tensor<64x1024xf32>, tensor<1024x256xf32>) -> tensor<64x256xf32>
    %8 = stablehlo.multiply %f, %one : tensor<64x256xf32>
    %9 = stablehlo.tanh %8 : tensor<64x256xf32>
    return %7, %9, %f : tensor<64x256xf32>, tensor<64x256xf32>, tensor<64x256xf32>
  }
}

// -----

/// What comes before a product is its own kernel: a cast and the product are two.

// CHECK-LABEL: module @cast
module @cast {
  // CHECK: %[[C:.*]] = stablehlo.convert %arg0
  // CHECK-NEXT: stablehlo.dot_general %[[C]], %arg1
  // CHECK-NOT: mhlo.fusion
  func.func @main(%a: tensor<64x1024xf32>, %w: tensor<1024x256xbf16>) -> tensor<64x256xbf16> {
    %0 = stablehlo.convert %a : (tensor<64x1024xf32>) -> tensor<64x1024xbf16>
    %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<64x1024xbf16>, tensor<1024x256xbf16>) -> tensor<64x256xbf16>
    return %1 : tensor<64x256xbf16>
  }
}

// -----

/// Query, key and value: one product of the weights side by side. The third weight is made after
/// the first product, which does not matter; a product that needs another does.

// CHECK-LABEL: module @qkv
module @qkv {
  // CHECK: %[[W:.*]] = "mhlo.fusion"
  // CHECK: %[[D:.*]] = stablehlo.dot_general %arg0, %[[W]], contracting_dims = [1] x [0]{{.*}} -> tensor<4096x3456xbf16>
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

// -----

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

/// Dimensions of size 1 have no place in memory: attention with one query head for each key head
/// turns its scores by swapping the sides, though that leaves the 1 elsewhere, and so their gradient.

// CHECK-LABEL: module @heads_of_one
module @heads_of_one {
  // CHECK-NOT: stablehlo.transpose
  // CHECK: %[[S:.*]] = stablehlo.dot_general %arg1, %arg0, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3] {{.*}} -> tensor<2x8x64x1x128xf32>
  // CHECK: stablehlo.dot_general %arg2, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1] {{.*}} -> tensor<2x8x1x64x32xf32>
  // CHECK: stablehlo.reshape %[[S]] : {{.*}} -> tensor<2x8x1x64x128xf32>
  func.func @main(%k: tensor<2x128x8x32xf32>, %q: tensor<2x64x8x1x32xf32>, %g: tensor<2x8x1x64x128xf32>) -> (tensor<2x8x1x64x128xf32>, tensor<2x8x64x1x32xf32>) {
    %0 = stablehlo.dot_general %k, %q, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4] : (tensor<2x128x8x32xf32>, tensor<2x64x8x1x32xf32>) -> tensor<2x8x128x64x1xf32>
    %1 = stablehlo.transpose %0, dims = [0, 1, 4, 3, 2] : (tensor<2x8x128x64x1xf32>) -> tensor<2x8x1x64x128xf32>
    %2 = stablehlo.transpose %g, dims = [0, 1, 4, 3, 2] : (tensor<2x8x1x64x128xf32>) -> tensor<2x8x128x64x1xf32>
    %3 = stablehlo.dot_general %2, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<2x8x128x64x1xf32>, tensor<2x128x8x32xf32>) -> tensor<2x8x64x1x32xf32>
    return %1, %3 : tensor<2x8x1x64x128xf32>, tensor<2x8x64x1x32xf32>
  }
}

// -----

/// cuDNN adds to a forward convolution, and rectifies.

// CHECK-LABEL: module @convolution
module @convolution {
  // CHECK: "mhlo.fusion"(%arg0, %arg1, %arg2) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.convolution
  // CHECK: stablehlo.add
  // CHECK: stablehlo.maximum
  // CHECK: {hespas.kernel = {kind = "conv"}}
  func.func @main(%x: tensor<8x32x32x64xbf16>, %w: tensor<3x3x64x64xbf16>, %side: tensor<8x32x32x64xbf16>) -> tensor<8x32x32x64xbf16> {
    %z = stablehlo.constant dense<0.0> : tensor<8x32x32x64xbf16>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %1 = stablehlo.add %side, %0 : tensor<8x32x32x64xbf16>
    %2 = stablehlo.maximum %1, %z : tensor<8x32x32x64xbf16>
    return %2 : tensor<8x32x32x64xbf16>
  }
}

// -----

/// Two pairs of products could be merged, but either merge makes the other a circle: one is.

// CHECK-LABEL: module @circle
module @circle {
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg1, %arg3
  // CHECK: %[[W:.*]] = "mhlo.fusion"(%[[B]], %arg2)
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0, %[[W]], {{.*}} -> tensor<64x32xf32>
  // CHECK: stablehlo.dot_general %arg1
  func.func @main(%x: tensor<64x128xf32>, %y: tensor<128x64xf32>, %w: tensor<128x16xf32>, %v: tensor<64x16xf32>) -> (tensor<64x16xf32>, tensor<128x16xf32>) {
    %a1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x16xf32>) -> tensor<64x16xf32>
    %f = stablehlo.tanh %a1 : tensor<64x16xf32>
    %b1 = stablehlo.dot_general %y, %f, contracting_dims = [1] x [0] : (tensor<128x64xf32>, tensor<64x16xf32>) -> tensor<128x16xf32>
    %b2 = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<128x64xf32>, tensor<64x16xf32>) -> tensor<128x16xf32>
    %g = stablehlo.tanh %b2 : tensor<128x16xf32>
    %a2 = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x16xf32>) -> tensor<64x16xf32>
    return %a2, %b1 : tensor<64x16xf32>, tensor<128x16xf32>
  }
}

// -----

/// A product before a loop is done once, though the loop adds to it.

// CHECK-LABEL: module @invariant
module @invariant {
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK: stablehlo.while
  // CHECK: stablehlo.add %[[D]]
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64x64xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %a = stablehlo.add %d, %v : tensor<64x64xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
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
