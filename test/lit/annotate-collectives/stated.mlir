// RUN: hespas-opt %s --annotate-collectives --split-input-file | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --annotate-collectives --split-input-file | filecheck %s

/// What another tool says of a call stays, and its communicators are renumbered with the others.

// CHECK-LABEL: module @stated
// CHECK-SAME: hespas.communicators = {"1" = array<i64: 0, 2>, "2" = array<i64: 1, 3>, "3" = array<i64: 0, 1>}
// CHECK: @acme(%{{.*}}) {hespas.comm = {groups = array<i64: 3>, kind = "all_reduce", operand_bytes = 16 : i64, result_bytes = 16 : i64}}
// CHECK: hespas.comm = {groups = array<i64: 1, 2>}
module @stated attributes {hespas.communicators = {"7" = array<i64: 0, 1>}, mhlo.num_replicas = 4 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    %0 = stablehlo.custom_call @acme(%x) {hespas.comm = {groups = array<i64: 7>, kind = "all_reduce", operand_bytes = 16 : i64, result_bytes = 16 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return
  }
}

// -----

/// A target keeps what costs were estimated with; costs that depend on the number of devices depend on the new one.

// CHECK-LABEL: module @target
// CHECK-SAME: hespas.target = {devices = 4 : i64, estimator = "e", job_devices = 4 : i64, node = "n", partitions = 4 : i64, replicas = 1 : i64}
module @target attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, estimator = "e", job_devices = 2 : i64, node = "n", partitions = 2 : i64, replicas = 1 : i64}, mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}

// -----

// CHECK-LABEL: module @no_job
// CHECK-SAME: hespas.target = {devices = 4 : i64, node = "n", partitions = 4 : i64, replicas = 1 : i64}
module @no_job attributes {hespas.communicators = {}, hespas.target = {devices = 2 : i64, node = "n", partitions = 2 : i64, replicas = 1 : i64}, mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<4xf32>) {
    return
  }
}
