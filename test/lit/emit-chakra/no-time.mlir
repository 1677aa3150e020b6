// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace check %t | filecheck %s --check-prefix=SOUND
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json

/// What takes no time has no node, and what reads it waits for what it reads: a reshape, an op without elements, a
/// collective without elements, and a permute of a device to itself. Statistics count the ops, and a barrier that ends no
/// collective, but not the collectives.

// SOUND: 2 devices, 10 nodes: 0 errors, 0 warnings
// CHECK: 1 COMP 'region 0: sine' 0us num_ops
// CHECK-NEXT: 2 COMM_COLL 'all_gather.0' comm_type=ALL_GATHER comm_size=16
// CHECK-NEXT: 3 COMP 'region 2: tanh' 0us after 1,2 num_ops
// CHECK-NEXT: 4 COMM_COLL 'all_gather.1' after 3 comm_type
// CHECK-NEXT: 5 COMP 'region 4: cosine' 0us after 1 num_ops
// CHECK-NOT: COM
// STATS-DAG: "stablehlo.reshape": {"count": 1, "time_ns": 0.0
// STATS-DAG: "stablehlo.negate": {"count": 1, "time_ns": 0.0
// STATS-DAG: "stablehlo.optimization_barrier": {"count": 1, "time_ns": 0.0
// STATS: "1": {"ranks": [0, 1], "collectives": {"all_gather": {"count": 2, "operand_bytes": 48}}}
// STATS: "transfers": {"count": 0, "messages": 0, "message_bytes": 0}
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>, %e: tensor<0xf32>) -> (tensor<4x4xf32>, tensor<0xf32>, tensor<0xf32>, tensor<4xf32>) {
    %s = stablehlo.sine %x : tensor<4xf32>
    %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %r = stablehlo.reshape %g : (tensor<8xf32>) -> tensor<2x4xf32>
    %t = stablehlo.tanh %r : tensor<2x4xf32>
    %n = stablehlo.negate %e : tensor<0xf32>
    %h = "stablehlo.all_reduce"(%e) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %q = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %q : tensor<f32>
    }) : (tensor<0xf32>) -> tensor<0xf32>
    %p = "stablehlo.collective_permute"(%s) <{source_target_pairs = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    %a = "stablehlo.all_gather"(%t) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x4xf32>) -> tensor<4x4xf32>
    %c = stablehlo.cosine %p : tensor<4xf32>
    %o = stablehlo.optimization_barrier %c : tensor<4xf32>
    return %a, %n, %h, %o : tensor<4x4xf32>, tensor<0xf32>, tensor<0xf32>, tensor<4xf32>
  }
}
