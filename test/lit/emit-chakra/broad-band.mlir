// RUN: hespas-opt %s --emit-chakra=output=%t --disable-output
// RUN: filecheck %s --input-file %t/module_stats.json

/// A kernel whose shared error and own error are together larger than its time: the low end is no negative time.

// CHECK: "low_ns": 0.0, "high_ns": 100.0,
module attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 100.0 : f64, kernel_class = "stream", latency_ns = 100.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64, low_ns = 1.0 : f64, shared_high_ns = 100.0 : f64, shared_low_ns = 10.0 : f64}} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
