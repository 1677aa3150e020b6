// RUN: hespas-opt %s --refresh-costs --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --refresh-costs --refresh-costs --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --refresh-costs --split-input-file | hespas-opt --refresh-costs --split-input-file | filecheck %s --check-prefix=AGAIN

/// A cost that somebody has stated stays when other ops are estimated again: of an op, also one that hespas has no rule for, of
/// a free op, of a loop whose ops have none, and of calls of a function without any. Sums follow.

// CHECK: @region_0 ({{.*}}) changed after the annotation: estimated again by roofline-annotate{node=A100_SXM_40GB}
// CHECK: changed after the annotation: estimated again by
// CHECK-LABEL: module @ops
// CHECK: call @region_0({{.*}}estimator = "mine+roofline"{{.*}}latency_ns = 1160.0
// CHECK: stablehlo.exponential {{.*}}estimator = "roofline"
// CHECK: stablehlo.custom_call @kernel{{.*}}estimator = "mine", {{.*}}latency_ns = 1.100000e+03
// CHECK: stablehlo.reshape {{.*}}estimator = "mine", {{.*}}latency_ns = 6.000000e+01
// AGAIN-LABEL: module @ops
// AGAIN: estimator = "mine+roofline"{{.*}}latency_ns = 1160.0
module @ops attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8x1xf32> {
    %0 = call @region_0(%x) {hespas.region = {digest = "0", id = 0 : i64, ops = 3 : i64}} : (tensor<8xf32>) -> tensor<8x1xf32>
    return %0 : tensor<8x1xf32>
  }
  func.func private @region_0(%x: tensor<8xf32>) -> tensor<8x1xf32> attributes {hespas.region = {digest = "0", id = 0 : i64, ops = 3 : i64}} {
    %0 = stablehlo.exponential %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : tensor<8xf32>
    %1 = stablehlo.custom_call @kernel(%0) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 1100.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = stablehlo.reshape %1 {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 60.0 : f64}} : (tensor<8xf32>) -> tensor<8x1xf32>
    return %2 : tensor<8x1xf32>
  }
}

// -----

// CHECK-LABEL: module @whole
// CHECK: stablehlo.tanh {{.*}}estimator = "roofline"
// CHECK: call @f({{.*}}estimator = "mine", {{.*}}latency_ns = 2.000000e+02
// CHECK: stablehlo.while{{.*}}estimator = "mine", {{.*}}latency_ns = 4.000000e+02
// CHECK: stablehlo.negate %{{[A-Za-z0-9_]+}} : tensor
// CHECK: func.func private @f
// CHECK-NEXT: stablehlo.sine %arg0 :
// AGAIN-LABEL: module @whole
module @whole attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = call @f(%0) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = call @f(%1) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    %3:2 = stablehlo.while(%i = %zero, %v = %2) : tensor<i32>, tensor<8xf32> attributes {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 400.0 : f64}}
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.negate %v : tensor<8xf32>
      stablehlo.return %j, %n : tensor<i32>, tensor<8xf32>
    }
    return %3#1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// A function that somebody has estimated as a whole.

// CHECK-LABEL: module @function
// CHECK: call @f({{.*}}estimator = "mine", {{.*}}latency_ns = 3.000000e+02
// CHECK: func.func private @f({{.*}}estimator = "mine", {{.*}}latency_ns = 3.000000e+02
// CHECK-NEXT: stablehlo.sine %arg0 :
module @function attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 300.0 : f64}} {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
