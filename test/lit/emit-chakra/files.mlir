// RUN: rm -rf %t && mkdir -p %t/kept && hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t,stats=false --emit-chakra=output=%t/kept --disable-output
// RUN: ls %t/dev.0.et %t/dev.1.et %t/comm_group.json %t/kept/module_stats.json && not ls %t/module_stats.json && not ls %t/dev.2.et
// RUN: cat %t/comm_group.json | filecheck %s
// RUN: cd %t && hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra --disable-output 2>&1 | filecheck %s --check-prefix=NAMED
// RUN: ls %t/files/dev.0.et

/// One trace per device, the communicators, and the statistics unless they are not wanted; without a
/// folder they are in one with the name of the module.

// CHECK: {"1":[0,1]}
// NAMED: emit-chakra: traces in files (output=FOLDER chooses another)
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>) -> tensor<128xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
    return %0 : tensor<128xf32>
  }
}
