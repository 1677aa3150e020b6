// RUN: hespas-opt %s --scatter-reductions --split-input-file | filecheck %s
// RUN: hespas-opt %s --scatter-reductions --scatter-reductions --split-input-file | filecheck %s

/// Where a device takes another's part, the op stays an all_reduce.

// CHECK-LABEL: module @other_part
module @other_part attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[16, 0, 32, 48]> : tensor<4xi32>
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

/// So it does where only one group takes its own parts.

// CHECK-LABEL: module @other_group
module @other_group attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<32x16xf32> {
    %table = stablehlo.constant dense<[0, 32, 32, 0]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [32, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<32x16xf32>
    return %2 : tensor<32x16xf32>
  }
}

// -----

/// Something else reads the whole result.

// CHECK-LABEL: module @read_twice
module @read_twice attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> (tensor<16x16xf32>, tensor<64x16xf32>) {
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
    %2 = stablehlo.tanh %1 : tensor<64x16xf32>
    %3 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [16, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %3, %2 : tensor<16x16xf32>, tensor<64x16xf32>
  }
}

// -----

/// What reads it is no slice by a rank.

// CHECK-LABEL: module @static
module @static attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.slice
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.slice %1 [0:16, 0:16] : (tensor<64x16xf32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

/// The slice is a part in two dimensions, or in none.

// CHECK-LABEL: module @two_dims
module @two_dims attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x4xf32> {
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
    %2 = stablehlo.dynamic_slice %1, %start, %start, sizes = [16, 4] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x4xf32>
    return %2 : tensor<16x4xf32>
  }
}

// -----

// CHECK-LABEL: module @no_dims
module @no_dims attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<64x16xf32> {
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
    %2 = stablehlo.dynamic_slice %1, %zero, %zero, sizes = [64, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<64x16xf32>
    return %2 : tensor<64x16xf32>
  }
}

// -----

// CHECK-LABEL: module @alone
module @alone attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<64x16xf32> {
    %table = stablehlo.constant dense<[0, 16, 32, 48]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %zero, %zero, sizes = [64, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<64x16xf32>
    return %2 : tensor<64x16xf32>
  }
}

// -----

/// The parts are not as many as the devices of a group, or do not divide the whole.

// CHECK-LABEL: module @halves
module @halves attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<32x16xf32> {
    %table = stablehlo.constant dense<[0, 32, 64, 96]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [32, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<32x16xf32>
    return %2 : tensor<32x16xf32>
  }
}

// -----

// CHECK-LABEL: module @rest
module @rest attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<66x16xf32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[0, 16, 32, 48]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<66x16xf32>) -> tensor<66x16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, %zero, sizes = [16, 16] : (tensor<66x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

/// The place is not known: a value, or the entry of a table at one.

// CHECK-LABEL: module @unknown
module @unknown attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>, %p: tensor<i32>) -> tensor<16x16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %p, %zero, sizes = [16, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

// CHECK-LABEL: module @unknown_entry
module @unknown_entry attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>, %p: tensor<ui32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[0, 16, 32, 48]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %table, %p, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
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

/// A table is not read that is not constant, has two dimensions, or has no integers.

// CHECK-LABEL: module @argument_table
module @argument_table attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>, %table: tensor<4xi32>) -> tensor<16x16xf32> {
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

// CHECK-LABEL: module @two_dims_table
module @two_dims_table attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[[0, 16], [32, 48], [1, 2], [3, 4]]> : tensor<4x2xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, %id, sizes = [1, 1] : (tensor<4x2xi32>, tensor<ui32>, tensor<ui32>) -> tensor<1x1xi32>
    %start = stablehlo.reshape %0 : (tensor<1x1xi32>) -> tensor<i32>
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

// CHECK-LABEL: module @float_table
module @float_table attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[0.0, 16.0, 32.0, 48.0]> : tensor<4xf32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xf32>, tensor<ui32>) -> tensor<1xf32>
    %f = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
    %start = stablehlo.convert %f : (tensor<f32>) -> tensor<i32>
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

/// All-reduces of several values stay.

// CHECK-LABEL: module @several
module @several attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[0, 16, 32, 48]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %1:2 = "stablehlo.all_reduce"(%x, %x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>, tensor<64x16xf32>) -> (tensor<64x16xf32>, tensor<64x16xf32>)
    %2 = stablehlo.dynamic_slice %1#0, %start, %zero, sizes = [16, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

/// A place that takes more than 32 ops to compute is not looked at.

// CHECK-LABEL: module @long
module @long attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: reduce_scatter
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.dynamic_slice
  // CHECK-NOT: reduce_scatter
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x16xf32> {
    %table = stablehlo.constant dense<[0, 16, 32, 48]> : tensor<4xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %id = stablehlo.partition_id : tensor<ui32>
    %0 = stablehlo.dynamic_slice %table, %id, sizes = [1] : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
    %start = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %n0 = stablehlo.negate %start : tensor<i32>
    %n1 = stablehlo.negate %n0 : tensor<i32>
    %n2 = stablehlo.negate %n1 : tensor<i32>
    %n3 = stablehlo.negate %n2 : tensor<i32>
    %n4 = stablehlo.negate %n3 : tensor<i32>
    %n5 = stablehlo.negate %n4 : tensor<i32>
    %n6 = stablehlo.negate %n5 : tensor<i32>
    %n7 = stablehlo.negate %n6 : tensor<i32>
    %n8 = stablehlo.negate %n7 : tensor<i32>
    %n9 = stablehlo.negate %n8 : tensor<i32>
    %n10 = stablehlo.negate %n9 : tensor<i32>
    %n11 = stablehlo.negate %n10 : tensor<i32>
    %n12 = stablehlo.negate %n11 : tensor<i32>
    %n13 = stablehlo.negate %n12 : tensor<i32>
    %n14 = stablehlo.negate %n13 : tensor<i32>
    %n15 = stablehlo.negate %n14 : tensor<i32>
    %n16 = stablehlo.negate %n15 : tensor<i32>
    %n17 = stablehlo.negate %n16 : tensor<i32>
    %n18 = stablehlo.negate %n17 : tensor<i32>
    %n19 = stablehlo.negate %n18 : tensor<i32>
    %n20 = stablehlo.negate %n19 : tensor<i32>
    %n21 = stablehlo.negate %n20 : tensor<i32>
    %n22 = stablehlo.negate %n21 : tensor<i32>
    %n23 = stablehlo.negate %n22 : tensor<i32>
    %n24 = stablehlo.negate %n23 : tensor<i32>
    %n25 = stablehlo.negate %n24 : tensor<i32>
    %n26 = stablehlo.negate %n25 : tensor<i32>
    %n27 = stablehlo.negate %n26 : tensor<i32>
    %n28 = stablehlo.negate %n27 : tensor<i32>
    %n29 = stablehlo.negate %n28 : tensor<i32>
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.dynamic_slice %1, %n29, %zero, sizes = [16, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

/// A transpose of the whole sum stays, too.

// CHECK-LABEL: module @read_transposed
module @read_transposed attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.transpose
  // CHECK-NEXT: return
  func.func @main(%x: tensor<64x16xf32>) -> tensor<16x64xf32> {
    %1 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<64x16xf32>) -> tensor<16x64xf32>
    return %2 : tensor<16x64xf32>
  }
}
