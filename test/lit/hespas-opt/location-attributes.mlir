// RUN: hespas-opt %s --split-input-file --verify-diagnostics -o /dev/null

/// MLIR has locations that are attributes; those of hespas are none.

// expected-error @+1 {{hespas.target is a location, no value of hespas; remove it}}
module @module attributes {hespas.target = loc("x")} {
}

// -----

module @record {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.cost is a location, no value of hespas; remove it}}
    %0 = stablehlo.tanh %x {hespas.cost = loc("x")} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module @kind {
  func.func @main(%p: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{hespas.branch is a location, no value of hespas; remove it}}
    %0 = "stablehlo.case"(%p) ({
      stablehlo.return %x : tensor<8xf32>
    }) {hespas.branch = loc("x")} : (tensor<i32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
