// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json
// RUN: hespas-opt %s --split-linear --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e14" --emit-chakra=output=%t --disable-output 2>&1 | filecheck %s --check-prefix=NONE

/// A copy over the link to the host is a node of the host with its time, in whole microseconds: 4 MiB take 79.5 at 52.77e9
/// bytes a second. Without a bandwidth of the link it has none, and a warning says so.

// CHECK: COMP 'host_copy.0' 80us is_cpu_op
// CHECK-NEXT: COMP 'host_copy.1' 80us after 1 is_cpu_op
// STATS: "transfers": {"count": 0, "messages": 0, "message_bytes": 0},
// STATS-NEXT: "host_copies": {"count": 2, "operand_bytes": 8388608, "time_ns": 160000, "step_ns": 160000.0}
// NONE: warning: 2 copies between device and host take no time: the node states no host_link_bytes_per_s
module {
  func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %host = stablehlo.custom_call @annotate_device_placement(%x) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %kept = stablehlo.optimization_barrier %host : tensor<1024x1024xf32>
    %back = stablehlo.custom_call @MoveToDevice(%kept) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %same = stablehlo.custom_call @annotate_device_placement(%back) {backend_config = ""} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %same : tensor<1024x1024xf32>
  }
}
