// RUN: hespas-opt %s --annotate-collectives --split-input-file --verify-diagnostics
// RUN: hespas-opt %s --annotate-collectives --split-input-file 2>/dev/null | filecheck %s

/// Another pass has changed the number of devices after prepare: shapes are not divided again.

// CHECK-LABEL: module @more_partitions
// CHECK-SAME: devices = 8 : i64, partitions = 8 : i64, replicas = 1 : i64
// expected-warning @+2 {{mhlo.num_partitions is 8, and the module was prepared for 4: its shapes and replica groups stay those for 4}}
// expected-note @+1 {{hespas.target is brought up to date: 4 to 8 devices}}
module @more_partitions attributes {hespas.communicators = {}, hespas.target = {devices = 4 : i64, partitions = 4 : i64, replicas = 1 : i64}, mhlo.num_partitions = 8 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

/// The same number of devices in another grid.

// CHECK-LABEL: module @other_grid
// CHECK-SAME: devices = 4 : i64, partitions = 1 : i64, replicas = 4 : i64
// expected-warning @+2 {{mhlo.num_replicas is 4, and the module was prepared for 1}}
// expected-warning @+1 {{mhlo.num_partitions is 1, and the module was prepared for 4}}
module @other_grid attributes {hespas.communicators = {}, hespas.target = {devices = 4 : i64, partitions = 4 : i64, replicas = 1 : i64}, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

/// A number that the module does not state, but its collectives do, has not been set by anybody.

// CHECK-LABEL: module @found
// CHECK-SAME: devices = 4 : i64, partitions = 1 : i64, replicas = 4 : i64
// expected-note @+1 {{hespas.target is brought up to date: 2 to 4 devices}}
module @found attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<16xf32> {
    // expected-note @+1 {{changed after prepare: hespas.comm is written again}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
