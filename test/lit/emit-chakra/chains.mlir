// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json

/// In program order, the links between devices and the link to the host have a chain of communication each: a copy
/// to the host does not wait for a collective that still runs, and the next collective does.

// CHECK: 1 COMM_COLL 'all_gather.0' comm_type
// CHECK-NEXT: 2 COMP 'host_copy.0' 1us is_cpu_op
// CHECK-NEXT: 3 COMP 'region 0: tanh' 0us after 2 num_ops
// CHECK-NEXT: 4 COMM_COLL 'all_gather.1' after 1,3 comm_type
// CHECK-NEXT: 5 COMP 'region 1: negate' 0us after 3,4 num_ops
// CHECK-NEXT: 6 COMP 'region 2: add' 0us after 5 num_ops
/// The time of the step depends on the network, then.
// STATS: "totals": {{{.*}}"comm_ops": 3, "comm_operand_bytes": 48
// STATS: "host_copies": {"count": 1, "operand_bytes": 16, "time_ns": 1000, "step_ns": null}
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> attributes {execution_thread = "main"} {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @offload(%x: tensor<4xf32>) -> tensor<4xf32> attributes {execution_thread = "main"} {
    %0 = stablehlo.custom_call @MoveToHost(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) {
    %s = "mhlo.async_start"(%x) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    %h = "mhlo.async_start"(%x) <{called_computation = @offload, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>>
    %t = stablehlo.tanh %x : tensor<4xf32>
    %s2 = "mhlo.async_start"(%t) <{called_computation = @gather, execution_thread = "main"}> : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
    %d2 = "mhlo.async_done"(%s2) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
    %n = stablehlo.negate %d2 : tensor<8xf32>
    %d = "mhlo.async_done"(%s) {called_computation = @gather, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
    %o = stablehlo.add %d, %n : tensor<8xf32>
    %e = "mhlo.async_done"(%h) {called_computation = @offload, execution_thread = "main"} : (!mhlo.async_bundle<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
    return %t, %n, %o, %e : tensor<4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>
  }
}
