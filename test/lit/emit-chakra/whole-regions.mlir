// RUN: hespas-opt %s --emit-chakra=output=%t --disable-output
// RUN: filecheck %s --input-file %t/module_stats.json

/// A region that another tool has measured as a whole is one op of the statistics, which runs as often as it is called.

// CHECK: "totals": {"count": 2, "time_ns": 80.0, "flops": 10,
// CHECK: "kinds": {
// CHECK-NEXT: "func.call": {"count": 2, "time_ns": 80.0, "flops": 10,
// CHECK-NEXT: }
// CHECK: {"id": 0, {{.*}}"name": "region_0", "ops": 2, "regions": 2, "runs": 2, "time_ns": 40.0, {{.*}}"bound": "memory", "dtype": "f32", "gap": null}
module attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @region_0(%x) {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 5 : i64, latency_ns = 40.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}, hespas.region = {digest = "0123456789abcdef", id = 0 : i64, ops = 2 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @region_0(%0) {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 5 : i64, latency_ns = 40.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}, hespas.region = {digest = "0123456789abcdef", id = 1 : i64, ops = 2 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @region_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 5 : i64, latency_ns = 40.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}, hespas.region = {digest = "0123456789abcdef", id = 0 : i64, ops = 2 : i64}} {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    %1 = stablehlo.negate %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
