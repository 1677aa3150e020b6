// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// After split-individual, a node waits for all that it reads and that nothing else implies; a collective also for
/// the one before; and a kernel for the nearest kernel before it that needs no later collective, which changes no
/// time.

// CHECK: 1 COMM_COLL 'all_gather.0' comm_type
// CHECK-NEXT: 2 COMP 'region 0: tanh' 0us num_ops
// CHECK-NEXT: 3 COMP 'region 1: sine' 0us after 2 num_ops
// CHECK-NEXT: 4 COMM_COLL 'all_gather.1' after 1,2 comm_type
// CHECK-NEXT: 5 COMP 'region 2: concatenate' 0us after 3,4 num_ops
// CHECK-NEXT: 6 COMP 'region 3: cosine' 0us after 3 num_ops
// CHECK-NEXT: 7 COMP 'region 4: negate' 0us after 1,6 num_ops
// CHECK-NEXT: 8 COMP 'region 5: add' 0us after 4,7 num_ops
// CHECK-NEXT: 9 COMP 'region 6: subtract' 0us after 8 num_ops
// CHECK-NEXT: 10 COMP 'region 7: concatenate' 0us after 9 num_ops
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<320xf32>, tensor<64xf32>, tensor<128xf32>, tensor<128xf32>, tensor<192xf32>) {
    %a = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
    %b = stablehlo.tanh %x : tensor<64xf32>
    %c = stablehlo.sine %y : tensor<64xf32>
    %d = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
    %e = stablehlo.concatenate %a, %c, %d, dim = 0 : (tensor<128xf32>, tensor<64xf32>, tensor<128xf32>) -> tensor<320xf32>
    %f = stablehlo.cosine %c : tensor<64xf32>
    %g = stablehlo.negate %a : tensor<128xf32>
    %h = stablehlo.add %g, %d : tensor<128xf32>
    %j = stablehlo.subtract %a, %h : tensor<128xf32>
    %i = stablehlo.concatenate %d, %f, dim = 0 : (tensor<128xf32>, tensor<64xf32>) -> tensor<192xf32>
    return %e, %f, %g, %j, %i : tensor<320xf32>, tensor<64xf32>, tensor<128xf32>, tensor<128xf32>, tensor<192xf32>
  }
}
