// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t.linear --disable-output
// RUN: hespas trace print %t.linear/dev.0.et | filecheck %s --check-prefix=LINEAR

/// After split-individual a node waits for what it reads, after split-linear for the one before it. A loop
/// reads what its body captures, too.

// CHECK: 1 COMM_COLL 'all_gather.0' comm_type
// CHECK-NEXT: 2 COMP 'region 0: tanh' 0us num_ops
// CHECK-NEXT: 3 COMP 'region 1: concatenate' 0us after 1,2
// CHECK-NEXT: 4 COMP 'region 2: tanh' 0us after 2 num_ops
// CHECK: 6 COMP 'region 4: while' 0us after 1,5 num_ops
// LINEAR: 1 COMM_COLL 'all_gather.0' comm_type
// LINEAR-NEXT: 2 COMP 'region 0: {{.*}} after 1
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>) -> (tensor<192xf32>, tensor<128xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
    %1 = stablehlo.tanh %x : tensor<64xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<128xf32>, tensor<64xf32>) -> tensor<192xf32>
    %3 = stablehlo.tanh %x : tensor<64xf32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.concatenate %x, %x, dim = 0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    %4:2 = stablehlo.while(%i = %zero, %v = %w) : tensor<i32>, tensor<128xf32>
     cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.add %v, %0 : tensor<128xf32>
      stablehlo.return %j, %s : tensor<i32>, tensor<128xf32>
    }
    return %2, %4#1 : tensor<192xf32>, tensor<128xf32>
  }
}
