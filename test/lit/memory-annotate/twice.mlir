// RUN: hespas-opt %s --memory-annotate --memory-annotate | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --memory-annotate | filecheck %s --check-prefix=COSTS

/// The pass writes one attribute on the module, again the second time, and keeps costs and regions.

// CHECK: module attributes {{{.*}}hespas.memory = {
// CHECK-SAME: peak_bytes = 8192 : i64
// CHECK-NOT: hespas.memory
// COSTS: peak_bytes = 8192 : i64
// COSTS: call @region_0({{.*}}hespas.cost
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %x : tensor<1024xf32>
  %1 = stablehlo.negate %0 : tensor<1024xf32>
  return %1 : tensor<1024xf32>
}
