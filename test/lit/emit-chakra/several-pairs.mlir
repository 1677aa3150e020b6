// RUN: not hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --split-input-file 2>&1 | filecheck %s

/// A device sends one message of a permute and receives one. MLIR verifies permutes, but not the calls that stand for
/// several of them.

// CHECK: several-pairs.mlir:[[# @LINE + 3]]:10: error: 'stablehlo.custom_call': a device is the source of several pairs
module attributes {mhlo.num_partitions = 3 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @hespas_collective_permute(%x) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64}, source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
