// RUN: hespas-opt %s --expand-selections --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-selections --expand-selections --split-input-file | filecheck %s

/// The largest elements of short rows, or many of them, are found by a sort with positions;

// CHECK-LABEL: module @short
module @short {
  // CHECK: func.func @main(%[[X:.*]]: tensor<2x3x1023xf32>)
  // CHECK: %[[I:.*]] = stablehlo.iota dim = 2 : tensor<2x3x1023xi32>
  // CHECK: %[[S:.*]]:2 = "stablehlo.sort"(%[[X]], %[[I]]) <{dimension = 2 : i64, is_stable = true}>
  // CHECK: stablehlo.compare GT, {{.*}} TOTALORDER
  // CHECK: stablehlo.slice %[[S]]#0 [0:2, 0:3, 0:4]
  // CHECK: stablehlo.slice %[[S]]#1 [0:2, 0:3, 0:4]
  // CHECK-NOT: topk
  func.func @main(%x: tensor<2x3x1023xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xi32>) {
    %0:2 = mhlo.topk(%x, k = 4) : tensor<2x3x1023xf32> -> (tensor<2x3x4xf32>, tensor<2x3x4xi32>)
    return %0#0, %0#1 : tensor<2x3x4xf32>, tensor<2x3x4xi32>
  }
}

// -----

// CHECK-LABEL: module @many
module @many {
  // CHECK: "stablehlo.sort"
  // CHECK: stablehlo.slice {{.*}} [0:17]
  func.func @main(%x: tensor<2048xf32>) -> (tensor<17xf32>, tensor<17xi32>) {
    %0:2 = mhlo.topk(%x, k = 17) : tensor<2048xf32> -> (tensor<17xf32>, tensor<17xi32>)
    return %0#0, %0#1 : tensor<17xf32>, tensor<17xi32>
  }
}

// -----

/// of bfloat16 by one of integers, unless a position needs more than 16 bits;

// CHECK-LABEL: module @packed
module @packed {
  // CHECK: stablehlo.convert {{.*}} : (tensor<4x2048xbf16>) -> tensor<4x2048xf32>
  // CHECK: "stablehlo.sort"(%{{[^,]*}}) <{dimension = 1 : i64, is_stable = false}>
  // CHECK: stablehlo.compare GT, {{.*}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
  // CHECK: stablehlo.slice {{.*}} : (tensor<4x2048xi32>) -> tensor<4x3xi32>
  // CHECK: stablehlo.convert {{.*}} : (tensor<4x3xf32>) -> tensor<4x3xbf16>
  func.func @main(%x: tensor<4x2048xbf16>) -> (tensor<4x3xbf16>, tensor<4x3xi32>) {
    %0:2 = mhlo.topk(%x, k = 3) : tensor<4x2048xbf16> -> (tensor<4x3xbf16>, tensor<4x3xi32>)
    return %0#0, %0#1 : tensor<4x3xbf16>, tensor<4x3xi32>
  }
}

// -----

/// of integers by their comparison.

// CHECK-LABEL: module @integers
module @integers {
  // CHECK: stablehlo.compare GT, {{.*}} SIGNED
  // CHECK: stablehlo.compare GT, {{.*}} UNSIGNED
  // CHECK-NOT: topk
  func.func @main(%x: tensor<4x2048xi32>, %y: tensor<4x2048xui8>) -> (tensor<4x3xi32>, tensor<4x3xui8>) {
    %0:2 = mhlo.topk(%x, k = 3) : tensor<4x2048xi32> -> (tensor<4x3xi32>, tensor<4x3xi32>)
    %1:2 = mhlo.topk(%y, k = 3) : tensor<4x2048xui8> -> (tensor<4x3xui8>, tensor<4x3xi32>)
    return %0#0, %1#0 : tensor<4x3xi32>, tensor<4x3xui8>
  }
}

// -----

/// Few of long rows are found by a kernel of XLA's own, and the smallest by no op of XLA.

// CHECK-LABEL: module @kernels
module @kernels {
  // CHECK: mhlo.topk(%arg0, k = 16)
  // CHECK: mhlo.topk(%arg1, k = 2)
  // CHECK: mhlo.topk(%arg2, k = 2, largest = false)
  // CHECK-NOT: sort
  func.func @main(%x: tensor<4x1024xf32>, %y: tensor<65536xbf16>, %z: tensor<8xf32>) -> (tensor<4x16xf32>, tensor<2xbf16>, tensor<2xf32>) {
    %0:2 = mhlo.topk(%x, k = 16) : tensor<4x1024xf32> -> (tensor<4x16xf32>, tensor<4x16xi32>)
    %1:2 = mhlo.topk(%y, k = 2) : tensor<65536xbf16> -> (tensor<2xbf16>, tensor<2xi32>)
    %2:2 = mhlo.topk(%z, k = 2, largest = false) : tensor<8xf32> -> (tensor<2xf32>, tensor<2xi32>)
    return %0#0, %1#0, %2#0 : tensor<4x16xf32>, tensor<2xbf16>, tensor<2xf32>
  }
}
