// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB --calibrated-annotate | filecheck %s
// RUN: hespas-opt %s --split-linear --calibrated-annotate=node=B200_180GB | filecheck %s --check-prefix=REGION

/// The second time the node is that of the module, and the costs are the same; a region's cost is the
/// sum, band included.

// CHECK: estimator = "calibrated {{[0-9]+}}", {{.*}}node = "B200_180GB"
// CHECK: stablehlo.tanh {{.*}}latency_ns = [[T:[0-9.]+]]
// CHECK: stablehlo.tanh {{.*}}latency_ns = [[T]]
// REGION: call @region_0({{.*}}hespas.cost = {estimator = "calibrated", {{.*}}high_ns = {{.*}}low_ns =
func.func @main(%a: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %a : tensor<1024xf32>
  %1 = stablehlo.tanh %0 : tensor<1024xf32>
  return %1 : tensor<1024xf32>
}
