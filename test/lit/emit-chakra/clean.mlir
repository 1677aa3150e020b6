// RUN: rm -rf %t && hespas-opt %s --xla-optimize=target=cpu,keep-hlo=%t --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t -o %t.mlir && ls %t | filecheck %s
// RUN: hespas-opt %t.mlir --emit-chakra=output=%t,clean --disable-output && ls %t | filecheck %s --check-prefix=CLEAN

/// The other results of hespas in the folder are removed only on request.

// CHECK: dev.0.et
// CHECK: hlo.hlo
// CLEAN: dev.0.et
// CLEAN-NOT: hlo.hlo
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = stablehlo.tanh %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}
