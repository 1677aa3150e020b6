// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// In program order, a region after the wait of a collective waits for it, though only a later region reads the result.

// CHECK: 1 COMM_COLL 'all_gather.0'
// CHECK-NEXT: 2 COMP 'region 0: tanh' 0us num_ops
// CHECK-NEXT: 3 COMP 'region 1: sine' 0us after 1,2
// CHECK-NEXT: 4 COMM_COLL 'all_reduce.0' after 3
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
    %s = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<4xf32>):
      %g = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
      stablehlo.return %g : tensor<8xf32>
    }) : (tensor<4xf32>) -> !stablehlo.future<tensor<8xf32>>
    %t = stablehlo.tanh %x : tensor<4xf32>
    %d = "stablehlo.async_done"(%s) : (!stablehlo.future<tensor<8xf32>>) -> tensor<8xf32>
    %u = stablehlo.sine %x : tensor<4xf32>
    %v = "stablehlo.all_reduce"(%u) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %sum = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %w = stablehlo.exponential %d : tensor<8xf32>
    return %t, %v, %w : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
  }
}
