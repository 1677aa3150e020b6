// RUN: hespas-opt %s --refresh-costs --split-input-file --verify-diagnostics

/// A module that is not prepared may have values without a size, and functions that call themselves.

module attributes {hespas.memory = {argument_bytes = 1 : i64, constant_bytes = 0 : i64, live_bytes = 1 : i64, op = "func.return", peak_bytes = 1 : i64, points = 1 : i64, result_bytes = 0 : i64, temporary_bytes = 0 : i64, timeline_bytes = array<i64: 1>, timeline_points = array<i64: 0>}} {
  // expected-error @+1 {{the size of tensor<?xf32> is not static}}
  func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.tanh %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

module attributes {hespas.memory = {argument_bytes = 1 : i64, constant_bytes = 0 : i64, live_bytes = 1 : i64, op = "func.return", peak_bytes = 1 : i64, points = 1 : i64, result_bytes = 0 : i64, temporary_bytes = 0 : i64, timeline_bytes = array<i64: 1>, timeline_points = array<i64: 0>}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{the function @f calls itself}}
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
