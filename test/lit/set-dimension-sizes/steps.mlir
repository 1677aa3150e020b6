// RUN: hespas-opt %s --prepare --split-input-file 2>&1 | filecheck %s

/// The steps after it see the ops that refinement has made.

// CHECK: warning: sizes assumed for symbolic dimensions: arg0_dim0=128;
// CHECK: warning: dimensions whose size stablehlo.set_dimension_size sets while the program runs have their bounds as sizes
// CHECK-LABEL: module @refined
// CHECK: "stablehlo.all_reduce"
// CHECK: hespas.comm = {groups = array<i64: 1>}} : (tensor<128x4xf32>) -> tensor<128x4xf32>
module @refined attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<?x4xf32>) -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}

// -----

// CHECK-LABEL: module @bounded
// CHECK: "stablehlo.all_reduce"
// CHECK: hespas.comm = {groups = array<i64: 1>}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
module @bounded attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<8x4xf32>, %n: tensor<i32>) -> tensor<8x4xf32> {
    %d = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<8x4xf32>, tensor<i32>) -> tensor<?x4xf32, #stablehlo.bounds<8, ?>>
    %y = stablehlo.tanh %d : tensor<?x4xf32, #stablehlo.bounds<8, ?>>
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
