// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --split-input-file --verify-diagnostics

/// What runs and has no work of its own must be control flow or a call.

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{builtin.module has no work: walk into its bodies, or simulate it}}
  builtin.module {
  }
  return %x : tensor<8xf32>
}
