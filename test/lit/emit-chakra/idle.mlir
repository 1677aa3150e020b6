// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.1.et | filecheck %s --check-prefix=MEMBER
// RUN: hespas trace print %t/dev.2.et | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra="output=%t time=exact" --disable-output
// RUN: hespas trace print %t/dev.2.et | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra="output=%t time=carry" --disable-output
// RUN: hespas trace print %t/dev.2.et | filecheck %s --check-prefix=CARRY

/// A device that takes no part in anything has a node of 1 ns, because ASTRA-sim would abort without one.

// MEMBER: 2 COMM_RECV 'permute.0'
// MEMBER-NOT: 'idle'
// CHECK: 1 COMP 'idle' 0us num_ops=1500 tensor_size=1
// CHECK-NOT: {{.}}
// CARRY: 1 COMP 'idle' 0us
// CARRY-NOT: num_ops
module attributes {mhlo.num_replicas = 3 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
