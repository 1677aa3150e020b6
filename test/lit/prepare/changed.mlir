// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s

/// What another pass has changed since is written again: the communicator of a collective with other
/// groups, the trip count of a loop, and what was copied to an op of another kind.

// CHECK: hespas.trips is brought up to date
// CHECK: changed after prepare: hespas.comm is written again
// CHECK: hespas.communicators = {"1" = array<i64: 0, 1>}
// CHECK: stablehlo.all_gather
// CHECK-SAME: hespas.comm = {groups = array<i64: 1>}
// CHECK: hespas.trips = 4 : i64
// CHECK: stablehlo.tanh %{{[^ ]*}} : tensor<16xf32>
module attributes {hespas.communicators = {"1" = array<i64: 0, 1>, "2" = array<i64: 0, 2>}, hespas.target = {devices = 3 : i64, partitions = 1 : i64, replicas = 3 : i64}, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> tensor<16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {groups = array<i64: 2>}} : (tensor<8xf32>) -> tensor<16xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %g) : tensor<i32>, tensor<16xf32> attributes {hespas.trips = 3 : i64}
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<16xf32>
    }
    %1 = stablehlo.tanh %0#1 {hespas.trips = 3 : i64} : tensor<16xf32>
    return %1 : tensor<16xf32>
  }
}
