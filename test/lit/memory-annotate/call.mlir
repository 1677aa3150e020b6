// RUN: hespas-opt %s --split-input-file --memory-annotate=model-fusion=false | filecheck %s
// RUN: hespas-opt %s --split-input-file --split-linear --memory-annotate=model-fusion=false | filecheck %s
// RUN: hespas-opt %s --split-input-file --split-individual --memory-annotate=model-fusion=false | filecheck %s
// RUN: not hespas-opt %s --memory-annotate=model-fusion=perhaps 2>&1 | filecheck %s --check-prefix=WRONG

/// A call is what its function does: its values come on top of those live at the call, and an
/// argument that nothing else reads is gone inside. Splitting makes calls and changes nothing.
// CHECK: module @call
// CHECK-SAME: live_bytes = 16384 : i64
// CHECK-SAME: points = 6 : i64
// CHECK-SAME: timeline_bytes = array<i64: 8192, 12288, 12288, 12288, 16384, 12288>

// WRONG: error: memory-annotate: option 'model-fusion' takes auto, true, false, not 'perhaps'
module @call {
  func.func @main(%x: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = func.call @twice(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = func.call @twice(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1, %2 : tensor<32x32xf32>, tensor<32x32xf32>
  }
  func.func private @twice(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}
