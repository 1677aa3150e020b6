// RUN: hespas-opt %s --pad-convolutions --split-input-file | filecheck %s
// RUN: hespas-opt %s --pad-convolutions --pad-convolutions --split-input-file | filecheck %s

/// A convolution with equal padding stays; one with unequal padding, here a causal one, reads an
/// image that a kernel has padded, as XLA compiles it.

// CHECK-LABEL: module @causal
module @causal {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: stablehlo.convolution(%arg0, %arg1) {{.*}}pad = {{\[\[}}1, 1]]
  // CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
  // CHECK-NEXT: %[[P:.*]] = stablehlo.pad %arg0, %[[ZERO]], low = [0, 2, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<2x16x4xbf16>, tensor<bf16>) -> tensor<2x18x4xbf16>
  // CHECK-NEXT: stablehlo.convolution(%[[P]], %arg1) {{.*}}pad = {{\[\[}}0, 0]]
  func.func @main(%x: tensor<2x16x4xbf16>, %w: tensor<3x4x4xbf16>) -> (tensor<2x16x4xbf16>, tensor<2x16x4xbf16>) {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xbf16>, tensor<3x4x4xbf16>) -> tensor<2x16x4xbf16>
    %1 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xbf16>, tensor<3x4x4xbf16>) -> tensor<2x16x4xbf16>
    return %0, %1 : tensor<2x16x4xbf16>, tensor<2x16x4xbf16>
  }
}

// -----

/// A padding may be negative, and one dimension of two unequal.

// CHECK-LABEL: module @negative
module @negative {
  // CHECK: stablehlo.pad {{.*}} low = [0, 0, -1, 1], high = [0, 0, -1, 1], interior = [0, 0, 0, 0] {{.*}} -> tensor<2x4x14x18xi8>
  // CHECK-NEXT: stablehlo.convolution{{.*}}pad = {{\[\[}}0, 0], [0, 0]]
  // CHECK: stablehlo.pad {{.*}} low = [0, 0, 0, 1], high = [0, 0, 1, 1]
  func.func @main(%x: tensor<2x4x16x16xi8>, %w: tensor<4x4x3x3xi8>) -> (tensor<2x4x12x16xi32>, tensor<2x4x15x16xi32>) {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[-1, -1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x16x16xi8>, tensor<4x4x3x3xi8>) -> tensor<2x4x12x16xi32>
    %1 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[0, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x16x16xi8>, tensor<4x4x3x3xi8>) -> tensor<2x4x15x16xi32>
    return %0, %1 : tensor<2x4x12x16xi32>, tensor<2x4x15x16xi32>
  }
}

// -----

/// The holes of a transposed convolution are filled by the kernel that pads it, whose places cuDNN
/// multiplies like others. It reads them by itself where it finds a gradient of an image: by the
/// reversal of the kernel, also before a transpose and in two steps, or with a kernel of one point.

// CHECK-LABEL: module @transposed
module @transposed {
  // CHECK: stablehlo.pad %arg0, {{.*}} low = [0, 1, 0], high = [0, 1, 0], interior = [0, 1, 0] {{.*}} -> tensor<2x33x4xf32>
  // CHECK-NEXT: stablehlo.convolution{{.*}} window = {pad = {{\[\[}}0, 0]], lhs_dilate = [1]}
  // CHECK-NOT: stablehlo.pad
  // CHECK: stablehlo.convolution{{.*}}lhs_dilate = [2]
  // CHECK: stablehlo.convolution{{.*}}lhs_dilate = [2]
  func.func @main(%x: tensor<2x16x4xf32>, %w: tensor<3x4x4xf32>, %p: tensor<1x4x4xf32>) -> (tensor<2x31x4xf32>, tensor<2x31x4xf32>, tensor<2x31x4xf32>) {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<3x4x4xf32>) -> tensor<2x31x4xf32>
    %r = stablehlo.reverse %w, dims = [0] : tensor<3x4x4xf32>
    %t = stablehlo.transpose %r, dims = [2, 0, 1] : (tensor<3x4x4xf32>) -> tensor<4x3x4xf32>
    %1 = stablehlo.convolution(%x, %t) dim_numbers = [b, 0, f]x[o, 0, i]->[b, 0, f], window = {pad = [[1, 1]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<4x3x4xf32>) -> tensor<2x31x4xf32>
    %2 = stablehlo.convolution(%x, %p) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<1x4x4xf32>) -> tensor<2x31x4xf32>
    return %0, %1, %2 : tensor<2x31x4xf32>, tensor<2x31x4xf32>, tensor<2x31x4xf32>
  }
}

// -----

/// Two reversals are none, and one of the features is none of the window; the flag of the op is one.

// CHECK-LABEL: module @reversals
module @reversals {
  // CHECK-COUNT-2: interior = [0, 1, 0]
  // CHECK-NOT: interior
  func.func @main(%x: tensor<2x16x4xf32>, %w: tensor<3x4x4xf32>) -> (tensor<2x31x4xf32>, tensor<2x31x4xf32>, tensor<2x31x4xf32>) {
    %r = stablehlo.reverse %w, dims = [0] : tensor<3x4x4xf32>
    %s = stablehlo.reverse %r, dims = [0] : tensor<3x4x4xf32>
    %0 = stablehlo.convolution(%x, %s) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<3x4x4xf32>) -> tensor<2x31x4xf32>
    %f = stablehlo.reverse %w, dims = [1] : tensor<3x4x4xf32>
    %1 = stablehlo.convolution(%x, %f) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<3x4x4xf32>) -> tensor<2x31x4xf32>
    %2 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]], lhs_dilate = [2], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<3x4x4xf32>) -> tensor<2x31x4xf32>
    return %0, %1, %2 : tensor<2x31x4xf32>, tensor<2x31x4xf32>, tensor<2x31x4xf32>
  }
}

