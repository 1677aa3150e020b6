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

// -----

/// What other tools state of arguments, results and the module is verified where it is read.

module {
  // expected-error @+1 {{tf.aliasing_output is "0", no integer; correct it, or remove it}}
  func.func @main(%x: tensor<8xf32> {tf.aliasing_output = "0"}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

module {
  // expected-error @+1 {{jax.buffer_donor is "yes", no truth value}}
  func.func @main(%x: tensor<8xf32> {jax.buffer_donor = "yes"}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

module {
  // expected-error @+1 {{mhlo.memory_kind is 5 : i64, no string}}
  func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32> {mhlo.memory_kind = 5 : i64}) {
    return %x : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{mhlo.input_output_alias is [1], not as XLA writes it; correct it, or remove it}}
module attributes {mhlo.input_output_alias = [1]} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
