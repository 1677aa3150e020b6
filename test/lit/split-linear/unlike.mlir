// RUN: hespas-opt %s --split-linear=block-limit=2 --split-input-file | filecheck %s

/// Regions of equal ops do not share a function if an attribute tells something of one of them: a cost that another tool
/// has stated,

// CHECK-LABEL: module @stated_costs
// CHECK: call @region_0({{.*}}latency_ns = 5.000000e+00
// CHECK: call @region_0({{.*}}latency_ns = 5.000000e+00
// CHECK: call @region_2({{.*}}latency_ns = 9.000000e+00
module @stated_costs {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "other", flops = 0 : i64, latency_ns = 2.0 : f64, read_bytes = 0 : i64, write_bytes = 0 : i64}} : tensor<8xf32>
    %1 = stablehlo.negate %0 {hespas.cost = {estimator = "other", flops = 0 : i64, latency_ns = 3.0 : f64, read_bytes = 0 : i64, write_bytes = 0 : i64}} : tensor<8xf32>
    %2 = stablehlo.tanh %1 {hespas.cost = {estimator = "other", flops = 0 : i64, latency_ns = 2.0 : f64, read_bytes = 0 : i64, write_bytes = 0 : i64}} : tensor<8xf32>
    %3 = stablehlo.negate %2 {hespas.cost = {estimator = "other", flops = 0 : i64, latency_ns = 3.0 : f64, read_bytes = 0 : i64, write_bytes = 0 : i64}} : tensor<8xf32>
    %4 = stablehlo.tanh %3 {hespas.cost = {estimator = "other", flops = 0 : i64, latency_ns = 6.0 : f64, read_bytes = 0 : i64, write_bytes = 0 : i64}} : tensor<8xf32>
    %5 = stablehlo.negate %4 {hespas.cost = {estimator = "other", flops = 0 : i64, latency_ns = 3.0 : f64, read_bytes = 0 : i64, write_bytes = 0 : i64}} : tensor<8xf32>
    return %5 : tensor<8xf32>
  }
}

// -----

/// that XLA computes it again,

// CHECK-LABEL: module @recomputed
// CHECK: call @region_0(
// CHECK: call @region_1(
// CHECK: func.func private @region_1(
// CHECK-NEXT: stablehlo.tanh {{.*}}hespas.recomputed = "tanh.1"
module @recomputed {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.negate %0 : tensor<8xf32>
    %2 = stablehlo.tanh %1 {hespas.recomputed = "tanh.1"} : tensor<8xf32>
    %3 = stablehlo.negate %2 {hespas.recomputed = "negate.1"} : tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}

// -----

/// or that its trip count is assumed, where the other one's is stated.

// CHECK-LABEL: module @assumed
// CHECK: call @region_0(
// CHECK: call @region_1(
// CHECK: func.func private @region_0(
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count from the module"
// CHECK: func.func private @region_1(
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @assumed {
  func.func @main(%p: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1:2 = stablehlo.while(%q = %p, %v = %0) : tensor<i1>, tensor<8xf32> attributes {hespas.trips = 1 : i64}
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %n = stablehlo.negate %v : tensor<8xf32>
      stablehlo.return %q, %n : tensor<i1>, tensor<8xf32>
    }
    %2 = stablehlo.tanh %1#1 : tensor<8xf32>
    %3:2 = stablehlo.while(%q = %p, %v = %2) : tensor<i1>, tensor<8xf32>
     cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %n = stablehlo.negate %v : tensor<8xf32>
      stablehlo.return %q, %n : tensor<i1>, tensor<8xf32>
    }
    return %3#1 : tensor<8xf32>
  }
}
