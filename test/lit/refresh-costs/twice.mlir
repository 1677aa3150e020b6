// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --refresh-costs --refresh-costs 2>&1 | filecheck %s
// RUN: not hespas-opt %s --prepare --refresh-costs 2>&1 | filecheck %s --check-prefix=NONE

/// Costs that are up to date stay, without a word; one that was never annotated is not.

// CHECK-NOT: changed after
// CHECK: stablehlo.tanh {{.*}}latency_ns = 5.268
// NONE: error: 'stablehlo.tanh': the op has no hespas.cost; run an annotate pass first
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %x : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
