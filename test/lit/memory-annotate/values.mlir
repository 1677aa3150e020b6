// RUN: hespas-opt %s --memory-annotate=model-fusion=false --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-linear --memory-annotate=model-fusion=false --split-input-file | filecheck %s

/// Equal constants, as a split makes them, are one.

// CHECK: module @constants
// CHECK-SAME: constant_bytes = 16384 : i64
// CHECK-SAME: peak_bytes = 65536 : i64
module @constants {
  func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %0 = stablehlo.constant dense_resource<w> : tensor<64x64xf32>
    %1 = stablehlo.constant dense_resource<w> : tensor<64x64xf32>
    %2 = stablehlo.dot %x, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.dot %2, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %2, %3 : tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

/// A single number, also one that is repeated, is written into the code that reads it.

// CHECK: module @numbers
// CHECK-SAME: constant_bytes = 0 : i64
// CHECK-SAME: peak_bytes = 32768 : i64
module @numbers {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.constant dense<2.0> : tensor<64x64xf32>
    %1 = stablehlo.add %x, %0 : tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}

// -----

/// Complex elements count as others do.

// CHECK: module @complex
// CHECK-SAME: constant_bytes = 640 : i64
module @complex {
  func.func @main(%x: tensor<80xcomplex<f32>>) -> tensor<80xcomplex<f32>> {
    %0 = stablehlo.constant dense<"0x0000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F000000400000803F0000803F"> : tensor<80xcomplex<f32>>
    %1 = stablehlo.add %x, %0 : tensor<80xcomplex<f32>>
    return %1 : tensor<80xcomplex<f32>>
  }
}

// -----

/// The bytes of a tuple are those of its members,

// CHECK: module @tuple
// CHECK-SAME: argument_bytes = 24576 : i64
// CHECK-SAME: peak_bytes = 32768 : i64
module @tuple {
  func.func @main(%t: tuple<tensor<64x64xf32>, tensor<64x32xf32>>) -> tensor<64x32xf32> {
    %0 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<64x64xf32>, tensor<64x32xf32>>) -> tensor<64x64xf32>
    %1 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<64x64xf32>, tensor<64x32xf32>>) -> tensor<64x32xf32>
    %2 = stablehlo.dot %0, %1 : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    return %2 : tensor<64x32xf32>
  }
}

// -----

/// and making one moves none.

// CHECK: module @made
// CHECK-SAME: argument_bytes = 24576 : i64
// CHECK-SAME: peak_bytes = 49152 : i64
// CHECK-SAME: temporary_bytes = 16384 : i64
module @made {
  func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %t = stablehlo.tuple %0, %y : tuple<tensor<64x64xf32>, tensor<64x32xf32>>
    %1 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<64x64xf32>, tensor<64x32xf32>>) -> tensor<64x64xf32>
    %2 = stablehlo.dot %1, %y : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    return %2 : tensor<64x32xf32>
  }
}
