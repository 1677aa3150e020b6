// RUN: not hespas-opt %s --op-stats --disable-output 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare=partition=false --op-stats --disable-output 2>&1 | filecheck %s --check-prefix=LOCAL
// RUN: not hespas show %s 2>&1 | filecheck %s
// RUN: not hespas-opt %s --refresh-costs 2>&1 | filecheck %s

/// Whoever reads a prepared program sees what another pass has changed in it since, also without an annotation.

// CHECK: prepared.mlir:14:10: error: 'stablehlo.tanh': the op has a sharding that was written after prepare
// CHECK-NOT: Unique Operators
// LOCAL: stablehlo.tanh................:     1
module attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // The cost is of another tool.
    %0 = stablehlo.tanh %x {mhlo.sharding = "{devices=[4,1]<=[4]}", hespas.cost = {estimator = "acme", flops = 64 : i64, latency_ns = 10.0 : f64, read_bytes = 256 : i64, write_bytes = 256 : i64}} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
