// RUN: hespas-opt %s --memory-annotate --split-input-file --verify-diagnostics

/// There must be one function to start in, and functions must end.

// expected-error @+1 {{several public functions and none is 'main'}}
module {
  func.func @a(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
  func.func @b(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

module {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{the function @f calls itself}}
    %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
