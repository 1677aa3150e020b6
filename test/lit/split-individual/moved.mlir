// RUN: rm -rf %t && mkdir -p %t
// RUN: hespas-opt %s --split-individual=merge --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t/one -o %t/one.mlir
// RUN: hespas-opt %s --split-individual=merge --mlir-print-debuginfo -o %t/split.mlir && hespas-opt %t/split.mlir --roofline-annotate=node=A100_SXM_40GB --mlir-print-debuginfo | hespas-opt --emit-chakra=output=%t/apart | diff %t/one.mlir -
// RUN: hespas trace print %t/one/dev.0.et | filecheck %s
// RUN: cmp %t/one/dev.0.et %t/apart/dev.0.et

/// Ops may move though each is a region of its own: then the next passes in one process must know what each of them reads.

// CHECK: 1 COMM_COLL 'all_gather.0'
// CHECK: 2 COMP 'region 0: sine' 0us num_ops
// CHECK: 3 COMM_COLL 'all_gather.1' after 1,2
// CHECK: 4 COMP 'region 1: tanh' 0us after 1,2
module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%x: tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %1 = stablehlo.tanh %0 : tensor<16xf32>
    %2 = stablehlo.sine %x : tensor<8xf32>
    %3 = "stablehlo.all_gather"(%2) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    return %1, %3 : tensor<16xf32>, tensor<16xf32>
  }
}
