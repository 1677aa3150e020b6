// RUN: hespas-opt %s --split-linear --split-linear | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --split-linear | filecheck %s --check-prefix=COSTS
// RUN: not hespas-opt %s --split-linear --split-linear=separator=reduce 2>&1 | filecheck %s --check-prefix=OTHER

/// An equal split again changes nothing, costs included; another split is an error.

// CHECK: hespas.split = {strategy = "linear"}
// CHECK: call @region_0(
// CHECK-NOT: call
// CHECK: func.func private @region_0(
// CHECK-NOT: func.func
// COSTS: call @region_0({{.*}}hespas.cost
// OTHER: error: 'builtin.module': split-linear: the module is already split by split-linear; run unsplit first
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
