// RUN: rm -rf %t && hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t -o %t.mlir
// RUN: hespas trace check %t | filecheck %s --check-prefix=SOUND
// RUN: hespas trace print %t/dev.3.et | filecheck %s

/// Program order: compute, collective, compute; operand bytes, and the device's own communicator.

// SOUND: 4 devices, 12 nodes: 0 errors, 0 warnings

// CHECK:      1 COMP 'region 0: dot_general +1' {{.*}} num_ops={{[0-9]+}}500 tensor_size=1 flops={{[0-9]+}}
// CHECK-NEXT: 2 COMM_COLL 'all_gather.0' after 1 comm_type=ALL_GATHER comm_size=4096 {{.*}}pg_name=2
// CHECK-NEXT: 3 COMP 'region 1: tanh' {{.*}} after 2

module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<32x32xf32>) -> tensor<64x32xf32> {
    %a = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %b = stablehlo.negate %a : tensor<32x32xf32>
    %c = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64,
      replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}>
      : (tensor<32x32xf32>) -> tensor<64x32xf32>
    %d = stablehlo.tanh %c : tensor<64x32xf32>
    return %d : tensor<64x32xf32>
  }
}
