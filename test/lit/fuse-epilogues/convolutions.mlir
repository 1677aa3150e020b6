// RUN: hespas-opt %s --fuse-epilogues --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-epilogues --fuse-epilogues --split-input-file | filecheck %s

/// cuDNN adds to a forward convolution, and rectifies. It always reads a bias.

// CHECK-LABEL: module @convolution
module @convolution {
  // CHECK: %[[ZEROS:.*]] = stablehlo.broadcast_in_dim %{{.*}}, dims = [] : (tensor<bf16>) -> tensor<64xbf16>
  // CHECK: "mhlo.fusion"(%arg0, %arg1, %[[ZEROS]], %arg2) <{fusion_kind = #mhlo<fusion_kind kOutput>}>
  // CHECK: stablehlo.convolution
  // CHECK: stablehlo.add
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

/// A vector of channels is a bias. It adds it and a tensor, in any order, but no third value.

// CHECK-LABEL: module @bias
module @bias {
  // CHECK-NOT: stablehlo.broadcast_in_dim
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0, %arg1, %arg3, %arg2)
  // CHECK: stablehlo.convolution
  // CHECK: {hespas.kernel = {kind = "conv"}}
  // CHECK: stablehlo.add %[[A]], %arg4
  func.func @main(%x: tensor<8x32x32x64xbf16>, %w: tensor<3x3x64x64xbf16>, %v: tensor<64xbf16>, %side: tensor<8x32x32x64xbf16>, %other: tensor<8x32x32x64xbf16>) -> tensor<8x32x32x64xbf16> {
    %m = stablehlo.broadcast_in_dim %v, dims = [3] : (tensor<64xbf16>) -> tensor<8x32x32x64xbf16>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %1 = stablehlo.add %0, %side : tensor<8x32x32x64xbf16>
    %2 = stablehlo.add %1, %m : tensor<8x32x32x64xbf16>
    %3 = stablehlo.add %2, %other : tensor<8x32x32x64xbf16>
    return %3 : tensor<8x32x32x64xbf16>
  }
}

// -----

/// Another broadcast is written before, as the convolution reads a tensor of its own size. Convolutions of as many
/// channels share the zeros.

// CHECK-LABEL: module @broadcast
module @broadcast {
  // CHECK: %[[WIDE:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [0, 3]
  // CHECK: %[[ZEROS:.*]] = stablehlo.broadcast_in_dim
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0, %arg1, %[[ZEROS]], %[[WIDE]])
  // CHECK: "mhlo.fusion"(%[[A]], %arg1, %[[ZEROS]])
  func.func @main(%x: tensor<8x32x32x64xbf16>, %w: tensor<3x3x64x64xbf16>, %v: tensor<8x64xbf16>) -> tensor<8x32x32x64xbf16> {
    %z = stablehlo.constant dense<0.0> : tensor<8x32x32x64xbf16>
    %m = stablehlo.broadcast_in_dim %v, dims = [0, 3] : (tensor<8x64xbf16>) -> tensor<8x32x32x64xbf16>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %1 = stablehlo.add %0, %m : tensor<8x32x32x64xbf16>
    %2 = stablehlo.convolution(%1, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %3 = stablehlo.maximum %2, %z : tensor<8x32x32x64xbf16>
    return %3 : tensor<8x32x32x64xbf16>
  }
}

// -----

/// A value of another shape it does not add.

// CHECK-LABEL: module @flat
module @flat {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<8x32x32x64xbf16>, %w: tensor<3x3x64x64xbf16>, %m: tensor<524288xbf16>) -> tensor<524288xbf16> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %1 = stablehlo.reshape %0 : (tensor<8x32x32x64xbf16>) -> tensor<524288xbf16>
    %2 = stablehlo.add %1, %m : tensor<524288xbf16>
    return %2 : tensor<524288xbf16>
  }
}

// -----

/// It does not scale, and has no GELU.

// CHECK-LABEL: module @scaled
module @scaled {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<8x32x32x64xbf16>, %w: tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16> {
    %s = stablehlo.constant dense<2.0> : tensor<8x32x32x64xbf16>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %1 = stablehlo.multiply %0, %s : tensor<8x32x32x64xbf16>
    return %1 : tensor<8x32x32x64xbf16>
  }
}

// -----

// CHECK-LABEL: module @gelu
module @gelu {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<8x32x32x64xbf16>, %w: tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16> {
    %half = stablehlo.constant dense<0.5> : tensor<8x32x32x64xbf16>
    %one = stablehlo.constant dense<1.0> : tensor<8x32x32x64xbf16>
    %c = stablehlo.constant dense<0.044715> : tensor<8x32x32x64xbf16>
    %s = stablehlo.constant dense<0.797884583> : tensor<8x32x32x64xbf16>
    %three = stablehlo.constant dense<3.0> : tensor<8x32x32x64xbf16>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %1 = stablehlo.power %0, %three : tensor<8x32x32x64xbf16>
    %2 = stablehlo.multiply %1, %c : tensor<8x32x32x64xbf16>
    %3 = stablehlo.add %0, %2 : tensor<8x32x32x64xbf16>
    %4 = stablehlo.multiply %3, %s : tensor<8x32x32x64xbf16>
    %5 = stablehlo.tanh %4 : tensor<8x32x32x64xbf16>
    %6 = stablehlo.add %5, %one : tensor<8x32x32x64xbf16>
    %7 = stablehlo.multiply %6, %half : tensor<8x32x32x64xbf16>
    %8 = stablehlo.multiply %0, %7 : tensor<8x32x32x64xbf16>
    return %8 : tensor<8x32x32x64xbf16>
  }
}

// -----

/// One that spreads its input, as the gradient of one with strides, adds nothing.

// CHECK-LABEL: module @dilated
module @dilated {
  // CHECK-NOT: mhlo.fusion
  // CHECK: return
  func.func @main(%x: tensor<8x16x16x64xbf16>, %w: tensor<3x3x64x64xbf16>, %m: tensor<8x32x32x64xbf16>) -> tensor<8x32x32x64xbf16> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 2], [1, 2]], lhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x16x16x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %1 = stablehlo.add %0, %m : tensor<8x32x32x64xbf16>
    return %1 : tensor<8x32x32x64xbf16>
  }
}

// -----

// CHECK-LABEL: module @not_dilated
module @not_dilated {
  // CHECK: "mhlo.fusion"
  func.func @main(%x: tensor<8x32x32x64xbf16>, %w: tensor<3x3x64x64xbf16>, %m: tensor<8x32x32x64xbf16>) -> tensor<8x32x32x64xbf16> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x64xbf16>, tensor<3x3x64x64xbf16>) -> tensor<8x32x32x64xbf16>
    %1 = stablehlo.add %0, %m : tensor<8x32x32x64xbf16>
    return %1 : tensor<8x32x32x64xbf16>
  }
}
