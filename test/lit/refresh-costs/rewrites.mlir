// RUN: hespas-opt %s --refresh-costs --split-input-file 2>&1 | filecheck %s

/// A rewrite has copied the cost of another op, and made an op without a cost: the module is
/// annotated again by the pass that hespas.target names.
// CHECK: stablehlo.add ({{.*}}rewrites.mlir:14:{{[0-9]+}}), stablehlo.tanh ({{.*}}rewrites.mlir:17:{{[0-9]+}}) changed after the annotation: estimated again by roofline-annotate{node=A100_SXM_40GB memory-bandwidth=1000000000.0}
// CHECK: hespas.target = {{.*}}pipeline = "roofline-annotate{node=A100_SXM_40GB memory-bandwidth=1000000000.0}"
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64,
    node = "A100_SXM_40GB", node_overrides = "memory-bandwidth=1000000000.0",
    estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB memory-bandwidth=1e9}"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // CHECK: stablehlo.add {{.*}}latency_ns = {{96|9.60*e}}
    %0 = stablehlo.add %x, %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64,
      latency_ns = 64.0 : f64, bound = "memory", dtype = "none", digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    // CHECK: stablehlo.tanh {{.*}}latency_ns = {{64|6.40*e}}
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
