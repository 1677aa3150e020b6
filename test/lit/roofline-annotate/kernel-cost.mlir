// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 kernel-cost=mystery=5000:64" | filecheck %s
// RUN: not hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" 2>&1 | filecheck %s --check-prefix=UNKNOWN

/// The declared work of a call has a time by the rates of the node.

// CHECK: stablehlo.custom_call @mystery{{.*}}bound = "compute", {{.*}}flops = 5000 : i64, {{.*}}latency_ns = 5.000000e+00 : f64
// UNKNOWN: error: 'stablehlo.custom_call': {{.*}}mystery
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @mystery(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
