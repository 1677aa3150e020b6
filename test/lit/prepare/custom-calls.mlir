// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB | filecheck %s

/// Each target of a ragged all-to-all is a collective that is charged for its whole operand.
// CHECK: hespas.communicators = {"1" = array<i64: 0, 1>}
// CHECK: stablehlo.custom_call @_xla_ragged_all_to_all
// CHECK-SAME: hespas.comm = {groups = array<i64: 1>, note = "upper bound of the bytes, not of the time:
// CHECK: stablehlo.custom_call @ragged_all_to_all
// CHECK-SAME: hespas.comm = {groups = array<i64: 1>, note = "upper bound of the bytes, not of the time:

/// A composite is replaced by its decomposition, in StableHLO as in MHLO.
// CHECK-NOT: composite
// CHECK: stablehlo.tanh
// CHECK: stablehlo.negate

module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func private @tanh(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @negate(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.negate %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func public @main(%x: tensor<8xf32>, %o: tensor<8xf32>, %a: tensor<2xi64>) -> tensor<8xf32> {
    %0 = stablehlo.custom_call @_xla_ragged_all_to_all(%x, %o, %a, %a, %a, %a) {backend_config = {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_id = 1 : i64}, api_version = 4 : i32} : (tensor<8xf32>, tensor<8xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<8xf32>
    %1 = stablehlo.custom_call @ragged_all_to_all(%0, %o, %a, %a, %a, %a) {backend_config = {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_id = 1 : i64}, api_version = 4 : i32} : (tensor<8xf32>, tensor<8xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<8xf32>
    %2 = stablehlo.composite "a.tanh" %1 {decomposition = @tanh} : (tensor<8xf32>) -> tensor<8xf32>
    %3 = "mhlo.composite"(%2) {name = "a.negate", decomposition = @negate} : (tensor<8xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
