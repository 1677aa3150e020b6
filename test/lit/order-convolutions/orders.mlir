// RUN: hespas-opt %s --order-convolutions=target=H100_80GB --split-input-file | filecheck %s --check-prefixes=CHECK,HOPPER
// RUN: hespas-opt %s --order-convolutions=target=A100_SXM_80GB --split-input-file | filecheck %s --check-prefixes=CHECK,AMPERE
// RUN: hespas-opt %s --order-convolutions=target=H100_80GB --order-convolutions=target=H100_80GB --split-input-file | filecheck %s --check-prefixes=CHECK,HOPPER

/// The channels of 16-bit images are innermost, in whatever order the program has them; so are the
/// inputs of a kernel.

// CHECK-LABEL: module @narrow
module @narrow {
  // CHECK: %[[X:.*]] = stablehlo.transpose %arg0, dims = [0, 2, 3, 1]
  // CHECK: %[[W:.*]] = stablehlo.transpose %arg1, dims = [0, 2, 3, 1]
  // CHECK: %[[Y:.*]] = stablehlo.convolution(%[[X]], %[[W]]) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]
  // CHECK-SAME: pad = {{\[\[}}1, 1], [0, 0]]
  // CHECK-SAME: -> tensor<2x8x8x6xbf16>
  // CHECK: %[[R:.*]] = stablehlo.transpose %[[Y]], dims = [0, 3, 1, 2]
  // CHECK: return %[[R]]
  func.func @main(%x: tensor<2x4x8x8xbf16>, %w: tensor<6x4x3x1xbf16>) -> tensor<2x6x8x8xbf16> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x8x8xbf16>, tensor<6x4x3x1xbf16>) -> tensor<2x6x8x8xbf16>
    return %0 : tensor<2x6x8x8xbf16>
  }
}

// -----

/// Images of 32 bits have their channels innermost since Hopper; before, those are outer.

// CHECK-LABEL: module @wide
module @wide {
  // HOPPER-NEXT: func.func
  // HOPPER-NEXT: %[[W:.*]] = stablehlo.transpose %arg1, dims = [3, 0, 1, 2]
  // HOPPER-NEXT: %[[Y:.*]] = stablehlo.convolution(%arg0, %[[W]]) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]
  // HOPPER-NEXT: return %[[Y]]
  // AMPERE: stablehlo.convolution({{.*}}) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]
  func.func @main(%x: tensor<2x8x8x4xf32>, %w: tensor<3x3x4x6xf32>) -> tensor<2x6x6x6xf32> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x4xf32>, tensor<3x3x4x6xf32>) -> tensor<2x6x6x6xf32>
    return %0 : tensor<2x6x6x6xf32>
  }
}

// -----

/// cuDNN reads volumes, and numbers of 64 bits, with outer channels.

// CHECK-LABEL: module @volumes
module @volumes {
  // CHECK: stablehlo.convolution({{.*}}) dim_numbers = [b, f, 0, 1, 2]x[o, i, 0, 1, 2]->[b, f, 0, 1, 2]
  // CHECK: stablehlo.convolution({{.*}}) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0]
  func.func @main(%x: tensor<2x8x8x8x4xbf16>, %w: tensor<3x3x3x4x6xbf16>, %y: tensor<2x8x4xf64>, %v: tensor<3x4x6xf64>) -> (tensor<2x6x6x6x6xbf16>, tensor<2x6x6xf64>) {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x8x4xbf16>, tensor<3x3x3x4x6xbf16>) -> tensor<2x6x6x6x6xbf16>
    %1 = stablehlo.convolution(%y, %v) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf64>, tensor<3x4x6xf64>) -> tensor<2x6x6xf64>
    return %0, %1 : tensor<2x6x6x6x6xbf16>, tensor<2x6x6xf64>
  }
}

// -----

/// Gradients have the layouts of their forward convolution: that of the image reads its kernel, not
/// reversed, with its inputs innermost; that of the kernel reads two images, and writes a
/// kernel.

