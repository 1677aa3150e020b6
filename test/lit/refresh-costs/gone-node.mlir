// RUN: not hespas-opt %s --refresh-costs 2>&1 | filecheck %s

/// The pass that hespas.target names reads a file of a node again: it must still be there.
// CHECK: stablehlo.tanh ({{.*}}gone-node.mlir:11:{{[0-9]+}}) changed after the annotation: estimated again by roofline-annotate{node=gone.json}
// CHECK: gone.json: error: cannot read it: No such file or directory
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64,
    estimator = "roofline 1", pipeline = "roofline-annotate{node=gone.json}"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
