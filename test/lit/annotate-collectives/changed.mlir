// RUN: hespas-opt %s --annotate-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --annotate-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=NOTE

// NOTE: changed.mlir:{{.*}} changed after prepare: hespas.comm is written again
// NOTE-NEXT: changed.mlir:{{.*}} changed after prepare: hespas.comm is written again
// NOTE-NEXT: changed.mlir:{{.*}} changed after prepare: hespas.comm is written again
// NOTE-NOT: {{changed after|warning}}

/// Other groups since the module was prepared: the communicator follows, and nobody names the old one.

// CHECK-LABEL: module @groups
// CHECK-SAME: hespas.communicators = {"1" = array<i64: 0, 1>}
// CHECK: hespas.comm = {groups = array<i64: 1>}
module @groups attributes {hespas.communicators = {"1" = array<i64: 0, 1>, "2" = array<i64: 0, 2>}, hespas.target = {devices = 3 : i64, partitions = 1 : i64, replicas = 3 : i64}, mhlo.num_replicas = 3 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {groups = array<i64: 2>}} : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

/// A new collective.

// CHECK-LABEL: module @new
// CHECK-SAME: hespas.communicators = {"1" = array<i64: 0, 1>}
// CHECK: hespas.comm = {groups = array<i64: 1>}
module @new attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

/// The same groups under another number are no change.

// CHECK-LABEL: module @same
// CHECK-SAME: hespas.communicators = {"1" = array<i64: 0, 1>}
// CHECK: hespas.comm = {groups = array<i64: 1>}
module @same attributes {hespas.communicators = {"7" = array<i64: 0, 1>}, hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> {hespas.comm = {groups = array<i64: 7>}} : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

/// Other pairs.

// CHECK-LABEL: module @pairs
// CHECK: hespas.comm = {}
module @pairs attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, partitions = 1 : i64, replicas = 2 : i64}, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[1, 0]]> : tensor<1x2xi64>}> {hespas.comm = {pairs = array<i64: 0, 1>}} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}
