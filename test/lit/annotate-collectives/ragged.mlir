// RUN: hespas-opt %s --annotate-collectives | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --annotate-collectives | filecheck %s
// RUN: hespas-opt %s --annotate-collectives --annotate-collectives --disable-output 2>&1 | filecheck %s --check-prefix=WARNING

/// Each target of a ragged all-to-all is a collective that is charged for its operand, or its output if that is smaller, with one warning for a kind; what has been warned of is not again.

// WARNING: warning: 3 x stablehlo.custom_call: upper bound of the bytes, not of the time: sizes are known only at run time, so the operand is counted, or the output if that is smaller, as an even exchange
// WARNING-NOT: warning
// CHECK: hespas.communicators = {"1" = array<i64: 0, 1>}
// CHECK-COUNT-3: hespas.comm = {copy_rounds = 1 : i64, groups = array<i64: 1>, note = "upper bound of the bytes, not of the time: sizes are known only at run time, so the operand is counted, or the output if that is smaller, as an even exchange"}
module @ragged attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4xf32>, %n: tensor<2xi64>) {
    %0 = stablehlo.custom_call @ragged_all_to_all(%x, %x, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<4xf32>, tensor<4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @_xla_ragged_all_to_all(%x, %x, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<4xf32>, tensor<4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4xf32>
    %2 = stablehlo.custom_call @ragged_all_to_all(%x, %x, %n, %n, %n, %n) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<4xf32>, tensor<4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4xf32>
    return
  }
}
