// RUN: hespas-opt %s --split-linear --split-linear | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --split-linear | filecheck %s --check-prefix=COSTS
// RUN: hespas-opt %s --split-individual --split-linear | filecheck %s --check-prefix=MARKED
// RUN: not hespas-opt %s --split-linear --split-linear=separator=reduce 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not hespas-opt %s --split-linear=block-limit=2 --split-linear=block-limit=1 2>&1 | filecheck %s --check-prefix=OTHER

/// An equal split again changes nothing, costs included; another split is an error, unless the first one has made
/// no functions: its marks go.

// CHECK: hespas.split = {strategy = "linear"}
// CHECK: call @region_0(
// CHECK-NOT: call
// CHECK: func.func private @region_0(
// CHECK-NOT: func.func
// COSTS: call @region_0({{.*}}hespas.cost
// MARKED: hespas.split = {strategy = "linear"}
// MARKED: call @region_0({{.*}}ops = 2
// MARKED: func.func private @region_0
// MARKED-NEXT: stablehlo.tanh %arg0 :
// OTHER: error: 'builtin.module': split-linear: the module is already split by split-linear; run unsplit first
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
