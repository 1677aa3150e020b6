// RUN: hespas-opt %s --memory-annotate --split-input-file | filecheck %s

/// A program that returns its argument copies it, as the result has a buffer of its own.

// CHECK: module @nothing
// CHECK-SAME: peak_bytes = 8192 : i64
module @nothing {
  func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
    return %x : tensor<1024xf32>
  }
}

// -----

/// Elements of less than a byte are packed; a program without arguments has results alone.

// CHECK: module @small
// CHECK-SAME: argument_bytes = 0 : i64
// CHECK-SAME: result_bytes = 512 : i64
module @small {
  func.func @main() -> tensor<1024xi4> {
    %0 = stablehlo.iota dim = 0 : tensor<1024xi4>
    return %0 : tensor<1024xi4>
  }
}
