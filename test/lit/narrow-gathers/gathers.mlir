// RUN: hespas-opt %s --narrow-gathers --split-input-file | filecheck %s
// RUN: hespas-opt %s --narrow-gathers --narrow-gathers --split-input-file | filecheck %s

/// Weights are converted before they are gathered, and their readers have what they had.

// CHECK-LABEL: module @weights
module @weights attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[C:.*]] = stablehlo.convert %arg0 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  // CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%[[C]]) <{all_gather_dim = 1 {{.*}} {hespas.comm = {groups = array<i64: 1>}} : (tensor<2x4xbf16>) -> tensor<2x16xbf16>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[G]]
  // CHECK-NEXT: return %[[T]], %[[G]]
  func.func @main(%w: tensor<2x4xf32>) -> (tensor<2x16xbf16>, tensor<2x16xbf16>) {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x16xf32>
    %c = stablehlo.convert %g : (tensor<2x16xf32>) -> tensor<2x16xbf16>
    %t = stablehlo.tanh %c : tensor<2x16xbf16>
    return %t, %c : tensor<2x16xbf16>, tensor<2x16xbf16>
  }
}

// -----

/// What is gathered is needed in its own type, too.

// CHECK-LABEL: module @two_readers
module @two_readers attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_gather"(%arg0)
  // CHECK-NEXT: stablehlo.convert
  func.func @main(%w: tensor<2x4xf32>) -> (tensor<2x16xf32>, tensor<2x16xbf16>) {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x16xf32>
    %c = stablehlo.convert %g : (tensor<2x16xf32>) -> tensor<2x16xbf16>
    return %g, %c : tensor<2x16xf32>, tensor<2x16xbf16>
  }
}

// -----

/// A conversion to a wider type comes after.

// CHECK-LABEL: module @wider
module @wider attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_gather"(%arg0)
  // CHECK-NEXT: stablehlo.convert
  func.func @main(%w: tensor<2x4xbf16>) -> tensor<2x16xf32> {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xbf16>) -> tensor<2x16xbf16>
    %c = stablehlo.convert %g : (tensor<2x16xbf16>) -> tensor<2x16xf32>
    return %c : tensor<2x16xf32>
  }
}

// -----

/// One of equal width, too.

// CHECK-LABEL: module @equal
module @equal attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_gather"(%arg0)
  // CHECK-NEXT: stablehlo.convert
  func.func @main(%w: tensor<2x4xf32>) -> tensor<2x16xi32> {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x16xf32>
    %c = stablehlo.convert %g : (tensor<2x16xf32>) -> tensor<2x16xi32>
    return %c : tensor<2x16xi32>
  }
}
