// RUN: hespas-opt %s --combine-collectives=limit=64 | filecheck %s
// RUN: hespas-opt %s --combine-collectives=limit=64 --combine-collectives=limit=64 | filecheck %s
// RUN: hespas-opt %s --combine-collectives=limit=96 | filecheck %s --check-prefix=MORE
// RUN: hespas-opt %s --combine-collectives=limit=63 | filecheck %s --check-prefix=LESS
// RUN: hespas-opt %s --combine-collectives=limit=0 | filecheck %s --check-prefix=LESS
// RUN: hespas-opt %s --combine-collectives=all-gather=96 | filecheck %s --check-prefix=MORE
// RUN: hespas-opt %s --combine-collectives=limit=96,all-gather=63 | filecheck %s --check-prefix=LESS
// RUN: hespas-opt %s --combine-collectives=limit=96,all-reduce=63,reduce-scatter=63 | filecheck %s --check-prefix=MORE
// RUN: not hespas-opt %s --combine-collectives=limit=-1 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not hespas-opt %s --combine-collectives=reduce-scatter=-2 2>&1 | filecheck %s --check-prefix=SCATTER

/// Collectives are combined while the bytes of their results are within the limit, in order; one that is
/// larger by itself stays between them. A limit of one kind is not that of the others.

// CHECK: "stablehlo.all_gather"({{[^,]*, [^,]*}}) <
// CHECK: "stablehlo.all_gather"({{[^,]*}}) <
// CHECK: "stablehlo.all_gather"({{[^,]*}}) <
// CHECK-NOT: stablehlo.all_gather
// MORE: "stablehlo.all_gather"({{[^,]*, [^,]*, [^,]*}}) <
// MORE: "stablehlo.all_gather"({{[^,]*}}) <
// MORE-NOT: stablehlo.all_gather
// LESS-COUNT-4: "stablehlo.all_gather"({{[^,]*}}) <
// WRONG: error: combine-collectives: option 'limit' is -1, less than 0
// SCATTER: error: combine-collectives: option 'reduce-scatter' is -2, less than -1
module @limit attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>, %l: tensor<64xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<128xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %3 = "stablehlo.all_gather"(%l) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<64xf32>) -> tensor<128xf32>
    %1 = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    %2 = "stablehlo.all_gather"(%z) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<128xf32>
  }
}
