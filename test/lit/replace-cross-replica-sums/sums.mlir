// RUN: hespas-opt %s --replace-cross-replica-sums --split-input-file | filecheck %s
// RUN: hespas-opt %s --replace-cross-replica-sums --replace-cross-replica-sums --split-input-file | filecheck %s

/// The deprecated form of an all_reduce, in both dialects, with its groups and its type of elements.

// CHECK-LABEL: module @sums
// CHECK: func.func @main(%[[X:.*]]: tensor<4xbf16>, %[[Y:.*]]: tensor<8xi32>)
// CHECK-NEXT: %[[A:.*]] = "stablehlo.all_reduce"(%[[X]]) <{replica_groups = dense<{{\[\[}}0, 1]]> : tensor<1x2xi64>}> ({
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<bf16>, %[[Q:.*]]: tensor<bf16>):
// CHECK-NEXT: %[[S:.*]] = stablehlo.add %[[P]], %[[Q]] : tensor<bf16>
// CHECK-NEXT: stablehlo.return %[[S]] : tensor<bf16>
// CHECK-NEXT: }) : (tensor<4xbf16>) -> tensor<4xbf16>
// CHECK-NEXT: %[[B:.*]] = "stablehlo.all_reduce"(%[[Y]]) <{replica_groups = dense<{{\[\[}}1, 0]]>
// CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<i32>
// CHECK: }) : (tensor<8xi32>) -> tensor<8xi32>
// CHECK-NEXT: return %[[A]], %[[B]]
// CHECK-NOT: cross-replica-sum
module @sums {
  func.func @main(%x: tensor<4xbf16>, %y: tensor<8xi32>) -> (tensor<4xbf16>, tensor<8xi32>) {
    %0 = "stablehlo.cross-replica-sum"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xbf16>) -> tensor<4xbf16>
    %1 = "mhlo.cross-replica-sum"(%y) <{replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}> : (tensor<8xi32>) -> tensor<8xi32>
    return %0, %1 : tensor<4xbf16>, tensor<8xi32>
  }
}

// -----

/// In a called function, and in a loop.

// CHECK-LABEL: module @nested
// CHECK: do {
// CHECK-NEXT: "stablehlo.all_reduce"
// CHECK: func.func private @sum
// CHECK-NEXT: "stablehlo.all_reduce"
// CHECK-NOT: cross-replica-sum
module @nested {
  func.func @main(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
    %0 = call @sum(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1:2 = stablehlo.while(%q = %p, %y = %0) : tensor<i1>, tensor<4xf32>
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %2 = "stablehlo.cross-replica-sum"(%y) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %q, %2 : tensor<i1>, tensor<4xf32>
    }
    return %1#1 : tensor<4xf32>
  }
  func.func private @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.cross-replica-sum"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
