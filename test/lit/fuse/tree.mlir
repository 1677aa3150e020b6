// RUN: hespas-opt %s --fuse --split-input-file | filecheck %s

/// A row of more than 16,384 elements is reduced in parts, padded with the initial value if they do not
/// divide it; one element less is a single kernel.

// CHECK-LABEL: module @row
module @row {
  // CHECK: stablehlo.pad {{.*}} -> tensor<65538xf32>
  // CHECK: stablehlo.reduce({{.*}} : (tensor<198x331xf32>
  // CHECK: stablehlo.reduce({{.*}} : (tensor<198xf32>
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<65537xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<65537xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

// CHECK-LABEL: module @short
module @short {
  // CHECK: stablehlo.reduce
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<16384xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16384xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

/// Rows of many batches are reduced along the row first.

// CHECK-LABEL: module @batch
module @batch {
  // CHECK: stablehlo.reduce({{.*}} across dimensions = [2] : (tensor<64x32x128xf32>
  // CHECK: stablehlo.reduce({{.*}} across dimensions = [0] : (tensor<64x32xf32>
  func.func @main(%x: tensor<64x32x128xf32>) -> tensor<32xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 2] : (tensor<64x32x128xf32>, tensor<f32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

/// A reduction of several values stays whole.

// CHECK-LABEL: module @pairs
module @pairs {
  // CHECK: stablehlo.reduce
  // CHECK-NOT: stablehlo.reduce(
  func.func @main(%x: tensor<65536xf32>, %y: tensor<65536xf32>) -> (tensor<f32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.reduce(%x init: %zero), (%y init: %zero) across dimensions = [0] : (tensor<65536xf32>, tensor<65536xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
     reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<f32>, %d: tensor<f32>) {
      %1 = stablehlo.add %a, %c : tensor<f32>
      %2 = stablehlo.add %b, %d : tensor<f32>
      stablehlo.return %1, %2 : tensor<f32>, tensor<f32>
    }
    return %0#0, %0#1 : tensor<f32>, tensor<f32>
  }
}
