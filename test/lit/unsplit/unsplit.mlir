// RUN: hespas-opt %s --split-linear=block-limit=2 --unsplit | filecheck %s
// RUN: hespas-opt %s --split-linear --split-linear | filecheck %s --check-prefix=TWICE
// RUN: hespas-opt %s --split-linear --unsplit --split-individual | filecheck %s --check-prefix=AGAIN
// RUN: hespas-opt %s --split-individual --unsplit | filecheck %s
// RUN: hespas-opt %s --unsplit | filecheck %s --check-prefix=PLAIN
// RUN: not hespas-opt %s --split-linear --split-individual 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not hespas-opt %s --split-linear --split-linear=block-limit=1 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not hespas-opt %s --split-linear --fuse 2>&1 | filecheck %s --check-prefix=FUSE

/// The module is as it was before the split: one function, no regions.
// CHECK-NOT: hespas.split
// CHECK-NOT: hespas.region
// CHECK: func.func @main
// CHECK-NEXT: stablehlo.add
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: stablehlo.negate
// CHECK-NEXT: return
// CHECK-NOT: func.func

/// An equal split does nothing; without functions of regions a module can be split again.
// TWICE: hespas.split = {{{.*}}strategy = "linear"
// TWICE: call @region_0
// TWICE-NOT: call
// AGAIN: hespas.split = {{{.*}}strategy = "individual"
// AGAIN: stablehlo.add {{.*}}id = 0
// AGAIN: stablehlo.tanh {{.*}}id = 1
// AGAIN: stablehlo.negate {{.*}}id = 2
// AGAIN-NOT: region_0
// PLAIN: stablehlo.add

// OTHER: error: 'builtin.module': split-{{[a-z]+}}: the module is already split by split-linear; run unsplit first
// FUSE: error: 'builtin.module': fuse: the module is already split by split-linear; run unsplit first

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  %1 = stablehlo.tanh %0 : tensor<8xf32>
  %2 = stablehlo.negate %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
