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
      latency_ns = 64.0 : f64, bound = "measured", dtype = "f32", digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
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

// -----

/// An estimator of the name must be there,
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, estimator = "mystery 1", pipeline = "mystery-annotate"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is stale: the op changed after the annotation, and no estimator is named 'mystery'}}
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// in the version that has written the costs.
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, estimator = "roofline 0", pipeline = "roofline-annotate"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is stale: the op changed after the annotation; run roofline-annotate again: version 0 wrote the costs, and 1 is installed}}
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// A pass that is none of an estimator cannot run again.
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, estimator = "roofline 1", pipeline = "cse"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is stale: the op changed after the annotation; run roofline-annotate again}}
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Nor can that of another estimator.
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, estimator = "roofline 1", pipeline = "calibrated-annotate"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is stale: the op changed after the annotation; run roofline-annotate again: hespas.target names another pass than that of roofline}}
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// A module cannot load code, which rules are.
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, estimator = "roofline 1", pipeline = "roofline-annotate{kernel-cost=elsewhere.py}"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is stale: the op changed after the annotation; run roofline-annotate again with kernel-cost=elsewhere.py, whose rules hespas.target cannot load}}
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// It cannot name a node from anywhere either.
module attributes {
  hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, estimator = "roofline 1", pipeline = "roofline-annotate{node=/etc/elsewhere.json}"}
} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is stale: the op changed after the annotation; run roofline-annotate again: hespas.target names another pass than that of roofline}}
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// In a module that is not prepared, functions may call themselves or have no body, collectives have no devices, and loops no
/// trips.
module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{@f calls itself}}
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{the op has no hespas.cost; run an annotate pass first}}
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32>
}

// -----

module {
  func.func @main(%x: tensor<8xf32>) -> tensor<16xf32> {
    // expected-error @+1 {{the collective has no hespas.comm; run prepare first}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

module {
  func.func @main(%x: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
    // expected-error @+1 {{the op has no hespas.cost; run an annotate pass first}}
    %0:2 = stablehlo.while(%a = %x, %q = %p) : tensor<8xf32>, tensor<i1>
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      stablehlo.return %a, %q : tensor<8xf32>, tensor<i1>
    }
    return %0#0 : tensor<8xf32>
  }
}
