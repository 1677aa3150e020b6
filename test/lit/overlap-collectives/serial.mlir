// RUN: hespas-opt %s '--overlap-collectives=target=H100_80GB,serial="all_to_all,permute"' | filecheck %s
// RUN: hespas-opt %s --overlap-collectives=target=H100_80GB | filecheck %s --check-prefix=ALL
// RUN: not hespas-opt %s --overlap-collectives=serial=all_to_al 2>&1 | filecheck %s --check-prefix=ERROR

/// Nothing runs alongside the exchange; the gather is hidden as ever.

// ERROR: error: overlap-collectives: no kind of collective is called 'all_to_al'; did you mean 'all_to_all'?

// CHECK: stablehlo.all_to_all
// CHECK-NEXT: %[[G:.*]] = "stablehlo.all_gather"(%arg1) {{.*}}is_async = true
// CHECK-NEXT: stablehlo.dot_general %arg0, %arg2
// CHECK-NEXT: stablehlo.optimization_barrier {hespas.wait = true} %[[G]]
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
