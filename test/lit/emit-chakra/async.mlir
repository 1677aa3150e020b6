// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t.data --disable-output
// RUN: hespas trace print %t.data/dev.0.et | filecheck %s --check-prefix=DATA

/// Compute between the start of an async collective and its wait runs beside it; what follows the wait
/// waits for both, though its first op reads neither. By data flow only what reads the collective waits for it.

// CHECK: 1 COMM_COLL 'all_gather.0'
// CHECK-NEXT: 2 COMP 'region 0: tanh' 0us num_ops
// CHECK-NEXT: 3 COMP 'region 1: sine +2' 0us after 1,2
// DATA: 1 COMM_COLL 'all_gather.0'
// DATA: 2 COMP 'region 0: tanh' 0us num_ops
// DATA: 3 COMP 'region 1: sine' 0us after 2 num_ops
// DATA: 4 COMP 'region 2: abs' 0us after 3 num_ops
// DATA: 5 COMP 'region 3: exponential' 0us after 1,4 num_ops
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
    %s = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    %t = stablehlo.tanh %x : tensor<4xf32>
    %d = "mhlo.async_done"(%s) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
    %u = stablehlo.sine %x : tensor<4xf32>
    %v = stablehlo.abs %u : tensor<4xf32>
    %w = stablehlo.exponential %d : tensor<8xf32>
    return %t, %v, %w : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
  }
}
