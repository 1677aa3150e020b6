// RUN: not hespas-opt %s --partition 2>&1 | filecheck %s
// RUN: hespas-opt %s --strip-costs --partition | filecheck %s --check-prefix STRIPPED

/// A cost is that of one device. What XLA's partitioner makes of the op has another one.

// CHECK: costs.mlir:12:10: error: 'stablehlo.custom_call': hespas.cost is the cost of an op on one device, and the shapes are global; run --prepare before costs are written; state the work of a custom call on one device in hespas.kernel_cost; or remove the costs with --strip-costs
// CHECK-NOT: func.func

// STRIPPED: stablehlo.custom_call @acme_kernel
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<8x8xf32> {
    %0 = stablehlo.custom_call @acme_kernel(%x) {hespas.cost = {estimator = "acme", flops = 1 : i64, read_bytes = 1 : i64, write_bytes = 1 : i64, latency_ns = 3.0 : f64}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
