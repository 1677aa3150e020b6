// RUN: hespas-opt %s --pad-convolutions --split-input-file | filecheck %s
// RUN: hespas-opt %s --pad-convolutions --pad-convolutions --split-input-file | filecheck %s

/// A strided convolution is no gradient of an image, whatever its kernel.

// CHECK-LABEL: module @strided
module @strided {
  // CHECK: stablehlo.pad %arg0, {{.*}} low = [0, 1, 0], high = [0, 0, 0], interior = [0, 0, 0]
  func.func @main(%x: tensor<2x16x4xf32>, %w: tensor<3x4x4xf32>) -> tensor<2x8x4xf32> {
    %r = stablehlo.reverse %w, dims = [0] : tensor<3x4x4xf32>
    %0 = stablehlo.convolution(%x, %r) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<3x4x4xf32>) -> tensor<2x8x4xf32>
    return %0 : tensor<2x8x4xf32>
  }
}

// -----

/// A kernel that is converted after its reversal is none that XLA finds.

// CHECK-LABEL: module @converted
module @converted {
  // CHECK: stablehlo.pad %arg0, {{.*}} interior = [0, 1, 0]
  func.func @main(%x: tensor<2x16x4xf32>, %w: tensor<3x4x4xbf16>) -> tensor<2x31x4xf32> {
    %r = stablehlo.reverse %w, dims = [0] : tensor<3x4x4xbf16>
    %c = stablehlo.convert %r : (tensor<3x4x4xbf16>) -> tensor<3x4x4xf32>
    %0 = stablehlo.convolution(%x, %c) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<3x4x4xf32>) -> tensor<2x31x4xf32>
    return %0 : tensor<2x31x4xf32>
  }
}

// -----

/// Holes without any padding are filled as well.

// CHECK-LABEL: module @holes
module @holes {
  // CHECK: stablehlo.pad %arg0, {{.*}} low = [0, 0, 0], high = [0, 0, 0], interior = [0, 1, 0]
  // CHECK-NEXT: stablehlo.convolution{{.*}} window = {pad = {{\[\[}}0, 0]], lhs_dilate = [1]}
  func.func @main(%x: tensor<2x16x4xf32>, %w: tensor<3x4x4xf32>) -> tensor<2x29x4xf32> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<3x4x4xf32>) -> tensor<2x29x4xf32>
    return %0 : tensor<2x29x4xf32>
  }
}

// -----

/// A kernel as large as the result is no image.

// CHECK-LABEL: module @equal_size
module @equal_size {
  // CHECK: stablehlo.pad %arg0, {{.*}} low = [0, 2, 0], high = [0, 0, 0]
  // CHECK-NEXT: stablehlo.convolution{{.*}} window = {pad = {{\[\[}}0, 0]], lhs_dilate = [1], rhs_dilate = [2]}
  func.func @main(%x: tensor<2x5x4xf32>, %w: tensor<3x4x4xf32>) -> tensor<2x3x4xf32> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 0]], rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x5x4xf32>, tensor<3x4x4xf32>) -> tensor<2x3x4xf32>
    return %0 : tensor<2x3x4xf32>
  }
}

// -----

/// Without a stride, a kernel gradient has the padding of its convolution, equal or not, negative or not.

// CHECK-LABEL: module @kernel_gradients
module @kernel_gradients {
  // CHECK: stablehlo.pad %arg0, {{.*}} low = [0, 3, 0], high = [0, 0, 0]
  // CHECK: stablehlo.pad %arg0, {{.*}} low = [0, -1, 0], high = [0, 1, 0]
  func.func @main(%x: tensor<2x16x4xf32>, %g: tensor<2x17x4xf32>, %h: tensor<2x14x4xf32>) -> (tensor<3x4x4xf32>, tensor<3x4x4xf32>) {
    %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[3, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x17x4xf32>) -> tensor<3x4x4xf32>
    %1 = stablehlo.convolution(%x, %h) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[-1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x14x4xf32>) -> tensor<3x4x4xf32>
    return %0, %1 : tensor<3x4x4xf32>, tensor<3x4x4xf32>
  }
}

// -----

/// Groups and strides are not exchanged.

// CHECK-LABEL: module @not_exchanged
module @not_exchanged {
  // CHECK-NOT: stablehlo.reverse
  // CHECK-COUNT-2: interior = [0, 1, 0]
  func.func @main(%x: tensor<2x16x4xf32>, %g: tensor<2x32x4xf32>, %h: tensor<2x31x4xf32>) -> (tensor<4x2x4xf32>, tensor<3x4x4xf32>) {
    %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[2, 2]], lhs_dilate = [2]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x32x4xf32>) -> tensor<4x2x4xf32>
    %1 = stablehlo.convolution(%x, %h) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {stride = [2], pad = [[2, 2]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x31x4xf32>) -> tensor<3x4x4xf32>
    return %0, %1 : tensor<4x2x4xf32>, tensor<3x4x4xf32>
  }
}

// -----

/// A window that is reversed already is not reversed again, and one convolution remains.

