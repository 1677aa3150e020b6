// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --strip-costs | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --strip-costs --calibrated-annotate | filecheck %s --check-prefix=AGAIN

/// Costs, and what they were made with, are removed; the regions and the node stay.
// CHECK: hespas.split = {
// CHECK-SAME: hespas.target = {devices = 1 : i64, node = "H100_80GB", partitions = 1 : i64, replicas = 1 : i64}
// CHECK-NOT: hespas.cost
// CHECK: call @region_0(%arg0) {hespas.region = {digest = "{{[0-9a-f]+}}", id = 0 : i64, ops = 2 : i64}}

/// The next annotate pass uses the node.
// AGAIN: estimator = "calibrated {{[0-9]+}}", {{.*}}job_devices = 1 : i64, node = "H100_80GB"
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = stablehlo.tanh %x : tensor<512x512xf32>
  %1 = stablehlo.add %0, %0 : tensor<512x512xf32>
  return %1 : tensor<512x512xf32>
}
