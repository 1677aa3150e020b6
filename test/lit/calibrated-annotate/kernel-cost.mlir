// RUN: hespas-opt %s --calibrated-annotate="node=H100_80GB kernel-cost=mystery=5e9:64" 2>&1 | filecheck %s
// RUN: not hespas-opt %s --calibrated-annotate=node=H100_80GB 2>&1 | filecheck %s --check-prefix=UNKNOWN

/// The declared work of a call has a time and a band. Its operations are named as known by their number only.

// CHECK: warning: the operations of mystery are declared without the shapes of their products: they count at the rate of large products, so the time is a lower bound
// CHECK: pipeline = "calibrated-annotate{node=H100_80GB kernel-cost=
// CHECK: stablehlo.custom_call @mystery{{.*}}flops = 5000000000 : i64, high_ns = {{.*}}kernel_class = "stream.loop", {{.*}}low_ns = {{.*}}tag = "assumed
// UNKNOWN: error: 'stablehlo.custom_call': {{.*}}mystery
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @mystery(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
