// RUN: hespas-opt %s --split-individual=merge --split-individual=merge | filecheck %s
// RUN: not hespas-opt %s --split-individual=merge --split-individual 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: hespas-opt %s --split-individual --split-individual=merge | filecheck %s --check-prefix=UNMARKED
// RUN: hespas-opt %s --split-linear --inline --symbol-dce --split-individual | filecheck %s --check-prefix=INLINED

/// An equal split again changes nothing; a module with functions of regions is not split otherwise.

// CHECK: hespas.split = {merge = true, strategy = "individual"}
// CHECK: call @region_0(
// CHECK-NOT: call
// CHECK: func.func private @region_0(
// CHECK-NOT: func.func
// OTHER: error: 'builtin.module': split-individual: the module is already split by split-individual; run unsplit first
/// Without functions of regions there is nothing to undo.
// UNMARKED: call @region_0({{.*}}ops = 2
/// Another pass may have inlined the functions.
// INLINED: hespas.split = {strategy = "individual"}
// INLINED: stablehlo.tanh {{.*}}hespas.region = {{.*}}id = {{[0-9]+}} : i64}
// INLINED-NOT: func.func
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
