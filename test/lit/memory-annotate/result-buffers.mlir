// RUN: hespas-opt %s --memory-annotate=model-fusion=false --split-input-file | filecheck %s

/// The buffer of a result holds temporary values before: of two results of 8 and 16 KiB the larger one holds two products
/// of 16 KiB one after the other, and the smaller one a product of 4 KiB between them. XLA:CPU plans 64 KiB, too.

// CHECK: module @places
// CHECK-SAME: peak_bytes = 65536 : i64
module @places {
  func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x16xf32>, %z: tensor<16x64xf32>, %w: tensor<64x32xf32>, %u: tensor<32x64xf32>) -> (tensor<64x32xf32>, tensor<64x64xf32>) {
    %0 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.dot %0, %y : (tensor<64x64xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dot %1, %z : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.dot %2, %w : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %4 = stablehlo.dot %3, %u : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    return %3, %4 : tensor<64x32xf32>, tensor<64x64xf32>
  }
}

// -----

/// It holds one at a time: of three products of 16 KiB that are live together, and the result, two need memory of their
/// own. XLA:CPU plans 64 KiB, too.

// CHECK: module @both
// CHECK-SAME: peak_bytes = 65536 : i64
module @both {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.dot %x, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.dot %0, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.dot %2, %2 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.dot %3, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %4 : tensor<64x64xf32>
  }
}

// -----

/// A donated argument is in the buffer of the result until it is read for the last time. What is made of it then needs
/// memory of its own, and a later product of 16 KiB has its place. XLA:CPU plans 52 KiB, too.

// CHECK: module @donated
// CHECK-SAME: argument_bytes = 36864 : i64
// CHECK-SAME: peak_bytes = 53248 : i64
module @donated {
  func.func @main(%x: tensor<64x64xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<64x32xf32>, %v: tensor<32x32xf32>, %z: tensor<32x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [0] x [0] : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %2 = stablehlo.dot %1, %z : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.dot %2, %y : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %4 = stablehlo.dot %3, %v : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %5 = stablehlo.dot %4, %z : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    return %5 : tensor<64x64xf32>
  }
}
