// RUN: hespas-opt %s --refresh-costs --split-input-file --verify-diagnostics

/// Without an annotate pass in hespas.target, a cost that is missing or stale is an error.
module attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{the op has no hespas.cost; run an annotate pass first, e.g. roofline-annotate}}
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Estimators that measure do not run unasked.
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, estimator = "xla 1", pipeline = "xla-annotate"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is stale: the op changed after the annotation; run xla-annotate again: an estimator that measures does not run unasked}}
    %0 = stablehlo.add %x, %x {hespas.cost = {estimator = "xla", flops = 8 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64,
      latency_ns = 64.0 : f64, bound = "measured", dtype = "f32", digest = "0123456789abcdef_01234567"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// So are costs whose digests are those of an older version.
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, estimator = "xla 1", pipeline = "xla-annotate"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is stale: the op had costs of another version of hespas; run xla-annotate again}}
    %0 = stablehlo.add %x, %x {hespas.cost = {estimator = "xla", flops = 8 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64,
      latency_ns = 64.0 : f64, bound = "measured", dtype = "f32", digest = "0123456789abcdef"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
