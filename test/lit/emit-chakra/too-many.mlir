// RUN: not hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output 2>&1 | filecheck %s

/// A trace that is too long to be written is refused before its loops are expanded.

// CHECK: too-many.mlir:[[# @LINE + 4]]:{{[0-9]+}}: error: 'stablehlo.while': the trace has over 20,000,000 nodes per device; merge regions, or reduce the trip counts of loops that contain collectives
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64xf32>
     cond {
      %n = stablehlo.constant dense<7000000> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %r = "stablehlo.all_reduce"(%v) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<64xf32>) -> tensor<64xf32>
      stablehlo.return %j, %r : tensor<i32>, tensor<64xf32>
    }
    return %0#1 : tensor<64xf32>
  }
}
