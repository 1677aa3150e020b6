// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --emit-chakra=output=%t | filecheck %s
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=TRACE

/// The pass does not change the module, and a second run replaces the traces of the first.

// CHECK: stablehlo.tanh %{{.*}} {hespas.cost = {{{.*}}}, hespas.region = {{{.*}}}} : tensor<64xf32>
// TRACE: 1 COMP
// TRACE-NOT: COMP
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = stablehlo.tanh %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}
