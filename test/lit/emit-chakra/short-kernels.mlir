// RUN: hespas-opt %s --split-linear --roofline-annotate="memory-bandwidth=3e10 peak-flops=1e14" --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// A simulator needs 1 ns for a node of 0 us. Those of the loop take 0.3 and 0.4: with the 800 trips, the first kernel has
/// 1 us of its 1.6, and no other one has any.

// CHECK: COMP 'region 2: tanh' 1us
// CHECK-NOT: {{[1-9]}}us
// CHECK: 2401 COMM_COLL
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<6000xf32>) -> (tensor<6000xf32>, tensor<4xf32>) {
    %y = stablehlo.tanh %x : tensor<6000xf32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<4xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %start) : tensor<i32>, tensor<4xf32>
    cond {
      %n = stablehlo.constant dense<800> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %r = "stablehlo.all_reduce"(%v) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %j, %r : tensor<i32>, tensor<4xf32>
    }
    return %y, %0#1 : tensor<6000xf32>, tensor<4xf32>
  }
}
