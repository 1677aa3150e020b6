// RUN: rm -rf %t && mkdir -p %t
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t/linear -o %t/linear.mlir
// RUN: hespas-opt %s --split-linear --mlir-print-debuginfo -o %t/split.mlir && hespas-opt %t/split.mlir --roofline-annotate=node=A100_SXM_40GB --mlir-print-debuginfo | hespas-opt --emit-chakra=output=%t/apart | diff %t/linear.mlir -
// RUN: hespas trace print %t/linear/dev.0.et | filecheck %s
// RUN: cmp %t/linear/dev.0.et %t/apart/dev.0.et

/// What the split tells the next passes in one process, they find in the ops themselves in another one: single ops,
/// the calls of equal regions, one that returns another op than its last, constants that only regions read, and a wait.

// CHECK: 1 COMP 'region 0: tanh +1'
// CHECK: 2 COMM_COLL 'all_gather.0'
// CHECK: 3 COMP 'region 1: tanh +1'
// CHECK: 4 COMP 'region 2: slice'
// CHECK: 5 COMM_COLL
// CHECK: 6 COMP 'region 3: tanh +1'
// CHECK: 7 COMM_COLL 'all_gather.2' after 6
// CHECK: 8 COMP 'region 4: add' 0us after 7
// CHECK-NOT: COMP
module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>) {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %two = stablehlo.constant dense<2.0> : tensor<8xf32>
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.add %0, %two : tensor<8xf32>
    %2 = "stablehlo.async_start"(%1) ({
    ^bb0(%a: tensor<8xf32>):
      %g = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
      stablehlo.return %g : tensor<16xf32>
    }) : (tensor<8xf32>) -> !stablehlo.future<tensor<16xf32>>
    %3 = stablehlo.tanh %1 : tensor<8xf32>
    %4 = stablehlo.add %3, %two : tensor<8xf32>
    %5 = "stablehlo.async_done"(%2) : (!stablehlo.future<tensor<16xf32>>) -> tensor<16xf32>
    %6 = stablehlo.slice %5 [0:8] : (tensor<16xf32>) -> tensor<8xf32>
    %7 = "stablehlo.all_gather"(%6) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %8 = stablehlo.tanh %4 : tensor<8xf32>
    %9 = stablehlo.add %8, %two : tensor<8xf32>
    %10 = "stablehlo.all_gather"(%8) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %11 = stablehlo.add %10, %7 : tensor<16xf32>
    return %9, %7, %11, %one : tensor<8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>
  }
}
