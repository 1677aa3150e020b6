// RUN: hespas-opt %s --fuse | filecheck %s --check-prefix=A100
// RUN: hespas-opt %s --fuse=target=B200_180GB | filecheck %s --check-prefix=B200

/// The kernels are those that save time on the GPU: for a B200 each of two readers computes a softmax again, for an A100
/// one kernel writes it.

// A100: kCustom
// A100-NOT: kCustom
// B200-COUNT-2: kCustom
func.func @main(%x: tensor<16384x1024xf32>, %y: tensor<16384x1024xf32>, %z: tensor<16384x1024xf32>) -> (tensor<16384x1024xf32>, tensor<128x1024xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<16384x1024xf32>
  %3 = stablehlo.exponential %2 : tensor<16384x1024xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
  %6 = stablehlo.divide %3, %5 : tensor<16384x1024xf32>
  %7 = stablehlo.multiply %6, %y : tensor<16384x1024xf32>
  %8 = stablehlo.multiply %6, %z : tensor<16384x1024xf32>
  %9 = stablehlo.reshape %8 : (tensor<16384x1024xf32>) -> tensor<128x128x1024xf32>
  %10 = stablehlo.reduce(%9 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
  return %7, %10 : tensor<16384x1024xf32>, tensor<128x1024xf32>
}
