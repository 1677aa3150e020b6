// RUN: hespas-opt %s --fuse --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse=combine=0 --split-input-file | filecheck %s --check-prefix=APART

/// An all_reduce of which each device takes its part is a reduce_scatter; nothing is fused across.

// CHECK-LABEL: module @scatter
// APART-LABEL: module @scatter
module @scatter attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK-NEXT: %[[R:.*]] = "stablehlo.reduce_scatter"(%[[N]]) <{{{.*}}scatter_dimension = 0 : i64
  // CHECK: hespas.comm = {groups = array<i64: 1>}} : (tensor<64x16xf32>) -> tensor<16x16xf32>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[R]]
  // CHECK-NEXT: return %[[T]]
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[0, 16, 32, 48]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %n = stablehlo.negate %x : tensor<64x16xf32>
    %1 = "stablehlo.all_reduce"(%n) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [16, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    %3 = stablehlo.tanh %2 : tensor<16x16xf32>
    return %3 : tensor<16x16xf32>
  }
}

// -----

/// Gathers that do not need each other are one op; of one along a minor dimension the shard is
/// transposed first, and the product takes the result as it comes.

// CHECK-LABEL: module @gather
// APART-LABEL: module @gather
module @gather attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<256x64xf32>) -> tensor<64x256xf32>
  // CHECK: %[[G:.*]]:2 = "stablehlo.all_gather"(%arg1, %[[T]]) <{all_gather_dim = 0 : i64
  // CHECK-SAME: hespas.comm = {groups = array<i64: 1>}
  // CHECK: %[[A:.*]] = stablehlo.reshape %[[G]]#0 : {{.*}} -> tensor<4x64x256xf32>
  // CHECK: %[[D:.*]] = "mhlo.fusion"(%{{.*}}, %[[A]])
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.reduce(%[[D]]
  // CHECK: %[[B:.*]] = stablehlo.reshape %[[G]]#1 : {{.*}} -> tensor<256x4x64xf32>
  // CHECK: "mhlo.fusion"(%{{.*}}, %[[B]])
  // CHECK: stablehlo.dot_general {{.*}} batching_dims = [1] x [1], contracting_dims = [2] x [2]
  // APART-COUNT-2: = "stablehlo.all_gather"(
  func.func @main(%x: tensor<32x256xf32>, %a: tensor<64x256xf32>, %b: tensor<256x64xf32>) -> tensor<32x256xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<64x256xf32>) -> tensor<256x256xf32>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<32x256xf32>, tensor<256x256xf32>) -> tensor<32x256xf32>
    %2 = "stablehlo.all_gather"(%b) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<256x64xf32>) -> tensor<256x256xf32>
    %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : (tensor<32x256xf32>, tensor<256x256xf32>) -> tensor<32x256xf32>
    return %3 : tensor<32x256xf32>
  }
}

// -----

/// Reductions go through one buffer; the one that needs another begins a new one.

// CHECK-LABEL: module @reduce
// APART-LABEL: module @reduce
module @reduce attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[K:.*]] = mhlo.copy %arg0
  // CHECK-NEXT: "stablehlo.all_reduce"(%[[K]])
  // CHECK-NOT: mhlo.copy
  // CHECK: %[[C:.*]] = stablehlo.concatenate {{.*}} -> tensor<24xf32>
  // CHECK-NEXT: %[[R:.*]] = "stablehlo.all_reduce"(%[[C]])
  // CHECK: hespas.comm = {groups = array<i64: 1>}} : (tensor<24xf32>) -> tensor<24xf32>
  // CHECK: stablehlo.slice %[[R]] [0:8]
  // CHECK: stablehlo.slice %[[R]] [8:24]
  // CHECK-NOT: "stablehlo.all_reduce"
  // APART-COUNT-3: = "stablehlo.all_reduce"(
  func.func @main(%x: tensor<8xf32>, %y: tensor<4x4xf32>) -> (tensor<8xf32>, tensor<4x4xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %3 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %2, %3 : tensor<8xf32>, tensor<4x4xf32>
  }
}
