// RUN: hespas-opt %s --overlap-collectives | filecheck %s
// RUN: hespas-opt %s --overlap-collectives=target=A100_SXM_40GB | filecheck %s
// RUN: hespas-opt %s --overlap-collectives=target=RTX_PRO_6000_96GB | filecheck %s
// RUN: hespas-opt %s --overlap-collectives=always=false | filecheck %s
// RUN: not hespas-opt %s --overlap-collectives=target=A0 2>&1 | filecheck %s --check-prefix=TARGET

/// XLA orders the programs of GPUs before Hopper, and of workstations, to save memory.

// TARGET: error: no target is named 'A0'

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.dot_general
// CHECK-NEXT: stablehlo.all_gather
// CHECK-NOT: hespas.wait
module @weights attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<1024x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
    %b = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %g = "stablehlo.all_gather"(%w) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
    %r = stablehlo.dot_general %b, %g, contracting_dims = [1] x [0] : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    return %r : tensor<4096x4096xbf16>
  }
}
