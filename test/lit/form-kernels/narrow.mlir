// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// A reduction of 512 columns runs on 8 blocks, which would compute a cosine on 8 of 132 cores: it stays
/// apart, as in XLA's program (jaxlib 0.12.0.1). With enough columns it does not.

// CHECK-LABEL: module @few_columns
module @few_columns {
  // CHECK: %[[C:.*]] = stablehlo.cosine %arg0
  // CHECK: stablehlo.reduce(%[[C]]
  func.func @main(%x: tensor<1024x512xf32>) -> tensor<512xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.cosine %x : tensor<1024x512xf32>
    %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
    return %1 : tensor<512xf32>
  }
}

// -----

// CHECK-LABEL: module @many_columns
module @many_columns {
  // CHECK: "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: stablehlo.cosine
  // CHECK: stablehlo.reduce
  func.func @main(%x: tensor<1024x65536xf32>) -> tensor<65536xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.cosine %x : tensor<1024x65536xf32>
    %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x65536xf32>, tensor<f32>) -> tensor<65536xf32>
    return %1 : tensor<65536xf32>
  }
}

// -----

/// A kernel that keeps rows takes in a reduction of the same rows, and reads them once for both.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0, %arg1) {{.*}} kCustom
  // CHECK-COUNT-2: stablehlo.reduce
  // CHECK: return %[[F]]
  func.func @main(%x: tensor<16384x1024xf32>, %y: tensor<16384x1024xf32>) -> tensor<16384x1024xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<16384x1024xf32>
    %3 = stablehlo.multiply %x, %y : tensor<16384x1024xf32>
    %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %6 = stablehlo.add %2, %5 : tensor<16384x1024xf32>
    return %6 : tensor<16384x1024xf32>
  }
}
