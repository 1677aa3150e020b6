// RUN: hespas-opt %s --split-input-file --verify-diagnostics

/// A single op is a region of one op, which it may state. A region function and its calls state the number of their ops.

module attributes {hespas.split = {strategy = "linear"}} {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x {hespas.region = {digest = "a", id = 0 : i64}} : tensor<4xf32>
    %1 = stablehlo.tanh %0 {hespas.region = {digest = "a", id = 1 : i64, ops = 1 : i64}} : tensor<4xf32>
    // expected-error @+1 {{hespas.region lacks the field 'ops', which does not follow from this op}}
    %2 = call @r(%1) {hespas.region = {digest = "a", id = 0 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @r(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hespas.region = {digest = "b", id = 2 : i64, ops = 1 : i64}} {
    %0 = stablehlo.sine %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
