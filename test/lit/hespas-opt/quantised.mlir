// RUN: hespas-opt %s --split-input-file --roofline-annotate=node=TPUv5e | filecheck %s

/// A quantised type is read as its storage type, and a change of scales as a conversion.

// CHECK-LABEL: module @layer
// CHECK: stablehlo.dot_general
// CHECK-SAME: dtype = "i8"
// CHECK-SAME: flops = 17179869184
// CHECK-SAME: read_bytes = 8388608
// CHECK-SAME: (tensor<2048x2048xi8>, tensor<2048x2048xi8>) -> tensor<2048x2048xi32>
// CHECK: stablehlo.convert
// CHECK-SAME: (tensor<2048x2048xi32>) -> tensor<2048x2048xi8>
module @layer {
  func.func @main(%x: tensor<2048x2048x!quant.uniform<i8:f32, 0.05:0>>, %w: tensor<2048x2048x!quant.uniform<i8:f32, 0.02:0>>) -> tensor<2048x2048x!quant.uniform<i8:f32, 0.1:3>> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2048x2048x!quant.uniform<i8:f32, 0.05:0>>, tensor<2048x2048x!quant.uniform<i8:f32, 0.02:0>>) -> tensor<2048x2048x!quant.uniform<i32:f32, 0.001:0>>
    %1 = stablehlo.uniform_quantize %0 : (tensor<2048x2048x!quant.uniform<i32:f32, 0.001:0>>) -> tensor<2048x2048x!quant.uniform<i8:f32, 0.1:3>>
    return %1 : tensor<2048x2048x!quant.uniform<i8:f32, 0.1:3>>
  }
}

// -----

/// Ranges of the storage, scales by channel and aliases.

// CHECK-LABEL: module @forms
// CHECK: func.func @main(%arg0: tensor<4x3xui8>, %arg1: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xi8>)
// CHECK: stablehlo.convert %arg0
// CHECK: stablehlo.convert %arg1
!channels = !quant.uniform<i8<-127:127>:f32:1, {0.1:1, 0.2, 0.3}>
module @forms {
  func.func @main(%x: tensor<4x3x!quant.uniform<u8:f32, 0.5:128>>, %y: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3x!channels>) {
    %0 = stablehlo.uniform_dequantize %x : (tensor<4x3x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<4x3xf32>
    %1 = "stablehlo.uniform_quantize"(%y) : (tensor<4x3xf32>) -> tensor<4x3x!channels>
    return %0, %1 : tensor<4x3xf32>, tensor<4x3x!channels>
  }
}
