// RUN: rm -rf %t && hespas run --mlir %s --form as-is --node A100_SXM_40GB --output %t && ls %t/run.json
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output && ls %t/run.json
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t,clean --disable-output && not ls %t/run.json

/// The other results of hespas in the folder are removed only on request.

func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = stablehlo.tanh %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}
