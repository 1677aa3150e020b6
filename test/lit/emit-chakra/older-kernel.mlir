// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// A node waits for a kernel that it reads and that nothing else implies, though the other kernel that it reads waits for
/// a later collective. The other one implies that collective, though the node reads its result, too.

// CHECK: 1 COMM_COLL 'all_gather.0' comm_type
// CHECK-NEXT: 2 COMP 'region 0: tanh' 0us after 1 num_ops
// CHECK-NEXT: 3 COMP 'region 1: sine' 0us num_ops
// CHECK-NEXT: 4 COMM_COLL 'all_gather.1' after 1,3 comm_type
// CHECK-NEXT: 5 COMP 'region 2: negate' 0us after 3,4 num_ops
// CHECK-NEXT: 6 COMP 'region 3: concatenate' 0us after 2,5 num_ops
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>) -> tensor<384xf32> {
    %a = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
    %b = stablehlo.tanh %a : tensor<128xf32>
    %c = stablehlo.sine %x : tensor<64xf32>
    %d = "stablehlo.all_gather"(%c) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
    %e = stablehlo.negate %d : tensor<128xf32>
    %f = stablehlo.concatenate %b, %e, %d, dim = 0 : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<384xf32>
    return %f : tensor<384xf32>
  }
}
