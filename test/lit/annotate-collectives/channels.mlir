// RUN: hespas-opt %s --annotate-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --annotate-collectives --split-input-file | filecheck %s

/// XLA's importer loses the channel of an asynchronous permute, with the numbers of replicas and partitions. Where all
/// other collectives have a channel, the permute has one again, so that its ids number partitions as theirs do.

// CHECK-LABEL: module @lost
// CHECK-SAME: hespas.target = {devices = 2 : i64, partitions = 2 : i64, replicas = 1 : i64}
// CHECK: "stablehlo.collective_permute"(%arg0)
// CHECK-SAME: channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>
// CHECK-SAME: hespas.comm = {is_async = true}
module @lost {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    %1 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {is_async = true}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// Without other collectives, or if the module says what there is, the ids are those of replicas.

// CHECK-LABEL: module @alone
// CHECK-SAME: hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}
// CHECK-NOT: channel_handle
module @alone {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {is_async = true}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

// CHECK-LABEL: module @stated
// CHECK: "stablehlo.collective_permute"(%arg0) <{source_target_pairs
// CHECK-SAME: hespas.comm = {is_async = true, pairs = array<i64: 0, 2, 1, 3>}
module @stated attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    %1 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {is_async = true}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

/// So are those of all, if another collective without a channel, which runs at once, has lost none.

// CHECK-LABEL: module @replicas
// CHECK-SAME: hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}
// CHECK-NOT: channel_handle
module @replicas {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %1 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {is_async = true}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}
