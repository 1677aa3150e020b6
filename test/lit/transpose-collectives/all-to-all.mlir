// RUN: hespas-opt %s --transpose-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --transpose-collectives --transpose-collectives --split-input-file | filecheck %s

/// The split dimension moves to the front, and what arrives is joined in the order of the senders.

// CHECK-LABEL: module @before
module @before attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %arg0, dims = [1, 0, 2] : (tensor<2x8x3xf32>) -> tensor<8x2x3xf32>
  // CHECK-NEXT: %[[E:.*]] = "stablehlo.all_to_all"(%[[T]]) <{{{.*}}concat_dimension = 0 : i64, {{.*}}split_dimension = 0 : i64}> {{.*}}: (tensor<8x2x3xf32>) -> tensor<8x2x3xf32>
  // CHECK-NEXT: %[[P:.*]] = stablehlo.reshape %[[E]] : (tensor<8x2x3xf32>) -> tensor<4x2x2x3xf32>
  // CHECK-NEXT: %[[S:.*]] = stablehlo.transpose %[[P]], dims = [0, 2, 1, 3] : (tensor<4x2x2x3xf32>) -> tensor<4x2x2x3xf32>
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[S]] : (tensor<4x2x2x3xf32>) -> tensor<8x2x3xf32>
  // CHECK-NEXT: return %[[R]]
  func.func @main(%x: tensor<2x8x3xf32>) -> tensor<8x2x3xf32> {
    %0 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<2x8x3xf32>) -> tensor<8x2x3xf32>
    return %0 : tensor<8x2x3xf32>
  }
}

// -----

/// A dimension behind the split one is joined.

// CHECK-LABEL: module @behind
module @behind attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: %[[E:.*]] = "stablehlo.all_to_all"(%arg0) <{{{.*}}concat_dimension = 0 : i64, {{.*}}split_dimension = 0 : i64}> {{.*}}: (tensor<8x2x3xf32>) -> tensor<8x2x3xf32>
  // CHECK-NEXT: %[[P:.*]] = stablehlo.reshape %[[E]] : (tensor<8x2x3xf32>) -> tensor<4x2x2x3xf32>
  // CHECK-NEXT: %[[S:.*]] = stablehlo.transpose %[[P]], dims = [1, 2, 0, 3] : (tensor<4x2x2x3xf32>) -> tensor<2x2x4x3xf32>
  // CHECK-NEXT: stablehlo.reshape %[[S]] : (tensor<2x2x4x3xf32>) -> tensor<2x2x12xf32>
  func.func @main(%x: tensor<8x2x3xf32>) -> tensor<2x2x12xf32> {
    %0 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 2 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<8x2x3xf32>) -> tensor<2x2x12xf32>
    return %0 : tensor<2x2x12xf32>
  }
}

// -----

/// The same dimension is split and joined.

// CHECK-LABEL: module @same
module @same attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NEXT: func.func
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x8xf32>) -> tensor<8x2xf32>
  // CHECK-NEXT: %[[E:.*]] = "stablehlo.all_to_all"(%[[T]])
  // CHECK-NEXT: %[[P:.*]] = stablehlo.reshape %[[E]] : (tensor<8x2xf32>) -> tensor<4x2x2xf32>
  // CHECK-NEXT: %[[S:.*]] = stablehlo.transpose %[[P]], dims = [2, 0, 1] : (tensor<4x2x2xf32>) -> tensor<2x4x2xf32>
  // CHECK-NEXT: stablehlo.reshape %[[S]] : (tensor<2x4x2xf32>) -> tensor<2x8xf32>
  func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
    %0 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<2x8xf32>) -> tensor<2x8xf32>
    return %0 : tensor<2x8xf32>
  }
}

// -----

/// The first dimension, or one before which all have one element, is split as it is.

// CHECK-LABEL: module @major
module @major attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK-NOT: stablehlo.transpose
  // CHECK: split_dimension = 1
  // CHECK-NEXT: return
  func.func @main(%x: tensor<1x8x3xf32>) -> tensor<1x8x3xf32> {
    %0 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<1x8x3xf32>) -> tensor<1x8x3xf32>
    return %0 : tensor<1x8x3xf32>
  }
}

// -----

/// One that is major but for dimensions of one element, which are joined, is no first dimension yet.

// CHECK-LABEL: module @joined_ones
module @joined_ones attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0, dims = [1, 0, 2] : (tensor<1x8x3xf32>) -> tensor<8x1x3xf32>
  // CHECK-NEXT: %[[E:.*]] = "stablehlo.all_to_all"(%[[T]]) <{{{.*}}split_dimension = 0
  // CHECK: stablehlo.transpose {{.*}} dims = [0, 2, 1, 3] : (tensor<4x2x1x3xf32>) -> tensor<4x1x2x3xf32>
  func.func @main(%x: tensor<1x8x3xf32>) -> tensor<4x2x3xf32> {
    %0 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<1x8x3xf32>) -> tensor<4x2x3xf32>
    return %0 : tensor<4x2x3xf32>
  }
}

// -----

/// A part of one row has no dimension of its own, so that transposes of the readers meet this one.

// CHECK-LABEL: module @single
module @single attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[T:.*]] = stablehlo.transpose %arg0, dims = [1, 0, 2]
  // CHECK-NEXT: %[[E:.*]] = "stablehlo.all_to_all"(%[[T]])
  // CHECK-NEXT: %[[S:.*]] = stablehlo.transpose %[[E]], dims = [1, 0, 2] : (tensor<4x2x12xf32>) -> tensor<2x4x12xf32>
  // CHECK-NEXT: stablehlo.reshape %[[S]] : (tensor<2x4x12xf32>) -> tensor<2x1x48xf32>
  func.func @main(%x: tensor<2x4x12xf32>) -> tensor<2x1x48xf32> {
    %0 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 2 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<2x4x12xf32>) -> tensor<2x1x48xf32>
    return %0 : tensor<2x1x48xf32>
  }
}
