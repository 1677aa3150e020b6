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

// -----

/// What is only moved between is narrow, too.

// CHECK-LABEL: module @moved
module @moved attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[C:.*]] = stablehlo.convert %arg0 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  // CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%[[C]])
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[G]], dims = [1, 0] : (tensor<2x16xbf16>) -> tensor<16x2xbf16>
  // CHECK-NEXT: %[[S:.*]] = stablehlo.slice %[[T]] [0:8, 0:2] : (tensor<16x2xbf16>) -> tensor<8x2xbf16>
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[S]] : (tensor<8x2xbf16>) -> tensor<16xbf16>
  // CHECK-NEXT: return %[[R]]
  func.func @main(%w: tensor<2x4xf32>) -> tensor<16xbf16> {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x16xf32>
    %t = stablehlo.transpose %g, dims = [1, 0] : (tensor<2x16xf32>) -> tensor<16x2xf32>
    %s = stablehlo.slice %t [0:8, 0:2] : (tensor<16x2xf32>) -> tensor<8x2xf32>
    %r = stablehlo.reshape %s : (tensor<8x2xf32>) -> tensor<16xf32>
    %c = stablehlo.convert %r : (tensor<16xf32>) -> tensor<16xbf16>
    return %c : tensor<16xbf16>
  }
}

// -----

/// XLA keeps the wide type for what is converted back to it, and converts nothing else before.

// CHECK-LABEL: module @wide_again
module @wide_again attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[G:.*]] = "stablehlo.all_gather"(%arg0)
  // CHECK-NEXT: %[[C:.*]] = stablehlo.convert %[[G]]
  // CHECK: "stablehlo.all_gather"(%arg0)
  // CHECK-NEXT: stablehlo.multiply
  func.func @main(%w: tensor<2x4xf32>) -> (tensor<2x16xbf16>, tensor<2x16xf32>, tensor<2x16xbf16>) {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x16xf32>
    %c = stablehlo.convert %g : (tensor<2x16xf32>) -> tensor<2x16xbf16>
    %d = stablehlo.convert %c : (tensor<2x16xbf16>) -> tensor<2x16xf32>
    %h = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x16xf32>
    %m = stablehlo.multiply %h, %h : tensor<2x16xf32>
    %n = stablehlo.convert %m : (tensor<2x16xf32>) -> tensor<2x16xbf16>
    return %c, %d, %n : tensor<2x16xbf16>, tensor<2x16xf32>, tensor<2x16xbf16>
  }
}

// -----

/// A conversion to a wider type comes after, unless something else reads the wide values.

// CHECK-LABEL: module @wide_after
module @wide_after attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[G:.*]] = "stablehlo.all_gather"(%arg0) {{.*}}: (tensor<2x4xbf16>) -> tensor<2x16xbf16>
  // CHECK-NEXT: %[[A:.*]] = stablehlo.convert %[[G]]
  // CHECK: %[[B:.*]] = stablehlo.convert %arg0
  // CHECK-NEXT: %[[H:.*]] = "stablehlo.all_gather"(%[[B]])
  // CHECK-NEXT: return %[[A]], %[[H]], %[[B]]
  func.func @main(%w: tensor<2x4xbf16>) -> (tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x4xf32>) {
    %a = stablehlo.convert %w : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %g = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x16xf32>
    %b = stablehlo.convert %w : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %h = "stablehlo.all_gather"(%b) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x16xf32>
    return %g, %h, %b : tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x4xf32>
  }
}

// -----

/// Values that are gathered together stay as they are.

// CHECK-LABEL: module @together
module @together attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_gather"(%arg0, %arg1)
  // CHECK: stablehlo.convert %{{.*}} : (tensor<16x8xf32>) -> tensor<16x8xbf16>
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<16x8xbf16>, tensor<16x8xf32>) {
    %0:2 = "stablehlo.all_gather"(%x, %y) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>)
    %1 = stablehlo.convert %0#0 : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    return %1, %0#1 : tensor<16x8xbf16>, tensor<16x8xf32>
  }
}
