// RUN: hespas-opt %s --transpose-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --transpose-collectives --transpose-collectives --split-input-file | filecheck %s

/// An all_gather along another dimension than the first runs along the first, between transposes.

// CHECK-LABEL: module @gather
module @gather attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0, dims = [1, 0, 2] : (tensor<8x4x2xf32>) -> tensor<4x8x2xf32>
  // CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%[[T]]) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{.*}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {hespas.comm = {groups = array<i64: 1>}} : (tensor<4x8x2xf32>) -> tensor<16x8x2xf32>
  // CHECK-NEXT: %[[R:.*]] = stablehlo.transpose %[[G]], dims = [1, 0, 2] : (tensor<16x8x2xf32>) -> tensor<8x16x2xf32>
  // CHECK-NEXT: return %[[R]]
  func.func @main(%x: tensor<8x4x2xf32>) -> tensor<8x16x2xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<8x4x2xf32>) -> tensor<8x16x2xf32>
    return %0 : tensor<8x16x2xf32>
  }
}

// -----

/// So does a reduce_scatter, with its body; the transpose back moves a last dimension to its place.

// CHECK-LABEL: module @scatter
module @scatter attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<8x4x16xf32>) -> tensor<16x8x4xf32>
  // CHECK-NEXT: %[[G:.*]] = "stablehlo.reduce_scatter"(%[[T]]) <{{{.*}}scatter_dimension = 0 : i64
  // CHECK: stablehlo.maximum
  // CHECK: hespas.comm = {groups = array<i64: 1>}} : (tensor<16x8x4xf32>) -> tensor<4x8x4xf32>
  // CHECK-NEXT: stablehlo.transpose %[[G]], dims = [1, 2, 0] : (tensor<4x8x4xf32>) -> tensor<8x4x4xf32>
  func.func @main(%x: tensor<8x4x16xf32>) -> tensor<8x4x4xf32> {
    %0 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 2 : i64, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x4x16xf32>) -> tensor<8x4x4xf32>
    return %0 : tensor<8x4x4xf32>
  }
}

// -----

/// Along the first dimension, or one before which all have one element, nothing changes.

// CHECK-LABEL: module @major
module @major attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: stablehlo.transpose
  // CHECK: all_gather_dim = 0
  // CHECK: all_gather_dim = 2
  // CHECK: scatter_dimension = 1
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<1x1x8xf32>, %z: tensor<1x8xf32>) -> (tensor<32x4xf32>, tensor<1x1x32xf32>, tensor<1x2xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<8x4xf32>) -> tensor<32x4xf32>
    %1 = "stablehlo.all_gather"(%y) <{all_gather_dim = 2 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1x1x8xf32>) -> tensor<1x1x32xf32>
    %2 = "stablehlo.reduce_scatter"(%z) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1x8xf32>) -> tensor<1x2xf32>
    return %0, %1, %2 : tensor<32x4xf32>, tensor<1x1x32xf32>, tensor<1x2xf32>
  }
}

// -----

/// An all_gather of several operands, and an all_reduce, have no transposes.

// CHECK-LABEL: module @others
module @others attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: stablehlo.transpose
  // CHECK: all_gather_dim = 1
  // CHECK: "stablehlo.all_reduce"
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x4xf32>) {
    %0:2 = "stablehlo.all_gather"(%x, %x) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0#0, %0#1, %1 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x4xf32>
  }
}
