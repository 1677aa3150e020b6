// RUN: hespas-opt %s --split-individual --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// What is in a branch, and what reads its results, waits for what selects the branch.

// CHECK: 1 COMP 'region {{[0-9]+}}: compare' 0us num_ops
// CHECK-NEXT: 2 COMM_COLL 'all_gather.{{[01]}}' after 1 comm_type
// CHECK-NEXT: 3 COMP 'region {{[0-9]+}}: sine' 0us after 1 num_ops
// CHECK-NEXT: 4 COMP 'region {{[0-9]+}}: tanh' 0us after 2,3 num_ops
// CHECK-NEXT: 5 COMP 'region {{[0-9]+}}: negate' 0us after 3 num_ops
// CHECK-NEXT: 6 COMP 'region {{[0-9]+}}: abs' 0us after 5 num_ops
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<64xf32>, %a: tensor<f32>, %b: tensor<f32>) -> (tensor<128xf32>, tensor<64xf32>, tensor<64xf32>) {
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %0:3 = "stablehlo.if"(%p) ({
      %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
      %2 = stablehlo.sine %x : tensor<64xf32>
      stablehlo.return %1, %2, %x : tensor<128xf32>, tensor<64xf32>, tensor<64xf32>
    }, {
      %1 = stablehlo.constant dense<0.0> : tensor<128xf32>
      stablehlo.return %1, %x, %x : tensor<128xf32>, tensor<64xf32>, tensor<64xf32>
    }) : (tensor<i1>) -> (tensor<128xf32>, tensor<64xf32>, tensor<64xf32>)
    %3 = stablehlo.tanh %0#0 : tensor<128xf32>
    %4 = stablehlo.negate %0#1 : tensor<64xf32>
    %5 = stablehlo.abs %0#2 : tensor<64xf32>
    return %3, %4, %5 : tensor<128xf32>, tensor<64xf32>, tensor<64xf32>
  }
}
