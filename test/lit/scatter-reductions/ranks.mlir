// RUN: hespas-opt %s --scatter-reductions --split-input-file | filecheck %s
// RUN: hespas-opt %s --scatter-reductions --scatter-reductions --split-input-file | filecheck %s

/// An all_reduce of which each device takes its part by a table is a reduce_scatter.

// CHECK-LABEL: module @table
module @table attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[R:.*]] = "stablehlo.reduce_scatter"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{.*}}0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}>
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: stablehlo.return
  // CHECK-NEXT: hespas.comm = {groups = array<i64: 1>}} : (tensor<64x16xf32>) -> tensor<16x16xf32>
  // CHECK-NEXT: return %[[R]]
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[0, 16, 32, 48]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [16, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

/// The part may be computed from the rank, be one of another dimension, and of a maximum.

// CHECK-LABEL: module @computed
module @computed attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.reduce_scatter"(%arg0) <{{{.*}}scatter_dimension = 1 : i64
  // CHECK: stablehlo.maximum
  // CHECK: (tensor<64x16xf32>) -> tensor<64x4xf32>
  func.func @main(%x: tensor<64x16xf32>) -> tensor<64x4xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %size = stablehlo.constant dense<4> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %start = stablehlo.multiply %0, %size : tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %zero, %start, sizes = [64, 4] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<64x4xf32>
    return %2 : tensor<64x4xf32>
  }
}

// -----

/// The ranks are those in a group, in its order: here, of partitions in two rows of replicas.

// CHECK-LABEL: module @groups
module @groups attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32} {
  // CHECK: "stablehlo.reduce_scatter"(%arg0) {{.*}} scatter_dimension = 0
  func.func @main(%x: tensor<64x16xf32>) -> tensor<32x16xf32> {
    %table = stablehlo.constant dense<[0, 32, 32, 0]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [3, 2], [4, 5], [7, 6]]> : tensor<4x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [32, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<32x16xf32>
    return %2 : tensor<32x16xf32>
  }
}

// -----

/// Replicas have ranks as well, and without groups all devices are one.

// CHECK-LABEL: module @replicas
module @replicas attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // CHECK: "stablehlo.reduce_scatter"(%arg0) <{replica_groups
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %size = stablehlo.constant dense<16> : tensor<i32>
    %id = stablehlo.replica_id : tensor<ui32>
    %0 = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %start = stablehlo.multiply %0, %size : tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [16, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

/// An index beyond a table reads its last entry, and one below it the first.

// CHECK-LABEL: module @clamped
module @clamped attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.reduce_scatter"
  func.func @main(%x: tensor<64x16xf32>) -> tensor<32x16xf32> {
    %table = stablehlo.constant dense<[0, 32]> : tensor<2xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %n = stablehlo.multiply %i, %three : tensor<i32>
    %k = stablehlo.subtract %n, %one : tensor<i32>
    %0 = stablehlo.dynamic_slice %table, %k, sizes = [1] : (tensor<2xi32>, tensor<i32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [32, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<32x16xf32>
    return %2 : tensor<32x16xf32>
  }
}

// -----

/// The table may be computed from constants, which XLA folds first.

// CHECK-LABEL: module @computed_table
module @computed_table attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: all_reduce
  // CHECK: "stablehlo.reduce_scatter"(%arg0)
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %ranks = stablehlo.constant dense<[0, 16, 32, 48]> : tensor<4xi32>
    %table = stablehlo.abs %ranks : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [16, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

/// A transpose between both is done after: the slice is one of what is reduced.

// CHECK-LABEL: module @transposed
module @transposed attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[R:.*]] = "stablehlo.reduce_scatter"(%arg0) {{.*}}scatter_dimension = 1
  // CHECK: (tensor<64x16xf32>) -> tensor<64x4xf32>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[R]], dims = [1, 0]
  // CHECK-NEXT: return %[[T]]
  func.func @main(%x: tensor<64x16xf32>) -> tensor<4x64xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %size = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %start = stablehlo.multiply %0, %size : tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %t = stablehlo.transpose %1, dims = [1, 0] : (tensor<64x16xf32>) -> tensor<16x64xf32>
    %2 = stablehlo.dynamic_slice %t, %start, %zero, sizes = [4, 64] : (tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<4x64xf32>
    return %2 : tensor<4x64xf32>
  }
}
