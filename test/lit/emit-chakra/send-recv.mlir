// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=FIRST
// RUN: hespas trace print %t/dev.1.et | filecheck %s --check-prefix=SECOND
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json

/// A send has the messages, and what it sends counts once. Its receive has no node: what reads the result waits for the
/// send, and so for its message, though no value connects them.

// FIRST: 1 COMM_SEND 'permute.0' comm_size=16 {{.*}}comm_src=0 comm_dst=1
// FIRST-NEXT: 3 COMP 'region 2: tanh' 0us after 1 num_ops
// SECOND: 2 COMM_RECV 'permute.0' comm_size=16 {{.*}}comm_src=0 comm_dst=1
// SECOND-NEXT: 3 COMP 'region 2: tanh' 0us after 2 num_ops
// STATS: "comm_ops": 1, "comm_operand_bytes": 16
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %t = stablehlo.create_token : !stablehlo.token
    %u = stablehlo.create_token : !stablehlo.token
    %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    %1:2 = "stablehlo.recv"(%u) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %2 = stablehlo.tanh %1#0 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}
