// RUN: hespas-opt %s --fuse=combine=64 | filecheck %s
// RUN: hespas-opt %s --fuse=combine=96 | filecheck %s --check-prefix=MORE
// RUN: hespas-opt %s --fuse=combine-all-gather=64 | filecheck %s
// RUN: hespas-opt %s --fuse=combine=0,combine-all-gather=96 | filecheck %s --check-prefix=MORE

/// Collectives are combined while their bytes are within the limit.

// CHECK-LABEL: module @limit
// CHECK: "stablehlo.all_gather"({{[^,]*, [^,]*}}) <
// CHECK: "stablehlo.all_gather"({{[^,]*}}) <
// CHECK-NOT: stablehlo.all_gather
// MORE-LABEL: module @limit
// MORE: "stablehlo.all_gather"({{[^,]*, [^,]*, [^,]*}}) <
// MORE-NOT: stablehlo.all_gather
module @limit attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %1 = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %2 = "stablehlo.all_gather"(%z) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}
