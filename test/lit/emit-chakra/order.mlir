// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t 2>&1 | filecheck %s --check-prefix=SPLIT
// RUN: not hespas-opt %s --split-linear --emit-chakra=output=%t 2>&1 | filecheck %s --check-prefix=COST

/// A wrong order names the missing pass.

// SPLIT: order.mlir:[[# @LINE + 3]]:1: error: 'builtin.module': emit-chakra: the module is not split; run split-linear or split-individual first
// COST: error: 'stablehlo.tanh': the op has no hespas.cost; run an annotate pass first, e.g. roofline-annotate

module {
  func.func public @main(%x: tensor<32xf32>) -> tensor<32xf32> {
    %b = stablehlo.tanh %x : tensor<32xf32>
    return %b : tensor<32xf32>
  }
}
