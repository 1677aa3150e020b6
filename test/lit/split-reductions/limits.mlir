// RUN: hespas-opt %s --split-reductions --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-reductions --split-reductions --split-input-file | filecheck %s

/// A row of more than 16,384 elements is reduced in parts, padded with the initial value if they do not
/// divide it; one of 16,384 is a single kernel.

// CHECK-LABEL: module @row
module @row {
  // CHECK: %[[P:.*]] = stablehlo.pad %arg0, %cst, low = [0], high = [1], interior = [0] : {{.*}} -> tensor<65538xf32>
  // CHECK-NEXT: stablehlo.reshape %[[P]]
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

/// Parts that need no padding are preferred, and among them a power of two.

// CHECK-LABEL: module @power
module @power {
  // CHECK-NOT: stablehlo.pad
  // CHECK: stablehlo.reshape %arg0 : {{.*}} -> tensor<256x256xf32>
  // CHECK-COUNT-2: stablehlo.reduce
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<65536xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<65536xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

// CHECK-LABEL: module @power_of_two
module @power_of_two {
  // CHECK-NOT: stablehlo.pad
  // CHECK: -> tensor<2048x2560xf32>
  func.func @main(%x: tensor<5242880xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<5242880xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

/// Up to eight rows of a batch are reduced together.

// CHECK-LABEL: module @few_batches
module @few_batches {
  // CHECK-NOT: stablehlo.reshape
  // CHECK: stablehlo.reduce(%arg0
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<8x32x128xf32>) -> tensor<32xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 2] : (tensor<8x32x128xf32>, tensor<f32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @nine_batches
module @nine_batches {
  // CHECK: %[[P:.*]] = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2]
  // CHECK: stablehlo.reduce(%[[P]] init: %cst) applies stablehlo.add across dimensions = [0]
  func.func @main(%x: tensor<9x32x128xf32>) -> tensor<32xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 2] : (tensor<9x32x128xf32>, tensor<f32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

/// Up to 4,096 rows are reduced to one by a thread block; one row more takes two steps.

// CHECK-LABEL: module @columns
module @columns {
  // CHECK-NOT: stablehlo.reshape
  // CHECK: stablehlo.reduce(%arg0
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<4096x64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096x64xf32>, tensor<f32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

// CHECK-LABEL: module @more_columns
module @more_columns {
  // CHECK: stablehlo.pad %arg0, %cst, low = [0, 0], high = [{{[0-9]+}}, 0]
  // CHECK: across dimensions = [1] : (tensor<{{[0-9]+}}x{{[0-9]+}}x64xf32>
  // CHECK: across dimensions = [0] : (tensor<{{[0-9]+}}x64xf32>
  func.func @main(%x: tensor<4097x64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4097x64xf32>, tensor<f32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

/// Neighbouring dimensions are reduced as one, and the result has its shape.

// CHECK-LABEL: module @grouped
module @grouped {
  // CHECK: stablehlo.reshape %arg0 : {{.*}} -> tensor<16384x64xf32>
  // CHECK: -> tensor<128x128x64xf32>
  // CHECK: across dimensions = [1]
  // CHECK: %[[R:.*]] = stablehlo.reduce({{.*}} across dimensions = [0] : (tensor<128x64xf32>
  // CHECK: stablehlo.reshape %[[R]] : (tensor<64xf32>) -> tensor<1x64xf32>
  func.func @main(%x: tensor<64x1x128x2x64xf32>) -> tensor<1x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<64x1x128x2x64xf32>, tensor<f32>) -> tensor<1x64xf32>
    return %0 : tensor<1x64xf32>
  }
}

// -----

/// The batch of a long row is reduced with the parts.

// CHECK-LABEL: module @long_batch
module @long_batch {
  // CHECK: stablehlo.reshape %arg0 : {{.*}} -> tensor<4x32x128x256xf32>
  // CHECK: across dimensions = [0, 3] : (tensor<4x32x128x256xf32>, tensor<f32>) -> tensor<32x128xf32>
  // CHECK: across dimensions = [1] : (tensor<32x128xf32>
  func.func @main(%x: tensor<4x32x32768xf32>) -> tensor<32xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 2] : (tensor<4x32x32768xf32>, tensor<f32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

/// A step that is still too long is split again.

// CHECK-LABEL: module @rows_of_batches
module @rows_of_batches {
  // CHECK: across dimensions = [2] : (tensor<8192x32x128xf32>
  // CHECK: -> tensor<64x128x32xf32>
  // CHECK: across dimensions = [1] : (tensor<64x128x32xf32>
  // CHECK: across dimensions = [0] : (tensor<64x32xf32>
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<8192x32x128xf32>) -> tensor<32xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 2] : (tensor<8192x32x128xf32>, tensor<f32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @huge
module @huge {
  // CHECK: across dimensions = [2] : (tensor<32768x128x256xf32>
  // CHECK: across dimensions = [1] : (tensor<32768x128xf32>
  // CHECK: across dimensions = [1] : (tensor<128x256xf32>
  // CHECK: across dimensions = [0] : (tensor<128xf32>
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<1073741824xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1073741824xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

/// Dimensions that are no neighbours, such as those of a group norm, have no tiles: the longest is
/// reduced first, with what is long in it, unless all are short.

// CHECK-LABEL: module @four_runs
module @four_runs {
  // CHECK: %[[A:.*]] = stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [1] : (tensor<16x4096x32x10xf32>, tensor<f32>) -> tensor<16x32x10xf32>
  // CHECK: stablehlo.reduce(%[[A]] init: %{{.*}}) applies stablehlo.add across dimensions = [2] : (tensor<16x32x10xf32>, tensor<f32>) -> tensor<16x32xf32>
  // CHECK: stablehlo.reduce(%arg1 init: %{{.*}}) applies stablehlo.add across dimensions = [1, 3]
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<16x64x64x32x10xf32>, %y: tensor<64x8x64x8xf32>) -> (tensor<16x32xf32>, tensor<64x64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<16x64x64x32x10xf32>, tensor<f32>) -> tensor<16x32xf32>
    %1 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1, 3] : (tensor<64x8x64x8xf32>, tensor<f32>) -> tensor<64x64xf32>
    return %0, %1 : tensor<16x32xf32>, tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: module @row_more
module @row_more {
  // CHECK-COUNT-2: stablehlo.reduce(
  func.func @main(%x: tensor<16385xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16385xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

/// So have rows that no warp can share.

// CHECK-LABEL: module @short_rows
module @short_rows {
  // CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [2]
  // CHECK: stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [0]
  func.func @main(%x: tensor<16x32x24xf32>) -> tensor<32xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 2] : (tensor<16x32x24xf32>, tensor<f32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

/// A power of two is preferred to a larger number of parts that needs no padding either.

// CHECK-LABEL: module @third
module @third {
  // CHECK: stablehlo.reshape %arg0 : {{.*}} -> tensor<256x768xf32>
  func.func @main(%x: tensor<196608xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<196608xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
