// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --stablehlo-legalize-to-hlo --emit-chakra=output=%t --disable-output
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t.as-it-is --disable-output
// RUN: cmp %t/dev.1.et %t.as-it-is/dev.1.et

/// A tool may convert ops to mhlo between our passes: the barrier at which a collective must have finished is still one.

module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64x64xf32>) -> (tensor<128x64xf32>, tensor<64x64xf32>) {
    %0 = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<64x64xf32>):
      %g = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64x64xf32>) -> tensor<128x64xf32>
      stablehlo.return %g : tensor<128x64xf32>
    }) : (tensor<64x64xf32>) -> !stablehlo.future<tensor<128x64xf32>>
    %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<128x64xf32>>) -> tensor<128x64xf32>
    %3 = stablehlo.tanh %2 : tensor<128x64xf32>
    return %3, %1 : tensor<128x64xf32>, tensor<64x64xf32>
  }
}
