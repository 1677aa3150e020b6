// RUN: not hespas-opt %s --split-input-file --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t.traces 2>&1 | filecheck %s
// RUN: not hespas-opt %s --split-input-file --op-stats=output=%t.txt 2>&1 | filecheck %s --check-prefix=STATS
// RUN: not ls %t.traces
// RUN: not ls %t.txt
// RUN: hespas-opt %s --split-input-file --op-stats=output=- --disable-output | filecheck %s --check-prefix=STDOUT

/// The traces of a part would replace those of the part before.
// CHECK: error: --split-input-file: emit-chakra would replace the files of each part by those of the next; run the parts one by one
// STATS: error: --split-input-file: op-stats would replace the files of each part by those of the next
// STDOUT: stablehlo.tanh
// STDOUT: stablehlo.sine
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// -----
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.sine %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
