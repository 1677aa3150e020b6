// RUN: rm -rf %t
// RUN: not hespas-opt %s --emit-chakra=output=%t 2>&1 | filecheck %s
// RUN: not ls %t

/// A time that no node can hold: the trace could not be read back.

// CHECK: too-long.mlir:[[# @LINE + 7]]:10: error: 'stablehlo.tanh': hespas.cost: the time is 1e+300 ns; a node of a trace can hold at most 9e+15 ns (104 days)
module attributes {
  hespas.communicators = {},
  hespas.split = {strategy = "individual"},
  hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "other", flops = 0 : i64, latency_ns = 1.0e300 : f64, read_bytes = 32 : i64, write_bytes = 32 : i64}, hespas.region = {digest = "", id = 0 : i64, ops = 1 : i64}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
