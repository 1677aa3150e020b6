// RUN: hespas-opt %s --fuse=target=H100_80GB,serial=all_to_all | filecheck %s
// RUN: hespas-opt %s --fuse=target=H100_80GB | filecheck %s --check-prefix=ALL
// RUN: not hespas-opt %s --fuse=serial=some 2>&1 | filecheck %s --check-prefix=OTHER

/// Nothing runs alongside the exchange.

// OTHER: error: fuse: no kind of collective is called 'some'

// CHECK: stablehlo.all_to_all
// CHECK-NEXT: "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
// CHECK-COUNT-1: hespas.wait
// CHECK-NOT: hespas.wait
// ALL-COUNT-2: is_async = true
module @exchange attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %a = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %e = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %b = stablehlo.dot_general %a, %g, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %c = stablehlo.dot_general %b, %e, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    return %c : tensor<4096x4096xbf16>
  }
}
