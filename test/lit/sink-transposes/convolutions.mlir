// RUN: hespas-opt %s --sink-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-transposes --sink-transposes --split-input-file | filecheck %s

/// What follows a convolution keeps the order of its result, up to the next one: here its bias, a
/// maximum over windows, and padding.

// CHECK-LABEL: module @between
module @between {
  // CHECK: %[[A:.*]] = stablehlo.convolution(%arg0, %arg1)
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.add {{.*}} : tensor<2x8x6x4xf32>
  // CHECK: "stablehlo.reduce_window"
  // CHECK-SAME: padding = dense<{{\[\[}}0, 0], [1, 0], [0, 1], [0, 0]]>
  // CHECK-SAME: window_dimensions = array<i64: 1, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 1>
  // CHECK: -> tensor<2x4x6x4xf32>
  // CHECK: %[[P:.*]] = stablehlo.pad {{.*}} low = [0, 0, 1, 0], high = [0, 2, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x4x6x4xf32>, tensor<f32>) -> tensor<2x6x7x4xf32>
  // CHECK-NEXT: stablehlo.convolution(%[[P]], %arg1)
  func.func @main(%x: tensor<2x8x6x4xf32>, %w: tensor<4x1x1x4xf32>, %b: tensor<4xf32>) -> tensor<2x6x7x4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x6x4xf32>, tensor<4x1x1x4xf32>) -> tensor<2x8x6x4xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 1, 2] : (tensor<2x8x6x4xf32>) -> tensor<2x4x8x6xf32>
    %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<2x4x8x6xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x4x8x6xf32>
    %4 = "stablehlo.reduce_window"(%3, %zero) ({
    ^bb0(%a: tensor<f32>, %c: tensor<f32>):
      %9 = stablehlo.maximum %a, %c : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) {window_dimensions = array<i64: 1, 1, 3, 2>, window_strides = array<i64: 1, 1, 2, 1>, padding = dense<[[0, 0], [0, 0], [1, 0], [0, 1]]> : tensor<4x2xi64>} : (tensor<2x4x8x6xf32>, tensor<f32>) -> tensor<2x4x4x6xf32>
    %5 = stablehlo.pad %4, %zero, low = [0, 0, 0, 1], high = [0, 0, 2, 0], interior = [0, 0, 0, 0] : (tensor<2x4x4x6xf32>, tensor<f32>) -> tensor<2x4x6x7xf32>
    %6 = stablehlo.transpose %5, dims = [0, 2, 3, 1] : (tensor<2x4x6x7xf32>) -> tensor<2x6x7x4xf32>
    %7 = stablehlo.convolution(%6, %w) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x7x4xf32>, tensor<4x1x1x4xf32>) -> tensor<2x6x7x4xf32>
    return %7 : tensor<2x6x7x4xf32>
  }
}

// -----

/// Images are joined in their order. The groups of their channels are parts of it.

// CHECK-LABEL: module @groups
module @groups {
  // CHECK: %[[J:.*]] = stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 3 : {{.*}} -> tensor<2x8x6x12xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.reshape %{{.*}} : (tensor<2x8x6x12xf32>) -> tensor<2x8x6x3x4xf32>
  // CHECK: stablehlo.reduce{{.*}} dimensions = [1, 2, 4]
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.subtract {{.*}} : tensor<2x8x6x3x4xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.convolution
  func.func @main(%x: tensor<2x8x6x4xf32>, %w: tensor<6x1x1x4xf32>, %v: tensor<4x1x1x12xf32>) -> tensor<2x8x6x4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x6x4xf32>, tensor<6x1x1x4xf32>) -> tensor<2x8x6x6xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 1, 2] : (tensor<2x8x6x6xf32>) -> tensor<2x6x8x6xf32>
    %2 = stablehlo.tanh %1 : tensor<2x6x8x6xf32>
    %3 = stablehlo.concatenate %1, %2, dim = 1 : (tensor<2x6x8x6xf32>, tensor<2x6x8x6xf32>) -> tensor<2x12x8x6xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x12x8x6xf32>) -> tensor<2x3x4x8x6xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [2, 3, 4] : (tensor<2x3x4x8x6xf32>, tensor<f32>) -> tensor<2x3xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x4x8x6xf32>
    %7 = stablehlo.subtract %4, %6 : tensor<2x3x4x8x6xf32>
    %8 = stablehlo.reshape %7 : (tensor<2x3x4x8x6xf32>) -> tensor<2x12x8x6xf32>
    %9 = stablehlo.transpose %8, dims = [0, 2, 3, 1] : (tensor<2x12x8x6xf32>) -> tensor<2x8x6x12xf32>
    %10 = stablehlo.convolution(%9, %v) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x6x12xf32>, tensor<4x1x1x12xf32>) -> tensor<2x8x6x4xf32>
    return %10 : tensor<2x8x6x4xf32>
  }
}

