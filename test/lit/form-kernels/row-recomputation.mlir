// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// The kernels are those that XLA 0.10.2 compiles for an H100.

/// A row that is kept on the chip may be reduced again: the sum of the exponentials is a kernel, and
/// what reads the exponentials computes them again.

// CHECK-LABEL: module @sum_of_exponentials
module @sum_of_exponentials {
  // CHECK: %[[SUM:.*]] = "mhlo.fusion"(%arg0) {{.*}} kCustom
  // CHECK: stablehlo.reduce{{.*}} applies stablehlo.maximum
  // CHECK: stablehlo.exponential
  // CHECK: stablehlo.reduce{{.*}} applies stablehlo.add
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg0, %[[SUM]], %arg1) {{.*}} kCustom
  // CHECK: stablehlo.reduce{{.*}} applies stablehlo.maximum
  // CHECK: stablehlo.exponential
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[B]], %[[SUM]]
  func.func @main(%x: tensor<16384x1024xf32>, %y: tensor<16384x1024xf32>) -> (tensor<16384x1024xf32>, tensor<16384xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<16384x1024xf32>
    %3 = stablehlo.exponential %2 : tensor<16384x1024xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %6 = stablehlo.divide %3, %5 : tensor<16384x1024xf32>
    %7 = stablehlo.multiply %6, %y : tensor<16384x1024xf32>
    return %7, %4 : tensor<16384x1024xf32>, tensor<16384xf32>
  }
}

// -----

/// What a kernel computes for a row, the kernel that keeps the row computes once, with other values
/// in the row too: here the sum of the products, which is no diamond.

// CHECK-LABEL: module @row_result
module @row_result {
  // CHECK: %[[A:.*]] = "mhlo.fusion"({{.*}}) {{.*}} kCustom
  // CHECK: stablehlo.reduce{{.*}} applies stablehlo.maximum
  // CHECK: stablehlo.exponential
  // CHECK: stablehlo.reduce{{.*}} applies stablehlo.add
  // CHECK: stablehlo.subtract
  // CHECK: {hespas.kernel = {kind = "reduction"}}
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<16384x1024xf32>, %y: tensor<16384x1024xf32>) -> tensor<16384x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<16384x1024xf32>
    %3 = stablehlo.exponential %2 : tensor<16384x1024xf32>
    %4 = stablehlo.multiply %3, %y : tensor<16384x1024xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %7 = stablehlo.subtract %y, %6 : tensor<16384x1024xf32>
    %8 = stablehlo.multiply %3, %7 : tensor<16384x1024xf32>
    return %8 : tensor<16384x1024xf32>
  }
}
