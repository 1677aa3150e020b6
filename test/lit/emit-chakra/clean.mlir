// RUN: rm -rf %t && hespas-opt %s "--xla-optimize=target=cpu keep-hlo=%t" --disable-output && touch %t/notes
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output && ls %t/dev.0.et %t/*.hlo* %t/notes
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t,clean --disable-output && ls %t/dev.0.et %t/notes && not ls %t/*.hlo*

/// What else hespas has written to the folder stays, unless the folder is to be cleaned; what it has not
/// written stays always.

module {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = stablehlo.tanh %x : tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}
