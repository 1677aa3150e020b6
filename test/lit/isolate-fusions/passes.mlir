// RUN: hespas-opt %s --fuse --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t.plain --disable-output
// RUN: hespas-opt %s --fuse --canonicalize --cse --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t.before --disable-output
// RUN: hespas-opt %s --fuse --split-linear --roofline-annotate=node=A100_SXM_40GB --cse --canonicalize --emit-chakra=output=%t.after --disable-output
// RUN: diff %t.plain/dev.0.et %t.before/dev.0.et
// RUN: diff %t.plain/dev.0.et %t.after/dev.0.et
// RUN: hespas-opt %s --fuse --canonicalize | filecheck %s

/// Passes of MLIR between ours move constants out of the kernels; traces are those of the program without them.

// CHECK: stablehlo.constant
// CHECK: mhlo.fusion
func.func @main(%x: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<128x128xf32>
  %one = stablehlo.constant dense<1.0> : tensor<128x128xf32>
  %0 = stablehlo.tanh %x : tensor<128x128xf32>
  %1 = stablehlo.add %0, %one : tensor<128x128xf32>
  %2 = stablehlo.multiply %1, %half : tensor<128x128xf32>
  %3 = stablehlo.dot %2, %x : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %4 = stablehlo.add %3, %one : tensor<128x128xf32>
  %5 = stablehlo.tanh %4 : tensor<128x128xf32>
  return %5 : tensor<128x128xf32>
}
