// RUN: hespas-opt %s --calibrated-annotate="node=H100_80GB kernel-cost=mystery=5e9:64" | filecheck %s
// RUN: not hespas-opt %s --calibrated-annotate=node=H100_80GB 2>&1 | filecheck %s --check-prefix=UNKNOWN

/// The declared work of a call has a time and a band.

// CHECK: pipeline = "calibrated-annotate{node=H100_80GB kernel-cost=
// CHECK: stablehlo.custom_call @mystery{{.*}}flops = 5000000000 : i64, high_ns = {{.*}}low_ns =
// UNKNOWN: error: 'stablehlo.custom_call': {{.*}}mystery
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @mystery(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
