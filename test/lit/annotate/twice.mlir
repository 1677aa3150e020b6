// RUN: hespas-opt %s --annotate=node=A100_SXM_40GB --annotate | filecheck %s
// RUN: hespas-opt %s --annotate=node=A100_SXM_40GB --annotate=estimator=calibrated | filecheck %s --check-prefix=OTHER
// RUN: hespas-opt %s --annotate="node=A100_SXM_40GB keep-going" 2>&1 | filecheck %s --check-prefix=GAP

/// The second time the node is that of the module; another estimator replaces all costs.

// CHECK: node = "A100_SXM_40GB"
// CHECK: latency_ns = 5.268{{.*}}
// OTHER: estimator = "calibrated {{[0-9]+}}", {{.*}}node = "A100_SXM_40GB"
// OTHER-NOT: estimator = "roofline"
// GAP: pipeline = "roofline-annotate{node=A100_SXM_40GB keep-going}"
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %x : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
