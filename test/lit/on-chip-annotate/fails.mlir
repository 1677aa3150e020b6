// RUN: hespas-opt %s --on-chip-annotate --split-input-file --verify-diagnostics

/// There must be one function to start in.

// expected-error @+1 {{several public functions and none is 'main'}}
module {
  func.func @a(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
  func.func @b(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
