// RUN: hespas-opt %s --annotate-collectives | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --annotate-collectives | filecheck %s

/// Devices are numbered replica by replica: each mode of groups names its devices, equal groups are one
/// communicator, and the pairs of a permute are those of devices.

// CHECK: hespas.communicators = {"1" = array<i64: 0, 2>, "2" = array<i64: 1, 3>, "3" = array<i64: 0, 1, 2, 3>, "4" = array<i64: 0, 1>, "5" = array<i64: 2, 3>}
// CHECK: "stablehlo.all_gather"(%arg0)
// CHECK-SAME: hespas.comm = {groups = array<i64: 1, 2>}
// CHECK-NEXT: "stablehlo.all_gather"(%arg0)
// CHECK-SAME: hespas.comm = {groups = array<i64: 3>}
// CHECK-NEXT: "stablehlo.all_gather"(%arg0)
// CHECK-SAME: hespas.comm = {groups = array<i64: 4, 5>}
// CHECK-NEXT: "stablehlo.all_gather"(%arg0)
// CHECK-SAME: hespas.comm = {groups = array<i64: 4, 5>}
// CHECK-NEXT: "stablehlo.collective_permute"(%arg0)
// CHECK-SAME: hespas.comm = {pairs = array<i64: 0, 1, 2, 3>}
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> (tensor<16xf32>, tensor<32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<8xf32>) -> tensor<32xf32>
    %2 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids}> : (tensor<8xf32>) -> tensor<16xf32>
    %3 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[1, 0], [3, 2]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, use_global_device_ids}> : (tensor<8xf32>) -> tensor<16xf32>
    %4 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>}> : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %1, %2, %3, %4 : tensor<16xf32>, tensor<32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8xf32>
  }
}
