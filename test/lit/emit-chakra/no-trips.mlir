// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json

/// A loop that makes no trip has no nodes and is in no sum, nor has what it contains: a kernel, a collective, and a loop
/// whose trip count is assumed.

// CHECK: 1 COMP 'region {{[0-9]+}}: sine' 0us num_ops
// CHECK-NOT: COM
// STATS: "totals": {{{.*}}"comm_ops": 0, "comm_operand_bytes": 0,
// STATS-NOT: stablehlo.{{tanh|while}}
// STATS: "regions": [
// STATS-NEXT: "stablehlo.sine"
// STATS-NEXT: ]
// STATS: "reuse": {"regions": 1,
// STATS: "1": {"ranks": [0, 1], "collectives": {}}
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64xf32>
     cond {
      %n = stablehlo.constant dense<0> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %v : tensor<64xf32>
      %r = "stablehlo.all_reduce"(%t) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<64xf32>) -> tensor<64xf32>
      %w = stablehlo.while(%u = %r) : tensor<64xf32>
       cond {
        %first = stablehlo.slice %u [0:1] : (tensor<64xf32>) -> tensor<1xf32>
        %c = stablehlo.compare LT, %first, %first : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
        %p = stablehlo.reshape %c : (tensor<1xi1>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %m = "stablehlo.all_reduce"(%u) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) : (tensor<64xf32>) -> tensor<64xf32>
        stablehlo.return %m : tensor<64xf32>
      }
      stablehlo.return %j, %w : tensor<i32>, tensor<64xf32>
    }
    %1 = stablehlo.sine %x : tensor<64xf32>
    return %0#1, %1 : tensor<64xf32>, tensor<64xf32>
  }
}
