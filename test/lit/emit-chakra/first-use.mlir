// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// An asynchronous collective without a wait delays what uses it first, compute or communication.

// CHECK: 1 COMM_COLL 'all_gather.0' comm_type
// CHECK-NEXT: 2 COMP 'region 0: negate' 0us after 1 num_ops
// CHECK-NEXT: 3 COMM_COLL 'all_gather.1' after 2 comm_type
// CHECK-NEXT: 4 COMM_COLL 'all_gather.2' after 2,3 comm_type
// CHECK-NEXT: 5 COMP 'region 1: sine' 0us after 4 num_ops
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<16xf32>) {
    %s = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {hespas.comm = {groups = array<i64: 1>, is_async = true}} : (tensor<4xf32>) -> tensor<8xf32>
    %n = stablehlo.negate %s : tensor<8xf32>
    %a = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {hespas.comm = {groups = array<i64: 1>, is_async = true}} : (tensor<4xf32>) -> tensor<8xf32>
    %b = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<8xf32>) -> tensor<16xf32>
    %u = stablehlo.sine %b : tensor<16xf32>
    return %n, %u : tensor<8xf32>, tensor<16xf32>
  }
}
