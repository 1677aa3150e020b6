// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// Collectives between slices have a chain of their own beside those on the links of a slice, of which permutes are.

// CHECK: 1 COMM_COLL 'all_gather.0' comm_type=ALL_GATHER comm_size=16 location
// CHECK-NEXT: 2 COMM_COLL 'all_gather.1' comm_type=ALL_GATHER comm_size=16 network=slices
// CHECK-NEXT: 3 COMM_SEND 'permute.0' after 1,2 comm_size
// CHECK-NEXT: 4 COMM_RECV 'permute.0' after 1,2 comm_size
// CHECK-NEXT: 5 COMM_COLL 'all_gather.2' after 3,4 comm_type
// CHECK-NEXT: 6 COMP 'region 0: negate' 0us after 5 num_ops
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func public @main(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>) {
    %s = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    %a = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {mhlo.frontend_attributes = {hespas_network = "slices"}} : (tensor<4xf32>) -> tensor<8xf32>
    %p = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    %b = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {mhlo.frontend_attributes = {hespas_network = "slices"}} : (tensor<4xf32>) -> tensor<8xf32>
    %n = stablehlo.negate %b : tensor<8xf32>
    %d = "mhlo.async_done"(%s) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
    return %n, %a, %p, %d : tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>
  }
}
