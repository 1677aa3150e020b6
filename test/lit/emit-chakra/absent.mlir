// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace check %t | filecheck %s --check-prefix=SOUND
// RUN: hespas trace print %t/dev.1.et | filecheck %s --check-prefix=MEMBER
// RUN: hespas trace print %t/dev.2.et | filecheck %s --check-prefix=ABSENT

/// What a device takes no part in has no node there: what waits for it waits for what it would have waited for.

// SOUND: 4 devices, {{.*}}: 0 errors, 0 warnings
// MEMBER: 1 COMM_COLL 'all_gather.0' comm_type=ALL_GATHER comm_size=16
// MEMBER-NEXT: 2 COMM_COLL 'all_gather.1' after 1 comm_type=ALL_GATHER comm_size=64
// MEMBER-NEXT: 4 COMM_RECV 'permute.0' after 2 comm_size=128
// MEMBER-NEXT: 5 COMP 'region 0: tanh' 0us after 2 num_ops
// MEMBER-NEXT: 6 COMP 'region 1: sine' 0us after 4,5 num_ops
// ABSENT: 1 COMM_COLL 'all_gather.0' comm_type=ALL_GATHER comm_size=16
// ABSENT-NEXT: 5 COMP 'region 0: tanh' 0us after 1 num_ops
// ABSENT-NEXT: 6 COMP 'region 1: sine' 0us after 1,5 num_ops
module attributes {mhlo.num_replicas = 4 : i32} {
  func.func @main(%x: tensor<4xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<16xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<16xf32>) -> tensor<32xf32>
    %2 = "stablehlo.collective_permute"(%1) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<32xf32>) -> tensor<32xf32>
    %3 = stablehlo.tanh %1 : tensor<32xf32>
    %4 = stablehlo.sine %2 : tensor<32xf32>
    return %3, %4 : tensor<32xf32>, tensor<32xf32>
  }
}