// -----

/// Each element of an enlarged image is repeated where it is.

// CHECK-LABEL: module @enlarged
module @enlarged {
  // CHECK: stablehlo.broadcast_in_dim %{{.*}}, dims = [0, 1, 3, 5] : (tensor<2x8x6x4xf32>) -> tensor<2x8x2x6x2x4xf32>
  // CHECK: stablehlo.reshape {{.*}} -> tensor<2x16x12x4xf32>
  // CHECK-NEXT: stablehlo.transpose %{{.*}}, dims = [0, 3, 1, 2] : (tensor<2x16x12x4xf32>)
  func.func @main(%x: tensor<2x8x6x4xf32>, %w: tensor<4x1x1x4xf32>) -> tensor<2x4x16x12xf32> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x6x4xf32>, tensor<4x1x1x4xf32>) -> tensor<2x8x6x4xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 1, 2] : (tensor<2x8x6x4xf32>) -> tensor<2x4x8x6xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 4] : (tensor<2x4x8x6xf32>) -> tensor<2x4x8x2x6x2xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x4x8x2x6x2xf32>) -> tensor<2x4x16x12xf32>
    return %3 : tensor<2x4x16x12xf32>
  }
}

// -----

/// What else is transposed into the order of what follows a convolution is not in the way, as the gradient of a maximum
/// over windows; what is transposed into another order is.

// CHECK-LABEL: module @transposed_alike
module @transposed_alike {
  // CHECK: %[[A:.*]] = stablehlo.convolution(%arg0, %arg1)
  // CHECK: %[[S:.*]] = stablehlo.select %{{.*}}, %arg2, %[[A]] : tensor<2x8x6x4xi1>, tensor<2x8x6x4xf32>
  // CHECK: stablehlo.convolution(%[[S]], %arg1)
  func.func @main(%x: tensor<2x8x6x4xf32>, %w: tensor<4x1x1x4xf32>, %g: tensor<2x8x6x4xf32>) -> tensor<2x8x6x4xf32> {
    %zeros = stablehlo.constant dense<0.0> : tensor<2x4x8x6xf32>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x6x4xf32>, tensor<4x1x1x4xf32>) -> tensor<2x8x6x4xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 1, 2] : (tensor<2x8x6x4xf32>) -> tensor<2x4x8x6xf32>
    %2 = stablehlo.compare GT, %1, %zeros : (tensor<2x4x8x6xf32>, tensor<2x4x8x6xf32>) -> tensor<2x4x8x6xi1>
    %3 = stablehlo.transpose %g, dims = [0, 3, 1, 2] : (tensor<2x8x6x4xf32>) -> tensor<2x4x8x6xf32>
    %4 = stablehlo.select %2, %3, %1 : tensor<2x4x8x6xi1>, tensor<2x4x8x6xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 3, 1] : (tensor<2x4x8x6xf32>) -> tensor<2x8x6x4xf32>
    %6 = stablehlo.convolution(%5, %w) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x6x4xf32>, tensor<4x1x1x4xf32>) -> tensor<2x8x6x4xf32>
    return %6 : tensor<2x8x6x4xf32>
  }
}

// -----

// CHECK-LABEL: module @transposed_otherwise
module @transposed_otherwise {
  // CHECK: stablehlo.select %{{.*}} : tensor<2x4x8x6xi1>, tensor<2x4x8x6xf32>
  func.func @main(%x: tensor<2x8x6x4xf32>, %w: tensor<4x1x1x4xf32>, %g: tensor<2x4x6x8xf32>) -> tensor<2x8x6x4xf32> {
    %zeros = stablehlo.constant dense<0.0> : tensor<2x4x8x6xf32>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x6x4xf32>, tensor<4x1x1x4xf32>) -> tensor<2x8x6x4xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 1, 2] : (tensor<2x8x6x4xf32>) -> tensor<2x4x8x6xf32>
    %2 = stablehlo.compare GT, %1, %zeros : (tensor<2x4x8x6xf32>, tensor<2x4x8x6xf32>) -> tensor<2x4x8x6xi1>
    %3 = stablehlo.transpose %g, dims = [0, 1, 3, 2] : (tensor<2x4x6x8xf32>) -> tensor<2x4x8x6xf32>
    %4 = stablehlo.select %2, %3, %1 : tensor<2x4x8x6xi1>, tensor<2x4x8x6xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 3, 1] : (tensor<2x4x8x6xf32>) -> tensor<2x8x6x4xf32>
    return %5 : tensor<2x8x6x4xf32>
  }
}