// -----

/// The gradient of an image that was padded unequally is computed of a larger image, and cut: this is
/// of a forward convolution with the padding 0 and 1 and the stride 2.

// CHECK-LABEL: module @image_gradient
module @image_gradient {
  // CHECK: %[[G:.*]] = stablehlo.convolution{{.*}}pad = {{\[\[}}2, 2]], lhs_dilate = [2]{{.*}} -> tensor<2x17x4xf32>
  // CHECK-NEXT: stablehlo.slice %[[G]] [0:2, 0:16, 0:4] : (tensor<2x17x4xf32>) -> tensor<2x16x4xf32>
  func.func @main(%g: tensor<2x8x4xf32>, %w: tensor<3x4x4xf32>) -> tensor<2x16x4xf32> {
    %r = stablehlo.reverse %w, dims = [0] : tensor<3x4x4xf32>
    %0 = stablehlo.convolution(%g, %r) dim_numbers = [b, 0, f]x[0, o, i]->[b, 0, f], window = {pad = [[2, 1]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x4xf32>) -> tensor<2x16x4xf32>
    return %0 : tensor<2x16x4xf32>
  }
}

// -----

/// The gradient of its kernel reads the padded image. A last stride that the forward convolution has
/// not used is no unequal padding: of 0 and 0, and of 0 and -1, the first is taken.

// CHECK-LABEL: module @kernel_gradient
module @kernel_gradient {
  // CHECK: %[[P:.*]] = stablehlo.pad %arg0, {{.*}} low = [0, 0, 0], high = [0, 1, 0]
  // CHECK-NEXT: stablehlo.convolution(%[[P]], %arg1) {{.*}}pad = {{\[\[}}0, 0]]
  // CHECK-NEXT: stablehlo.convolution(%arg0, %arg2) {{.*}}pad = {{\[\[}}0, -1]]
  func.func @main(%x: tensor<2x16x4xf32>, %g: tensor<2x8x4xf32>, %h: tensor<2x7x4xf32>) -> (tensor<3x4x4xf32>, tensor<3x4x4xf32>) {
    %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[0, 1]], rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x8x4xf32>) -> tensor<3x4x4xf32>
    %1 = stablehlo.convolution(%x, %h) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[0, -1]], rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x7x4xf32>) -> tensor<3x4x4xf32>
    return %0, %1 : tensor<3x4x4xf32>, tensor<3x4x4xf32>
  }
}

// -----

/// That of a transposed convolution exchanges its operands: the holes become a dilation.

// CHECK-LABEL: module @exchanged
module @exchanged {
  // CHECK: %[[X:.*]] = stablehlo.reverse %arg0, dims = [1]
  // CHECK-NEXT: %[[G:.*]] = stablehlo.reverse %arg1, dims = [1]
  // CHECK-NEXT: stablehlo.convolution(%[[G]], %[[X]]) dim_numbers = [f, 0, b]x[i, 0, o]->[0, f, b], window = {pad = {{\[\[}}1, 1]], lhs_dilate = [1], rhs_dilate = [2]}
  func.func @main(%x: tensor<2x16x4xf32>, %g: tensor<2x32x4xf32>) -> tensor<4x4x4xf32> {
    %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[2, 2]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x32x4xf32>) -> tensor<4x4x4xf32>
    return %0 : tensor<4x4x4xf32>
  }
}

// -----

/// Complex convolutions are no calls of cuDNN.

// CHECK-LABEL: module @complex
module @complex {
  // CHECK-NOT: stablehlo.pad
  func.func @main(%x: tensor<2x16x4xcomplex<f32>>, %w: tensor<3x4x4xcomplex<f32>>) -> tensor<2x16x4xcomplex<f32>> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x4xcomplex<f32>>, tensor<3x4x4xcomplex<f32>>) -> tensor<2x16x4xcomplex<f32>>
    return %0 : tensor<2x16x4xcomplex<f32>>
  }
}

// -----

/// An image or a result without elements needs no padding: no kernel runs.

// CHECK-LABEL: module @empty
module @empty {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: stablehlo.convolution(%arg0, %arg1)
  // CHECK-NEXT: stablehlo.convolution(%arg2, %arg1)
  // CHECK-NEXT: return
  func.func @main(%x: tensor<2x0x4xf32>, %w: tensor<3x4x4xf32>, %y: tensor<2x2x4xf32>) -> (tensor<2x0x4xf32>, tensor<2x0x4xf32>) {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 0]], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x0x4xf32>, tensor<3x4x4xf32>) -> tensor<2x0x4xf32>
    %1 = stablehlo.convolution(%y, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[-2, -1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x2x4xf32>, tensor<3x4x4xf32>) -> tensor<2x0x4xf32>
    return %0, %1 : tensor<2x0x4xf32>, tensor<2x0x4xf32>
  }
}

// -----

/// The gradient of a kernel whose window is reversed reads the image, its kernel, as it is.

// CHECK-LABEL: module @reversed
module @reversed {
  // CHECK: %[[K:.*]] = stablehlo.reverse %arg0, dims = [1]
  // CHECK-NOT: stablehlo.reverse
  // CHECK: stablehlo.convolution(%arg1, %[[K]]) {{.*}}rhs_dilate = [2]
  func.func @main(%x: tensor<2x4x3xf32>, %w: tensor<7x3x5xf32>) -> tensor<2x1x5xf32> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[0, 0]], lhs_dilate = [2], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x3xf32>, tensor<7x3x5xf32>) -> tensor<2x1x5xf32>
    return %0 : tensor<2x1x5xf32>
  }
}
