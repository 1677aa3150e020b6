// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --verify-diagnostics
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB | hespas-opt --roofline-annotate=node=A100_SXM_40GB 2>&1 | filecheck %s

/// An annotate pass names calls, branches and functions, too, whose stated costs it replaces; sums of its own are none. A call
/// that is inlined is named before.

// CHECK-NOT: replaces
// CHECK: call @g({{.*}}estimator = "roofline"
// CHECK: func.func private @h
// CHECK-NEXT: stablehlo.rsqrt {{.*}}estimator = "roofline"
// CHECK-NOT: mine
func.func @main(%x: tensor<8xf32>, %p: tensor<i32>) -> tensor<8xf32> {
  // expected-warning @+1 {{is inlined: the cost that 'mine' states for it does not count}}
  %0 = call @f(%x) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @+1 {{roofline replaces costs that were stated}}
  %1 = func.call @g(%0) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = func.call @g(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %5 = func.call @h(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = func.call @h(%5) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = "stablehlo.case"(%p) ({
    %4 = stablehlo.tanh %6 : tensor<8xf32>
    stablehlo.return %4 : tensor<8xf32>
  }) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : (tensor<i32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> attributes {no_inline} {
  %0 = stablehlo.sine %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @g(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.cosine %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @h(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 300.0 : f64}} {
  %0 = stablehlo.rsqrt %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
