// RUN: hespas-opt %s --fuse-epilogues | filecheck %s
// RUN: hespas-opt %s --fuse-epilogues=products=false | filecheck %s --check-prefix=ALONE

/// Both libraries take the ReLU of their results, or that of convolutions alone.

// CHECK: kOutput
// CHECK: stablehlo.dot_general
// CHECK: kOutput
// CHECK: stablehlo.convolution
// ALONE-NOT: kOutput
// ALONE: stablehlo.dot_general
// ALONE-NEXT: stablehlo.maximum
// ALONE: kOutput
// ALONE: stablehlo.convolution
// ALONE-NOT: kOutput
func.func @main(%x: tensor<64x64xf32>, %i: tensor<8x16x16x32xf32>, %w: tensor<3x3x32x32xf32>) -> (tensor<64x64xf32>, tensor<8x14x14x32xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.maximum %0, %zeros : tensor<64x64xf32>
  %image = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x14x14x32xf32>
  %2 = stablehlo.convolution(%i, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x16x16x32xf32>, tensor<3x3x32x32xf32>) -> tensor<8x14x14x32xf32>
  %3 = stablehlo.maximum %2, %image : tensor<8x14x14x32xf32>
  return %1, %3 : tensor<64x64xf32>, tensor<8x14x14x32xf32>
}