// CHECK-LABEL: module @gradients
module @gradients {
  // CHECK: %[[W:.*]] = stablehlo.transpose %arg1, dims = [3, 0, 1, 2]
  // CHECK: stablehlo.convolution(%arg0, %[[W]]) dim_numbers = [b, 0, 1, f]x[i, 0, 1, o]->[b, 0, 1, f], window = {{.*}}reverse = [true, true]
  // CHECK: %[[K:.*]] = stablehlo.convolution(%arg2, %arg0) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[f, 0, 1, b]
  // CHECK-SAME: -> tensor<6x3x3x4xbf16>
  // CHECK: stablehlo.transpose %[[K]], dims = [1, 2, 3, 0]
  func.func @main(%g: tensor<2x8x8x6xbf16>, %w: tensor<3x3x4x6xbf16>, %x: tensor<2x8x8x4xbf16>) -> (tensor<2x8x8x4xbf16>, tensor<3x3x4x6xbf16>) {
    %r = stablehlo.reverse %w, dims = [0, 1] : tensor<3x3x4x6xbf16>
    %0 = stablehlo.convolution(%g, %r) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x6xbf16>, tensor<3x3x4x6xbf16>) -> tensor<2x8x8x4xbf16>
    %1 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x4xbf16>, tensor<2x8x8x6xbf16>) -> tensor<3x3x4x6xbf16>
    return %0, %1 : tensor<2x8x8x4xbf16>, tensor<3x3x4x6xbf16>
  }
}

// -----

/// The gradients of a dilated convolution are forward convolutions to cuDNN, which reads the images
/// and kernels of those.

// CHECK-LABEL: module @dilated
module @dilated {
  // CHECK: stablehlo.convolution({{.*}}) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]
  // CHECK-SAME: (tensor<4x8x8x2xbf16>, tensor<6x8x8x2xbf16>) -> tensor<4x3x3x6xbf16>
  func.func @main(%g: tensor<2x8x8x6xbf16>, %x: tensor<2x8x8x4xbf16>) -> tensor<3x3x4x6xbf16> {
    %1 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [2, 2], pad = [[2, 2], [2, 2]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x4xbf16>, tensor<2x8x8x6xbf16>) -> tensor<3x3x4x6xbf16>
    return %1 : tensor<3x3x4x6xbf16>
  }
}

// -----

/// What cuDNN does not compute stays: complex numbers, and images without elements.

// CHECK-LABEL: module @others
module @others {
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<2x4x8xcomplex<f32>>, %w: tensor<6x4x3xcomplex<f32>>, %y: tensor<0x4x8xbf16>, %v: tensor<6x4x3xbf16>) -> (tensor<2x6x6xcomplex<f32>>, tensor<0x6x6xbf16>) {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x8xcomplex<f32>>, tensor<6x4x3xcomplex<f32>>) -> tensor<2x6x6xcomplex<f32>>
    %1 = stablehlo.convolution(%y, %v) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<0x4x8xbf16>, tensor<6x4x3xbf16>) -> tensor<0x6x6xbf16>
    return %0, %1 : tensor<2x6x6xcomplex<f32>>, tensor<0x6x6xbf16>
  }
}

// -----

/// The channels of images of bytes are innermost on every GPU.

// CHECK-LABEL: module @bytes
module @bytes {
  // CHECK: stablehlo.transpose %arg0, dims = [0, 2, 3, 1]
  // CHECK: stablehlo.convolution{{.*}} dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]
  func.func @main(%x: tensor<2x4x8x8xi8>, %w: tensor<6x4x3x3xi8>) -> tensor<2x6x6x6xi32> {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x8x8xi8>, tensor<6x4x3x3xi8>) -> tensor<2x6x6x6xi32>
    return %0 : tensor<2x6x6x6xi32>
  }
}

// -----

/// A program without a convolution stays as it is.

// CHECK-LABEL: module @other
module @other {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: return
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.tanh %x : tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
