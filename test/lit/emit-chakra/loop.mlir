// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json
// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=FLOW

/// A loop with a collective is written out: each iteration has its nodes, in order, and the same name
/// of the collective in each. A loop without one is one node that lasts its iterations.

// CHECK: 1 COMP 'region 0: compare'
// CHECK-NEXT: 2 COMP 'region 1: add'
// CHECK-NEXT: 3 COMM_COLL 'all_reduce.0' after 2
// CHECK-NEXT: 4 COMP 'region 0: compare' {{.*}} after 3
// CHECK-NEXT: COMP
// CHECK-NEXT: COMM_COLL 'all_reduce.0'
// CHECK-NEXT: COMP
// CHECK-NEXT: COMP
// CHECK-NEXT: COMM_COLL 'all_reduce.0'
// CHECK-NEXT: COMP 'region 2: while' {{.*}} flops=10
// CHECK-NOT: COMP
// STATS: "gaps": 0}
// STATS: "stablehlo.tanh": {"count": 5,
// STATS: {"id": 0, {{.*}}"runs": 3,
// STATS: "all_reduce": {"count": 3, "operand_bytes": 768}
/// With data flow, a trip waits for what the trip before carries to it, and what follows for what the last carries out.
// FLOW: 1 COMP 'region 0: compare' 0us num_ops
// FLOW-NEXT: 2 COMP 'region 1: add' 0us after 1 num_ops
// FLOW-NEXT: 3 COMM_COLL 'all_reduce.0' comm_type
// FLOW-NEXT: 4 COMP 'region 0: compare' 0us after 2 num_ops
// FLOW-NEXT: 5 COMP 'region 1: add' 0us after 4 num_ops
// FLOW-NEXT: 6 COMM_COLL 'all_reduce.0' after 3 comm_type
// FLOW: 9 COMM_COLL 'all_reduce.0' after 6 comm_type
// FLOW-NEXT: 10 COMP 'region 2: while' 0us after 8,9 num_ops
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64xf32>
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
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
    %1:2 = stablehlo.while(%i = %zero, %v = %0#1) : tensor<i32>, tensor<64xf32>
     cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %v : tensor<64xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<64xf32>
    }
    return %1#1 : tensor<64xf32>
  }
}
