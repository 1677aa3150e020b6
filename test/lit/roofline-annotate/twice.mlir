// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --roofline-annotate | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --roofline-annotate=node=H100_80GB | filecheck %s --check-prefix=OTHER
// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_80GB --roofline-annotate | filecheck %s --check-prefix=REPLACED

/// The second time the node is that of the module, unless another is named; costs are replaced whole.

// CHECK: node = "A100_SXM_40GB"
// CHECK: latency_ns = 5.268{{[0-9]*}} : f64
// OTHER: node = "H100_80GB"
// OTHER-NOT: latency_ns = 5.268
// REPLACED: estimator = "roofline 1", {{.*}}node = "A100_SXM_80GB"
// REPLACED-NOT: low_ns
// REPLACED: estimator = "roofline"
func.func @main(%a: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %a : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