// CHECK-LABEL: module @exchanged_reversed
module @exchanged_reversed {
  // CHECK: %[[X:.*]] = stablehlo.reverse %arg0, dims = [1]
  // CHECK-NEXT: stablehlo.convolution(%arg1, %[[X]]) {{.*}} window = {pad = {{\[\[}}1, 1]], lhs_dilate = [1], rhs_dilate = [2]}
  // CHECK-NEXT: return
  func.func @main(%x: tensor<2x16x4xf32>, %g: tensor<2x32x4xf32>) -> tensor<4x4x4xf32> {
    %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[2, 2]], lhs_dilate = [2], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x32x4xf32>) -> tensor<4x4x4xf32>
    return %0 : tensor<4x4x4xf32>
  }
}

// -----

/// The side that is cut may be the first, of one dimension of two. The gradient of a
/// convolution that has cut its image is none that cuDNN computes.

// CHECK-LABEL: module @image_gradients
module @image_gradients {
  // CHECK: %[[G:.*]] = stablehlo.convolution{{.*}} window = {pad = {{\[\[}}2, 2], [1, 1]]} {{.*}} -> tensor<2x10x8x4xf32>
  // CHECK-NEXT: stablehlo.slice %[[G]] [0:2, 1:10, 0:8, 0:4]
  // CHECK-NEXT: stablehlo.reverse
  // CHECK: stablehlo.pad {{.*}} low = [0, 3, 0], high = [0, 2, 0], interior = [0, 1, 0]
  // CHECK-NEXT: stablehlo.convolution{{.*}} window = {pad = {{\[\[}}0, 0]], lhs_dilate = [1]}
  // CHECK-NEXT: return
  func.func @main(%g: tensor<2x8x8x4xf32>, %w: tensor<3x3x4x4xf32>, %f: tensor<2x8x4xf32>, %v: tensor<3x4x4xf32>) -> (tensor<2x9x8x4xf32>, tensor<2x18x4xf32>) {
    %r = stablehlo.reverse %w, dims = [0, 1] : tensor<3x3x4x4xf32>
    %0 = stablehlo.convolution(%g, %r) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {pad = [[1, 2], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x4xf32>, tensor<3x3x4x4xf32>) -> tensor<2x9x8x4xf32>
    %s = stablehlo.reverse %v, dims = [0] : tensor<3x4x4xf32>
    %1 = stablehlo.convolution(%f, %s) dim_numbers = [b, 0, f]x[0, o, i]->[b, 0, f], window = {pad = [[3, 2]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x4xf32>) -> tensor<2x18x4xf32>
    return %0, %1 : tensor<2x9x8x4xf32>, tensor<2x18x4xf32>
  }
}

// -----

/// The gradients of a dilated convolution are forward convolutions to cuDNN, which pads their images
/// on both sides.

// CHECK-LABEL: module @dilated
module @dilated {
  // CHECK: stablehlo.pad %arg0, {{.*}} low = [0, 2, 0], high = [0, 3, 0]
  // CHECK: stablehlo.convolution{{.*}} window = {stride = [2], pad = {{\[\[}}0, 0]]
  // CHECK: stablehlo.pad %arg1, {{.*}} low = [0, 3, 0], high = [0, 2, 0]
  // CHECK: stablehlo.convolution{{.*}} window = {pad = {{\[\[}}0, 0]], {{.*}}rhs_dilate = [2]}
  func.func @main(%x: tensor<2x16x4xf32>, %g: tensor<2x16x6xf32>, %w: tensor<3x4x6xf32>) -> (tensor<3x4x6xf32>, tensor<2x17x4xf32>) {
    %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {stride = [2], pad = [[2, 3]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x16x6xf32>) -> tensor<3x4x6xf32>
    %r = stablehlo.reverse %w, dims = [0] : tensor<3x4x6xf32>
    %1 = stablehlo.convolution(%g, %r) dim_numbers = [b, 0, f]x[0, o, i]->[b, 0, f], window = {pad = [[3, 2]], rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x6xf32>, tensor<3x4x6xf32>) -> tensor<2x17x4xf32>
    return %0, %1 : tensor<3x4x6xf32>, tensor<2x17x4xf32>
  }
}

// -----

/// Nor is a convolution of groups.

// CHECK-LABEL: module @grouped
module @grouped {
  // CHECK: stablehlo.pad %arg0, %{{.*}}, low = [0, 1, 0], high = [0, 1, 0], interior = [0, 1, 0]
  func.func @main(%x: tensor<2x16x4xf32>, %w: tensor<3x2x4xf32>) -> tensor<2x31x4xf32> {
    %r = stablehlo.reverse %w, dims = [0] : tensor<3x2x4xf32>
    %0 = stablehlo.convolution(%x, %r) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x16x4xf32>, tensor<3x2x4xf32>) -> tensor<2x31x4xf32>
    return %0 : tensor<2x31x4xf32>
  }
}

// -----

/// One with a reversed window is a gradient of the image, although the result is smaller than the kernel.

// CHECK-LABEL: module @turned
module @turned {
  // CHECK: %[[Y:.*]] = stablehlo.convolution(%arg0, %arg1) {{.*}}pad = {{\[\[}}1, 1]], reverse = [true]
  // CHECK-NEXT: stablehlo.slice %[[Y]] [0:4, 0:3, 0:4]
  func.func @main(%x: tensor<4x16x2xf32>, %w: tensor<15x2x4xf32>) -> tensor<4x3x4xf32> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 0]], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x16x2xf32>, tensor<15x2x4xf32>) -> tensor<4x3x4xf32>
    return %0 : tensor<4x3x4xf32>
  }
}
