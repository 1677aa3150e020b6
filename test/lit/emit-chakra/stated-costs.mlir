// RUN: hespas-opt %s --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=TRACE
// RUN: filecheck %s --input-file %t/module_stats.json

/// Costs that another tool has stated, on ops in no region, whose nodes have the names of the ops. Ops of equal cost are
/// counted by their own names. The band of a kernel without a class or without a shared part is shared with its estimator:
/// 20 and 10. A low end of zero is 10 away from its time, in both parts: 174 less the root of 30^2 + 10^2 + 10^2.

// TRACE: 1 COMP 'tanh' 0us
// TRACE-NEXT: 2 COMP 'sine' 0us after 1
// CHECK: "totals": {"count": 5, "time_ns": 174.0, {{.*}}"low_ns": 140.833752{{[0-9]*}}, "high_ns": 204.0,
// CHECK: "utilisation": null,
// CHECK-DAG: "stablehlo.abs": {"count": 1, "time_ns": 7.0,
// CHECK-DAG: "stablehlo.negate": {"count": 1, "time_ns": 7.0,
// CHECK: "regions": [],
// CHECK: "reuse": {"regions": 0, "distinct_regions": 0, "basic_block_reuse_rate": 0.0, "ops": 0, "distinct_ops": 0, "operator_reuse_factor": 0.0},
// CHECK: "communicators": {},
module attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 120.0 : f64, kernel_class = "stream", latency_ns = 100.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64, low_ns = 80.0 : f64}} : tensor<4xf32>
    %1 = stablehlo.sine %0 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 60.0 : f64, latency_ns = 50.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64, low_ns = 40.0 : f64, shared_high_ns = 55.0 : f64, shared_low_ns = 45.0 : f64}} : tensor<4xf32>
    %2 = stablehlo.cosine %1 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 10.0 : f64, kernel_class = "product.f32", latency_ns = 10.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64, low_ns = 0.0 : f64, shared_high_ns = 10.0 : f64, shared_low_ns = 0.0 : f64}} : tensor<4xf32>
    %3 = stablehlo.abs %2 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, latency_ns = 7.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}} : tensor<4xf32>
    %4 = stablehlo.negate %3 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, latency_ns = 7.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}} : tensor<4xf32>
    return %4 : tensor<4xf32>
  }
}
