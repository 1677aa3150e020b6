// RUN: hespas-opt %s --fuse=target=H100_80GB | filecheck %s
// RUN: hespas-opt %s --fuse=target=H100_80GB,overlap=none | filecheck %s --check-prefix=SERIAL
// RUN: hespas-opt %s --fuse=overlap=latency-hiding | filecheck %s
// RUN: hespas-opt %s --fuse=overlap=xla | filecheck %s --check-prefix=SERIAL
// RUN: not hespas-opt %s --fuse=overlap=some 2>&1 | filecheck %s --check-prefix=OTHER

/// Collectives run alongside kernels unless `overlap=none`, on GPUs before Hopper with `overlap=latency-hiding`.

// OTHER: error: fuse: no overlaps are called 'some'; did you mean 'none'?

// CHECK: stablehlo.all_gather
// CHECK-NEXT: mhlo.fusion
// CHECK: hespas.wait
// SERIAL: mhlo.fusion
// SERIAL: stablehlo.all_gather
// SERIAL-NOT: hespas.wait
module @weights attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
    %b = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = stablehlo.dot_general %b, %g, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    return %r : tensor<4096x4096xbf16>
  }
}
