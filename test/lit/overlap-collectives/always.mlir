// RUN: hespas-opt %s --overlap-collectives=always --split-input-file | filecheck %s
// RUN: hespas-opt %s --overlap-collectives=target=RTX_PRO_6000_96GB,always --split-input-file | filecheck %s

/// For GPUs whose rates XLA's scheduler does not know, five calls of libraries hide a collective, however long each takes.

// CHECK-LABEL: module @products
module @products attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0
  // CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
  // CHECK-COUNT-4: stablehlo.dot_general
  // CHECK-NEXT: %[[F:.*]] = stablehlo.dot_general
  // CHECK-NEXT: %[[W:.*]] = stablehlo.optimization_barrier {hespas.wait = true} %[[G]]
  // CHECK-NEXT: stablehlo.add %[[F]], %[[W]]
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16> {
    %p1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %p2 = stablehlo.dot_general %p1, %x, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %p3 = stablehlo.dot_general %p2, %x, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %p4 = stablehlo.dot_general %p3, %x, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %p5 = stablehlo.dot_general %p4, %x, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %p6 = stablehlo.dot_general %p5, %x, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = stablehlo.add %p6, %g : tensor<4096x4096xbf16>
    return %r : tensor<4096x4096xbf16>
  }
}

// -----

/// So do five loops over elements; it takes 5,000 other kernels, such as sorts. What launches nothing hides nothing.

// CHECK-LABEL: module @loops
module @loops attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: stablehlo.tanh
  // CHECK-NEXT: stablehlo.tanh
  // CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
  // CHECK-COUNT-5: stablehlo.tanh
  // CHECK: stablehlo.optimization_barrier {hespas.wait = true} %[[G]]
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16> {
    %p1 = stablehlo.tanh %x {hespas.kernel = {kind = "loop"}} : tensor<4096x4096xbf16>
    %p2 = stablehlo.tanh %p1 {hespas.kernel = {kind = "loop"}} : tensor<4096x4096xbf16>
    %p3 = stablehlo.tanh %p2 {hespas.kernel = {kind = "loop"}} : tensor<4096x4096xbf16>
    %p4 = stablehlo.tanh %p3 {hespas.kernel = {kind = "loop"}} : tensor<4096x4096xbf16>
    %p5 = stablehlo.tanh %p4 {hespas.kernel = {kind = "loop"}} : tensor<4096x4096xbf16>
    %p6 = stablehlo.tanh %p5 {hespas.kernel = {kind = "loop"}} : tensor<4096x4096xbf16>
    %p7 = stablehlo.tanh %p6 {hespas.kernel = {kind = "loop"}} : tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %h = stablehlo.reshape %p7 : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = stablehlo.add %h, %g : tensor<4096x4096xbf16>
    return %r : tensor<4096x4096xbf16>
  }
}

// -----

// CHECK-LABEL: module @sorts
module @sorts attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: %[[G:.*]] = "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
  // CHECK-COUNT-7: stablehlo.negate
  // CHECK: stablehlo.optimization_barrier {hespas.wait = true} %[[G]]
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16> {
    %p1 = stablehlo.negate %x : tensor<4096x4096xbf16>
    %p2 = stablehlo.negate %p1 : tensor<4096x4096xbf16>
    %p3 = stablehlo.negate %p2 : tensor<4096x4096xbf16>
    %p4 = stablehlo.negate %p3 : tensor<4096x4096xbf16>
    %p5 = stablehlo.negate %p4 : tensor<4096x4096xbf16>
    %p6 = stablehlo.negate %p5 : tensor<4096x4096xbf16>
    %p7 = stablehlo.negate %p6 : tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = stablehlo.add %p7, %g : tensor<4096x4096xbf16>
    return %r : tensor<4096x4096xbf16>
  }
}
