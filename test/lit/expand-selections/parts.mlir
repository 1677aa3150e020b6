// RUN: hespas-opt %s --expand-selections --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-selections --expand-selections --split-input-file | filecheck %s

/// A very long row is divided into parts of at least 2^20 elements, whose largest are sorted again. Their number is a
/// power of two.

// CHECK-LABEL: module @sorted
module @sorted {
  // CHECK: %[[R:.*]] = stablehlo.reshape %arg0 : (tensor<3145728xf32>) -> tensor<2x1572864xf32>
  // CHECK: "stablehlo.sort"(%[[R]], {{.*}}dimension = 1 : i64
  // CHECK: stablehlo.slice {{.*}} [0:2, 0:128]
  // CHECK: stablehlo.constant dense<1572864> : tensor<2xi32>
  // CHECK: stablehlo.add
  // CHECK: %[[S:.*]]:2 = "stablehlo.sort"({{.*}}dimension = 0 : i64, is_stable = true
  // CHECK: stablehlo.slice %[[S]]#0 [0:128] : (tensor<256xf32>) -> tensor<128xf32>
  // CHECK: stablehlo.slice %[[S]]#1 [0:128]
  func.func @main(%x: tensor<3145728xf32>) -> (tensor<128xf32>, tensor<128xi32>) {
    %0:2 = mhlo.topk(%x, k = 128) : tensor<3145728xf32> -> (tensor<128xf32>, tensor<128xi32>)
    return %0#0, %0#1 : tensor<128xf32>, tensor<128xi32>
  }
}

// -----

/// The parts may have the kernel that selects few elements.

// CHECK-LABEL: module @kernel
module @kernel {
  // CHECK: %[[R:.*]] = stablehlo.reshape %arg0 : (tensor<1x2098176xf32>) -> tensor<2x1049088xf32>
  // CHECK: mhlo.topk(%[[R]], k = 8)
  // CHECK: "stablehlo.sort"
  // CHECK: stablehlo.reshape {{.*}} : (tensor<8xi32>) -> tensor<1x8xi32>
  func.func @main(%x: tensor<1x2098176xf32>) -> (tensor<1x8xf32>, tensor<1x8xi32>) {
    %0:2 = chlo.top_k(%x, k = 8) : tensor<1x2098176xf32> -> (tensor<1x8xf32>, tensor<1x8xi32>)
    return %0#0, %0#1 : tensor<1x8xf32>, tensor<1x8xi32>
  }
}

// -----

/// Not divided are several rows, a length that 1024 does not divide, a short row, more than the square root of the
/// length, and integers.

// CHECK-LABEL: module @whole
module @whole {
  // CHECK-NOT: stablehlo.reshape
  // CHECK: return
  func.func @main(%a: tensor<2x4194304xf32>, %b: tensor<4194305xf32>, %c: tensor<1048576xf32>, %d: tensor<4194304xf32>, %e: tensor<4194304xi32>)
      -> (tensor<2x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<2049xf32>, tensor<32xi32>) {
    %0:2 = mhlo.topk(%a, k = 32) : tensor<2x4194304xf32> -> (tensor<2x32xf32>, tensor<2x32xi32>)
    %1:2 = mhlo.topk(%b, k = 32) : tensor<4194305xf32> -> (tensor<32xf32>, tensor<32xi32>)
    %2:2 = mhlo.topk(%c, k = 32) : tensor<1048576xf32> -> (tensor<32xf32>, tensor<32xi32>)
    %3:2 = mhlo.topk(%d, k = 2049) : tensor<4194304xf32> -> (tensor<2049xf32>, tensor<2049xi32>)
    %4:2 = mhlo.topk(%e, k = 32) : tensor<4194304xi32> -> (tensor<32xi32>, tensor<32xi32>)
    return %0#0, %1#0, %2#0, %3#0, %4#0 : tensor<2x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<2049xf32>, tensor<32xi32>
  }
}
