// RUN: hespas-opt %s --inline-calls --verify-diagnostics
// RUN: hespas-opt %s --inline-calls 2>&1 | filecheck %s

/// A cost that is stated for a call is lost when the call is inlined, with a warning.

// CHECK: stablehlo.sine
// CHECK-NOT: hespas.cost
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-warning @+1 {{is inlined: the cost that 'mine' states for it does not count}}
  %0 = call @f(%x) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.sine %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
