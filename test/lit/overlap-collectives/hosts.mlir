// RUN: hespas-opt %s --overlap-collectives=target=H100_80GB --split-input-file | filecheck %s
// RUN: hespas-opt %s --overlap-collectives=target=B200_180GB --split-input-file | filecheck %s --check-prefix=FASTER

/// A product takes 132 us of an H100. Between two hosts, XLA expects a gather of 32 MiB to take 15 messages of 2 MiB through
/// eight network cards of 25 GB/s, with 37 us for each, 45 us for the launch and 11 us for the memory: 287 us, three products. Those of a B200 have 50 GB/s: 178 us, two products.

// CHECK-LABEL: module @between
// FASTER-LABEL: module @between
// FASTER: "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
// FASTER-NEXT: stablehlo.dot_general
// FASTER-NEXT: stablehlo.dot_general
// FASTER-NEXT: stablehlo.optimization_barrier {hespas.wait = true}
module @between attributes {mhlo.num_partitions = 16 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true}
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<256x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
    %a = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %b = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %c = stablehlo.dot_general %b, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %d = stablehlo.dot_general %c, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %e = stablehlo.dot_general %d, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>, use_global_device_ids}> : (tensor<256x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = stablehlo.add %e, %g : tensor<4096x4096xbf16>
    return %r : tensor<4096x4096xbf16>
  }
}

// -----

/// A permute sends its whole operand of 2 MiB by one card: 169 us, two products. That within a host takes 25 us, one.

// CHECK-LABEL: module @permutes
module @permutes attributes {mhlo.num_partitions = 16 : i32, mhlo.num_replicas = 1 : i32} {
  // CHECK: "stablehlo.collective_permute"(%arg1) {{.*}}is_async = true
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.slice
  // CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true}
  // CHECK-NEXT: stablehlo.add
  // CHECK-NEXT: "stablehlo.collective_permute"(%arg1) {{.*}}is_async = true
  // CHECK-NEXT: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.slice
  // CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true}
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<256x4096xbf16>, %v: tensor<4096x4096xbf16>) -> (tensor<4096x4096xbf16>, tensor<256x4096xbf16>, tensor<256x4096xbf16>) {
    %a = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %b = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %p = "stablehlo.collective_permute"(%w) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [7, 8]]> : tensor<2x2xi64>}> : (tensor<256x4096xbf16>) -> tensor<256x4096xbf16>
    %y = stablehlo.slice %b [0:256, 0:4096] : (tensor<4096x4096xbf16>) -> tensor<256x4096xbf16>
    %s = stablehlo.add %p, %y : tensor<256x4096xbf16>
    %c = stablehlo.dot_general %b, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %q = "stablehlo.collective_permute"(%w) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 1], [8, 9]]> : tensor<2x2xi64>}> : (tensor<256x4096xbf16>) -> tensor<256x4096xbf16>
    %z = stablehlo.slice %c [0:256, 0:4096] : (tensor<4096x4096xbf16>) -> tensor<256x4096xbf16>
    %t = stablehlo.add %q, %z : tensor<256x4096xbf16>
    return %c, %s, %t : tensor<4096x4096xbf16>, tensor<256x4096xbf16>, tensor<256x4096xbf16>
  }
}
