// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// Sizes have one to five bytes in a trace. Those at the limits are read as they were written.

// CHECK: comm_size=127
// CHECK-NEXT: comm_size=128
// CHECK-NEXT: comm_size=16384
// CHECK-NEXT: comm_size=2097152
// CHECK-NEXT: comm_size=266338304
// CHECK-NEXT: comm_size=34359738368
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%a: tensor<127xi8>, %b: tensor<128xi8>, %c: tensor<16384xi8>, %d: tensor<2097152xi8>, %e: tensor<266338304xi8>, %f: tensor<34359738368xi8>) {
    %a2 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<127xi8>) -> tensor<254xi8>
    %b2 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<128xi8>) -> tensor<256xi8>
    %c2 = "stablehlo.all_gather"(%c) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<16384xi8>) -> tensor<32768xi8>
    %d2 = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2097152xi8>) -> tensor<4194304xi8>
    %e2 = "stablehlo.all_gather"(%e) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<266338304xi8>) -> tensor<532676608xi8>
    %f2 = "stablehlo.all_gather"(%f) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<34359738368xi8>) -> tensor<68719476736xi8>
    return
  }
}
