// RUN: hespas-opt %s --split-linear | filecheck %s
// RUN: hespas-opt %s --split-linear --split-linear | filecheck %s

/// What the first op of a program computes is a result of its region if an op of a later region reads it.

// CHECK: %[[R:.*]]:2 = call @region_0(%arg0)
// CHECK: "stablehlo.all_gather"(%[[R]]#1)
// CHECK: stablehlo.negate %[[R]]#0
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> (tensor<16xf32>, tensor<8xf32>) {
    %a = stablehlo.tanh %x : tensor<8xf32>
    %b = stablehlo.exponential %a : tensor<8xf32>
    %g = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %c = stablehlo.negate %a : tensor<8xf32>
    return %g, %c : tensor<16xf32>, tensor<8xf32>
  }
}
