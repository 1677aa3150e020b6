// RUN: hespas-opt %s --prepare | hespas-opt | filecheck %s

/// MLIR prints an unstable mhlo.topk of the largest in a form that it cannot read.

// CHECK: mhlo.topk(%{{.*}}, k = 4{{.*}}is_stable = false
// CHECK: mhlo.topk(%{{.*}}, k = 4, largest = false{{.*}}is_stable = false
func.func @main(%x: tensor<4x16xf32>) -> (tensor<4x4xi32>, tensor<4x4xi32>) {
  %0:2 = "mhlo.topk"(%x) {k = 4 : i64, is_stable = false}
    : (tensor<4x16xf32>) -> (tensor<4x4xf32>, tensor<4x4xi32>)
  %1:2 = "mhlo.topk"(%x) {k = 4 : i64, largest = false, is_stable = false}
    : (tensor<4x16xf32>) -> (tensor<4x4xf32>, tensor<4x4xi32>)
  return %0#1, %1#1 : tensor<4x4xi32>, tensor<4x4xi32>
}
