// RUN: hespas-opt %s --op-stats --split-input-file --verify-diagnostics

/// There must be one function to start in.
// expected-error@below {{several public functions and none is 'main'}}
module {
  func.func @one() {
    return
  }
  func.func @two() {
    return
  }
}

// -----

module {
  func.func @main() {
    return
  }
}
