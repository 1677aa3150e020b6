// RUN: hespas-opt %s --refresh-costs --split-input-file 2>&1 | filecheck %s

/// Another tool may annotate calls only, and the ops that are always free; it need not annotate a function that is called.
/// Its costs are accepted, and a loop that it estimates is their sum.

// CHECK-NOT: added up
// CHECK: module @calls
// CHECK: call @f({{.*}}estimator = "mine"
// CHECK: stablehlo.reshape {{.*}}estimator = "mine"
// CHECK: stablehlo.while
// CHECK-SAME: hespas.cost = {estimator = "mine", flops = 0 : i64, latency_ns = 5.760000e+02
// CHECK: func.func private @f
// CHECK-NOT: hespas.cost
module @calls attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64}} {
  func.func @main(%x: tensor<8xf32>, %p: tensor<i1>) -> tensor<8x1xf32> {
    %0 = call @f(%x) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.reshape %0 {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : (tensor<8xf32>) -> tensor<8x1xf32>
    %2:2 = stablehlo.while(%a = %1, %q = %p) : tensor<8x1xf32>, tensor<i1> attributes {hespas.trips = 3 : i64}
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %3 = stablehlo.tanh %a {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : tensor<8x1xf32>
      %4 = stablehlo.sine %3 {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : tensor<8x1xf32>
      %5 = stablehlo.reshape %4 {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : (tensor<8x1xf32>) -> tensor<8x1xf32>
      stablehlo.return %5, %q : tensor<8x1xf32>, tensor<i1>
    }
    return %2#0 : tensor<8x1xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// It may estimate a loop or a function as a whole: then what is inside needs no cost. In a module that is not prepared a
/// loop has the cost that stands on it, because its trips are not known.

// CHECK: module @whole
// CHECK: stablehlo.while
// CHECK-SAME: estimator = "mine"
// CHECK: stablehlo.tanh %{{[a-zA-Z0-9_]*}} : 
module @whole attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64}} {
  func.func @main(%x: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
    %0:2 = stablehlo.while(%a = %x, %q = %p) : tensor<8xf32>, tensor<i1> attributes {hespas.trips = 3 : i64, hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}}
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %1 = stablehlo.tanh %a : tensor<8xf32>
      stablehlo.return %1, %q : tensor<8xf32>, tensor<i1>
    }
    return %0#0 : tensor<8xf32>
  }
}

// -----

// CHECK: module @unprepared
// CHECK: stablehlo.while
// CHECK-SAME: estimator = "mine"
// CHECK-NOT: estimator = "mine"
module @unprepared {
  func.func @main(%x: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
    %0:2 = stablehlo.while(%a = %x, %q = %p) : tensor<8xf32>, tensor<i1> attributes {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}}
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %1 = stablehlo.tanh %a : tensor<8xf32>
      stablehlo.return %1, %q : tensor<8xf32>, tensor<i1>
    }
    return %0#0 : tensor<8xf32>
  }
}

// -----

/// Free ops lose the costs that an annotate pass has given to another op.

// CHECK: module @free
// CHECK: stablehlo.reshape %{{[a-zA-Z0-9_]*}} :
module @free attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8x1xf32> {
    %0 = stablehlo.reshape %x {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : (tensor<8xf32>) -> tensor<8x1xf32>
    return %0 : tensor<8x1xf32>
  }
}
