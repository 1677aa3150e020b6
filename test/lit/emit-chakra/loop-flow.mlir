// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// A kernel of one trip waits for the collective of the trip before whose result it reads, and the kernel after the loop
/// for the last. A kernel that reads no result of a collective waits for none.

// CHECK: 1 COMP 'region 0: compare' 0us num_ops
// CHECK-NEXT: 2 COMP 'region 1: add' 0us after 1 num_ops
// CHECK-NEXT: 3 COMP 'region 2: tanh' 0us after 2 num_ops
// CHECK-NEXT: 4 COMM_COLL 'all_reduce.0' after 3 comm_type
// CHECK-NEXT: 5 COMP 'region 0: compare' 0us after 3 num_ops
// CHECK-NEXT: 6 COMP 'region 1: add' 0us after 5 num_ops
// CHECK-NEXT: 7 COMP 'region 2: tanh' 0us after 4,6 num_ops
// CHECK-NEXT: 8 COMM_COLL 'all_reduce.0' after 7 comm_type
// CHECK-NEXT: 9 COMP 'region 3: negate' 0us after 7,8 num_ops
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<64xf32>
     cond {
      %n = stablehlo.constant dense<2> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %v : tensor<64xf32>
      %r = "stablehlo.all_reduce"(%t) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<64xf32>) -> tensor<64xf32>
      stablehlo.return %j, %r : tensor<i32>, tensor<64xf32>
    }
    %1 = stablehlo.negate %0#1 : tensor<64xf32>
    return %1 : tensor<64xf32>
  }
}
