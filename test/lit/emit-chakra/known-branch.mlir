// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output 2>&1 | filecheck %s --allow-empty --check-prefix=SAYS
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json

/// No warning says that data selects a branch which the IR or somebody has named. A branch has no gap, though its kernels
/// are in a region.

// SAYS-NOT: run time
// CHECK: COMM_COLL 'all_gather.0' {{.*}}comm_size=256
// CHECK: COMM_COLL 'all_gather.1' {{.*}}comm_size=128
// CHECK-NOT: COMM_COLL
// STATS: "gaps": 0}
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%p: tensor<i1>, %x: tensor<64xf32>, %y: tensor<32xf32>) -> (tensor<128xf32>, tensor<64xf32>) {
    %yes = stablehlo.constant dense<true> : tensor<i1>
    %0 = "stablehlo.if"(%yes) ({
      %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
      stablehlo.return %1 : tensor<128xf32>
    }, {
      %1 = stablehlo.constant dense<0.0> : tensor<128xf32>
      stablehlo.return %1 : tensor<128xf32>
    }) : (tensor<i1>) -> tensor<128xf32>
    %2 = "stablehlo.if"(%p) ({
      %3 = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<32xf32>) -> tensor<64xf32>
      stablehlo.return %3 : tensor<64xf32>
    }, {
      %3 = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<32xf32>) -> tensor<64xf32>
      %4 = stablehlo.tanh %3 : tensor<64xf32>
      stablehlo.return %4 : tensor<64xf32>
    }) {hespas.branch = 0 : i64} : (tensor<i1>) -> tensor<64xf32>
    %5 = "stablehlo.if"(%p) ({
      %6 = stablehlo.sine %2 : tensor<64xf32>
      stablehlo.return %6 : tensor<64xf32>
    }, {
      stablehlo.return %2 : tensor<64xf32>
    }) : (tensor<i1>) -> tensor<64xf32>
    %7 = stablehlo.negate %5 : tensor<64xf32>
    return %0, %7 : tensor<128xf32>, tensor<64xf32>
  }
}
