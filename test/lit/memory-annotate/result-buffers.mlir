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

// -----

/// A product that is larger than the result has no place in its buffer. XLA:CPU plans 50 KiB, too.

// CHECK: module @larger
// CHECK-SAME: live_bytes = 43008 : i64
// CHECK-SAME: peak_bytes = 51200 : i64
module @larger {
  func.func @main(%x: tensor<64x64xf32>, %z: tensor<64x16xf32>, %w: tensor<16x32xf32>) -> tensor<64x32xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.dot %0, %z : (tensor<64x64xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dot %1, %w : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
    return %2 : tensor<64x32xf32>
  }
}

// -----

/// What reads a donated argument for the last time makes its result beside it. XLA:CPU plans 32 KiB, too.

// CHECK: module @last_reader
// CHECK-SAME: peak_bytes = 32768 : i64
module @last_reader {
  func.func @main(%x: tensor<64x64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64x64xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}

// -----

/// Of two buffers that are free, a value takes the smaller one. So the next value, which is read when the smaller one is
/// written, has the larger one. XLA:CPU plans 60 KiB, too.

// CHECK: module @smallest
// CHECK-SAME: peak_bytes = 61440 : i64
module @smallest {
  func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>, %v: tensor<32x16xf32>, %w: tensor<16x32xf32>, %u: tensor<32x64xf32>) -> (tensor<64x32xf32>, tensor<64x64xf32>) {
    %0 = stablehlo.dot %x, %y : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.dot %0, %v : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dot %1, %w : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
    %3 = stablehlo.dot %2, %u : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    return %2, %3 : tensor<64x32xf32>, tensor<64x64xf32>
  }
}

// -----

/// No place is looked for if a value has less than 4 KiB: that of 2 KiB has memory of its own.

// CHECK: module @small
// CHECK-SAME: peak_bytes = 54272 : i64
module @small {
  func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x8xf32>, %z: tensor<8x32xf32>, %w: tensor<32x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<64x64xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %1 = stablehlo.dot %0, %z : (tensor<64x8xf32>, tensor<8x32xf32>) -> tensor<64x32xf32>
    %2 = stablehlo.dot %1, %w : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}
