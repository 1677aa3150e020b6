// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --unsplit --unsplit | filecheck %s
// RUN: not hespas-opt %s --unsplit=all 2>&1 | filecheck %s --check-prefix=OPTION

/// The bodies of loops are joined again, ops keep their costs, and functions that are no regions stay.

// CHECK-NOT: hespas.region
// CHECK: stablehlo.while
// CHECK: do {
// CHECK-NOT: call @region
// CHECK: stablehlo.cosine {{.*}}hespas.cost
// CHECK: "stablehlo.all_reduce"
// CHECK: call @often
// CHECK: func.func private @often
// CHECK-NOT: func.func
// OPTION: error: unsplit has no option 'all'
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %c = stablehlo.cosine %v : tensor<8xf32>
      %r = "stablehlo.all_reduce"(%c) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %j, %r : tensor<i32>, tensor<8xf32>
    }
    %1 = func.call @often(%0#1) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = func.call @often(%1) : (tensor<8xf32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
  func.func private @often(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
