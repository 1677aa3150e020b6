// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace check %t | filecheck %s --check-prefix=SOUND
// RUN: hespas trace print %t/dev.2.et | filecheck %s --check-prefix=ROOT
// RUN: hespas trace print %t/dev.3.et | filecheck %s --check-prefix=LEAF
// RUN: hespas trace print %t/dev.1.et | filecheck %s --check-prefix=LOWEST

/// A broadcast from device 2 is a tree of messages: in each round, who has the data sends it. Each
/// group has its own tree, and one message needs no rounds. The first device of a group is its root.

// SOUND: 4 devices, {{.*}}: 0 errors, 0 warnings
// ROOT: COMM_SEND 'broadcast.0 round 0' comm_size=256 {{.*}}comm_src=2 comm_dst=0
// ROOT-NEXT: COMM_SEND 'broadcast.0 round 1' {{.*}}comm_src=2 comm_dst=1
// ROOT-NEXT: COMM_RECV 'broadcast.1' {{.*}}comm_size=256 {{.*}}comm_src=3 comm_dst=2
// ROOT-NOT: COMM
// LEAF: COMM_RECV 'broadcast.0 round 1' comm_size=256 {{.*}}comm_src=0 comm_dst=3
// LEAF-NEXT: COMM_SEND 'broadcast.1' {{.*}}comm_size=256 {{.*}}comm_src=3 comm_dst=2
// LEAF-NOT: COMM
// LOWEST: COMM_RECV 'broadcast.0 round 1' comm_size=256 {{.*}}comm_src=2 comm_dst=1
// LOWEST-NEXT: COMM_RECV 'broadcast.1' {{.*}}comm_src=0 comm_dst=1
// LOWEST-NOT: COMM
module attributes {mhlo.num_replicas = 4 : i32} {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[2, 0, 1, 3]]> : tensor<1x4xi64>}> : (tensor<64xf32>) -> tensor<64xf32>
    %1 = "stablehlo.collective_broadcast"(%0) <{replica_groups = dense<[[0, 1], [3, 2]]> : tensor<2x2xi64>}> : (tensor<64xf32>) -> tensor<64xf32>
    return %1 : tensor<64xf32>
  }
}
