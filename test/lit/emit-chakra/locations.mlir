// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --mlir-print-debuginfo | hespas-opt - --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s

/// A node has the name that the framework gave its op, and its place in the source; without a place that name. The file
/// that hespas has read is named without its folder, because it may be moved. A region without
/// a name is named after its first op that computes.

// CHECK: 1 COMP 'region 0: layer0/tanh' {{.*}}region=0 location=model.py:7:3
// CHECK-NEXT: 2 COMM_COLL 'all_gather.0 layer0/gather' {{.*}}location=model.py:8:5
// CHECK-NEXT: 3 COMP 'region 1: layer1/sine' {{.*}}region=1 location=layer1/sine
// CHECK-NEXT: 4 COMM_COLL 'all_gather.1' {{.*}}location=/models/model.py:9:1
// CHECK-NEXT: 5 COMP 'region 2: negate' {{.*}}region=2 location=locations.mlir:{{[0-9]+}}:10
// CHECK-NEXT: 6 COMM_COLL 'all_gather.2 layer2/gather' {{.*}}location=layer2/gather
// CHECK-NEXT: 7 COMP 'region 3: add +1' {{.*}}region=3
// CHECK-NOT: location
// CHECK: 8 COMM_COLL 'all_gather.3' {{.*}}comm_size=128 pg_name=1
// CHECK-NEXT: 9 COMP 'region 4: cosine' {{.*}}region=4 location=model.py
// CHECK-NOT: {{.}}
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<64xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32> loc("layer0/tanh"("model.py":7:3))
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32> loc("layer0/gather"("model.py":8:5))
    %2 = stablehlo.sine %1 : tensor<8xf32> loc("layer1/sine")
    %3 = "stablehlo.all_gather"(%2) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32> loc("/models/model.py":9:1)
    %4 = stablehlo.negate %3 : tensor<16xf32>
    %5 = "stablehlo.all_gather"(%4) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<16xf32>) -> tensor<32xf32> loc("layer2/gather")
    %one = stablehlo.constant dense<1.0> : tensor<32xf32> loc(unknown)
    %6 = stablehlo.add %5, %one : tensor<32xf32> loc(unknown)
    %7 = stablehlo.abs %6 : tensor<32xf32> loc(unknown)
    %8 = "stablehlo.all_gather"(%7) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<32xf32>) -> tensor<64xf32> loc(unknown)
    %9 = stablehlo.cosine %8 : tensor<64xf32> loc("model.py":0:0)
    return %9 : tensor<64xf32>
  }
}
