// RUN: hespas-opt %s --pad-convolutions --split-input-file | filecheck %s
// RUN: hespas-opt %s --pad-convolutions --pad-convolutions --split-input-file | filecheck %s

/// The kinds of all convolutions here are those that XLA gives them (jaxlib 0.12, A100). It finds the gradient of a
/// kernel where the batch has groups, or one dimension of the kernel is longer than the result, if the window is dilated:
/// cuDNN pads both sides by the least padding.

// CHECK-LABEL: module @batch_groups
module @batch_groups {
  // CHECK: stablehlo.pad {{.*}} low = [0, 0, 0, 0], high = [0, 1, 1, 0]
  // CHECK: pad = {{\[\[}}1, 1], [1, 1]]
  func.func @main(%x: tensor<4x8x8x8xf32>, %k: tensor<3x3x8x6xf32>) -> tensor<2x7x7x6xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 2], [1, 2]], rhs_dilate = [2, 2]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<4x8x8x8xf32>, tensor<3x3x8x6xf32>) -> tensor<2x7x7x6xf32>
    return %0 : tensor<2x7x7x6xf32>
  }
}

// -----

// CHECK-LABEL: module @one_long_dimension
module @one_long_dimension {
  // CHECK: stablehlo.pad {{.*}} low = [0, 0, 0, 0], high = [0, 1, 1, 0]
  // CHECK: pad = {{\[\[}}1, 1], [1, 1]]
  func.func @main(%x: tensor<4x8x8x8xf32>, %k: tensor<9x2x8x6xf32>) -> tensor<4x3x9x6xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 2], [1, 2]], rhs_dilate = [1, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x8x8x8xf32>, tensor<9x2x8x6xf32>) -> tensor<4x3x9x6xf32>
    return %0 : tensor<4x3x9x6xf32>
  }
}

// -----

/// Without a dilation it finds none,

// CHECK-LABEL: module @batch_groups_without_dilation
module @batch_groups_without_dilation {
  // CHECK: stablehlo.pad {{.*}} low = [0, 1, 1, 0], high = [0, 2, 2, 0]
  // CHECK: pad = {{\[\[}}0, 0], [0, 0]]
  func.func @main(%x: tensor<4x8x8x8xf32>, %k: tensor<3x3x8x6xf32>) -> tensor<2x9x9x6xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 2], [1, 2]]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<4x8x8x8xf32>, tensor<3x3x8x6xf32>) -> tensor<2x9x9x6xf32>
    return %0 : tensor<2x9x9x6xf32>
  }
}

// -----

// CHECK-LABEL: module @one_long_dimension_without_dilation
module @one_long_dimension_without_dilation {
  // CHECK: stablehlo.pad {{.*}} low = [0, 1, 1, 0], high = [0, 2, 2, 0]
  // CHECK: pad = {{\[\[}}0, 0], [0, 0]]
  func.func @main(%x: tensor<4x8x8x8xf32>, %k: tensor<9x2x8x6xf32>) -> tensor<4x3x10x6xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 2], [1, 2]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x8x8x8xf32>, tensor<9x2x8x6xf32>) -> tensor<4x3x10x6xf32>
    return %0 : tensor<4x3x10x6xf32>
  }
}

// -----

/// nor of a dilated window alone,

// CHECK-LABEL: module @dilated
module @dilated {
  // CHECK: stablehlo.pad {{.*}} low = [0, 1, 1, 0], high = [0, 2, 2, 0]
  // CHECK: pad = {{\[\[}}0, 0], [0, 0]]
  func.func @main(%x: tensor<4x8x8x8xf32>, %k: tensor<2x2x8x6xf32>) -> tensor<4x9x9x6xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 2], [1, 2]], rhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x8x8x8xf32>, tensor<2x2x8x6xf32>) -> tensor<4x9x9x6xf32>
    return %0 : tensor<4x9x9x6xf32>
  }
}

// -----

/// of groups of features, holes, and an image that is cut (in f64: XLA:CPU of jaxlib 0.12 computes another result in f32).

// CHECK-LABEL: module @grouped
module @grouped {
  // CHECK: stablehlo.pad {{.*}} low = [0, 1, 1, 0], high = [0, 3, 3, 0]
  // CHECK: pad = {{\[\[}}0, 0], [0, 0]]
  func.func @main(%x: tensor<4x7x7x8xf32>, %k: tensor<7x7x4x8xf32>) -> tensor<4x5x5x8xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 3], [1, 3]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<4x7x7x8xf32>, tensor<7x7x4x8xf32>) -> tensor<4x5x5x8xf32>
    return %0 : tensor<4x5x5x8xf32>
  }
}

// -----

// CHECK-LABEL: module @holes_of_batch_groups
module @holes_of_batch_groups {
  // CHECK: stablehlo.pad {{.*}} low = [0, 1, 1, 0], high = [0, 2, 2, 0], interior = [0, 1, 1, 0]
  // CHECK: pad = {{\[\[}}0, 0], [0, 0]]
  func.func @main(%x: tensor<4x7x7x8xf32>, %k: tensor<7x7x8x6xf32>) -> tensor<2x10x10x6xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 2], [1, 2]], lhs_dilate = [2, 2]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<4x7x7x8xf32>, tensor<7x7x8x6xf32>) -> tensor<2x10x10x6xf32>
    return %0 : tensor<2x10x10x6xf32>
  }
}

// -----

// CHECK-LABEL: module @cut
module @cut {
  // CHECK: stablehlo.pad {{.*}} low = [0, -1, -1, 0], high = [0, 1, 1, 0]
  // CHECK: pad = {{\[\[}}0, 0], [0, 0]]
  func.func @main(%x: tensor<4x8x8x8xf64>, %k: tensor<6x6x8x6xf64>) -> tensor<4x3x3x6xf64> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[-1, 1], [-1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x8x8x8xf64>, tensor<6x6x8x6xf64>) -> tensor<4x3x3x6xf64>
    return %0 : tensor<4x3x3x6xf64>
  }
}
