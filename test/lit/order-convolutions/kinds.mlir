// RUN: hespas-opt %s --order-convolutions=target=A100_SXM_80GB --split-input-file | filecheck %s
// RUN: hespas-opt %s --order-convolutions=target=V100_16GB --split-input-file | filecheck %s

/// The channels of images of whole numbers, and of floats of a byte, are innermost on every GPU,

// CHECK-LABEL: module @integers
module @integers {
  // CHECK: stablehlo.convolution{{.*}} dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]{{.*}}xi32>
  // CHECK: stablehlo.convolution{{.*}} dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]{{.*}}xf8E4M3FN>
  func.func @main(%x: tensor<2x4x8x8xi32>, %w: tensor<6x4x3x3xi32>, %y: tensor<2x4x8x8xf8E4M3FN>, %v: tensor<6x4x3x3xf8E4M3FN>) -> (tensor<2x6x6x6xi32>, tensor<2x6x6x6xf8E4M3FN>) {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x8x8xi32>, tensor<6x4x3x3xi32>) -> tensor<2x6x6x6xi32>
    %1 = stablehlo.convolution(%y, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x8x8xf8E4M3FN>, tensor<6x4x3x3xf8E4M3FN>) -> tensor<2x6x6x6xf8E4M3FN>
    return %0, %1 : tensor<2x6x6x6xi32>, tensor<2x6x6x6xf8E4M3FN>
  }
}

// -----

/// those of 16 bits on Volta too.

// CHECK-LABEL: module @halves
module @halves {
  // CHECK: stablehlo.convolution{{.*}} dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]
  func.func @main(%x: tensor<2x4x8x8xf16>, %w: tensor<6x4x3x3xf16>) -> tensor<2x6x6x6xf16> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x8x8xf16>, tensor<6x4x3x3xf16>) -> tensor<2x6x6x6xf16>
    return %0 : tensor<2x6x6x6xf16>
  }
}

// -----

/// A kernel that is reversed in one of its two dimensions is none of a forward convolution, and one that the window
/// reverses again is read as it is.

// CHECK-LABEL: module @reversals
module @reversals {
  // CHECK: %[[R:.*]] = stablehlo.reverse %arg1, dims = [0]
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[R]]
  // CHECK-NEXT: stablehlo.convolution(%arg0, %[[T]]) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = {{\[\[}}1, 1], [1, 1]]}
  // CHECK: %[[S:.*]] = stablehlo.reverse %arg1, dims = [0, 1]
  // CHECK-NEXT: %[[U:.*]] = stablehlo.transpose %[[S]]
  // CHECK-NEXT: stablehlo.convolution(%arg0, %[[U]]) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {{.*}}reverse = [true, true]
  func.func @main(%g: tensor<2x6x8x8xf32>, %w: tensor<3x3x4x6xf32>) -> (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) {
    %r = stablehlo.reverse %w, dims = [0] : tensor<3x3x4x6xf32>
    %0 = stablehlo.convolution(%g, %r) dim_numbers = [b, f, 0, 1]x[0, 1, o, i]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x8x8xf32>, tensor<3x3x4x6xf32>) -> tensor<2x4x8x8xf32>
    %s = stablehlo.reverse %w, dims = [0, 1] : tensor<3x3x4x6xf32>
    %1 = stablehlo.convolution(%g, %s) dim_numbers = [b, f, 0, 1]x[0, 1, o, i]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]], reverse = [true, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x8x8xf32>, tensor<3x3x4x6xf32>) -> tensor<2x4x8x8xf32>
    return %0, %1 : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
  }
}
