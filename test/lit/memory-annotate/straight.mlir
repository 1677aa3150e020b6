// RUN: hespas-opt %s --memory-annotate=model-fusion=false | filecheck %s

/// Two arguments of 4 KB, whose memory is the caller's; each product is another 4 KB, and the first
/// is gone when the third is made. The result has its place from the start, where the first product
/// has no use for it: it is still read when the result is made.
// CHECK: module
// CHECK-SAME: argument_bytes = 8192 : i64
// CHECK-SAME: live_bytes = 16384 : i64
// CHECK-SAME: op = "stablehlo.dot_general", peak_bytes = 16384 : i64
// CHECK-SAME: points = 4 : i64
// CHECK-SAME: result_bytes = 0 : i64
// CHECK-SAME: temporary_bytes = 8192 : i64
// CHECK-SAME: timeline_bytes = array<i64: 12288, 16384, 16384, 12288>
// CHECK-SAME: timeline_points = array<i64: 0, 1, 2, 3>
func.func @main(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.dot_general %0, %y, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = stablehlo.dot_general %1, %y, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %2 : tensor<32x32xf32>
}
