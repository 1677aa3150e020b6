// RUN: rm -rf %t && hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t -o %t.mlir
// RUN: hespas trace check %t | filecheck %s --check-prefix=SOUND
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=FIRST
// RUN: hespas trace print %t/dev.1.et | filecheck %s --check-prefix=MIDDLE
// RUN: hespas trace print %t/dev.2.et | filecheck %s --check-prefix=LAST
// RUN: hespas trace print %t/dev.3.et | filecheck %s --check-prefix=ALONE

/// A permute is a SEND and a RECV with operand bytes; a device without a role, or that sends to itself,
/// has neither.

// SOUND: 0 errors, 0 warnings

// FIRST:      1 COMM_SEND 'permute.0' comm_size=128 comm_tag=0 {{.*}}comm_src=0 comm_dst=1
// FIRST-NEXT: 3 COMP 'region 0: tanh' {{.*}}after 1

// MIDDLE:      1 COMM_SEND 'permute.0' comm_size=128 comm_tag=0 {{.*}}comm_src=1 comm_dst=2
// MIDDLE-NEXT: 2 COMM_RECV 'permute.0' comm_size=128 comm_tag=0 {{.*}}comm_src=0 comm_dst=1
// MIDDLE-NEXT: 3 COMP 'region 0: tanh' {{.*}}after 1,2

// LAST:      2 COMM_RECV 'permute.0' comm_size=128 comm_tag=0 {{.*}}comm_src=1 comm_dst=2
// LAST-NEXT: 3 COMP 'region 0: tanh' {{.*}}after 2

// ALONE: 3 COMP 'region 0: tanh' 0us num_ops
// ALONE-NOT: COM

module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<32xf32>) -> tensor<32xf32> {
    %a = "stablehlo.collective_permute"(%x) <{
      source_target_pairs = dense<[[0, 1], [1, 2], [3, 3]]> : tensor<3x2xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}>
      : (tensor<32xf32>) -> tensor<32xf32>
    %b = stablehlo.tanh %a : tensor<32xf32>
    return %b : tensor<32xf32>
  }
}
