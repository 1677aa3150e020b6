// RUN: hespas-opt %s --annotate-collectives | filecheck %s

/// A collective of several arrays has no rounds of copies, as a ragged one has.

// CHECK: hespas.comm = {groups = array<i64: 1>}} : (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>)
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%a: tensor<512xf32>, %b: tensor<512xf32>, %c: tensor<512xf32>) -> (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>) {
    %0:3 = "stablehlo.all_reduce"(%a, %b, %c) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>)
    return %0#0, %0#1, %0#2 : tensor<512xf32>, tensor<512xf32>, tensor<512xf32>
  }
}
