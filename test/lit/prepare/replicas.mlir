// RUN: hespas-opt %s --prepare=replicas=2 --prepare --split-input-file | filecheck %s

/// A program of one device runs on each of two devices.

// CHECK: hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}
// CHECK-SAME: mhlo.num_replicas = 2 : i32
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

/// A collective of the one device is one of each device with itself.

// CHECK: hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}
// CHECK: hespas.comm = {}
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

/// A program of more devices stays as it is.

// CHECK: hespas.target = {devices = 3 : i64, partitions = 3 : i64, replicas = 1 : i64}
module attributes {mhlo.num_partitions = 3 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}
