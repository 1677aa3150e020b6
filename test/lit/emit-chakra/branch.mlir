// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output 2>&1 | filecheck %s --check-prefix=SAYS
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// Of two branches that communicate, the trace has the one that sends most, and a warning says so.

// SAYS: warning: {{.*}}stablehlo.if ({{.*}}branch.mlir:{{[0-9]+:[0-9]+}}) contains collectives and selects its branch at run time: the trace contains branch 1
// CHECK: COMM_COLL 'all_gather.{{[01]}}' {{.*}}comm_size=4096
// CHECK-NOT: COMM_COLL
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%p: tensor<i1>, %x: tensor<64xf32>, %y: tensor<1024xf32>) -> tensor<128xf32> {
    %0 = "stablehlo.if"(%p) ({
      %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
      stablehlo.return %1 : tensor<128xf32>
    }, {
      %1 = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<1024xf32>) -> tensor<2048xf32>
      %2 = stablehlo.slice %1 [0:128] : (tensor<2048xf32>) -> tensor<128xf32>
      stablehlo.return %2 : tensor<128xf32>
    }) : (tensor<i1>) -> tensor<128xf32>
    return %0 : tensor<128xf32>
  }
}
