// RUN: hespas-opt %s --op-stats=expand --split-input-file --verify-diagnostics

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

// expected-error@below {{no public function}}
module {
  func.func private @one() {
    return
  }
}

// -----

/// A function that calls itself has no number of ops.
module {
  func.func @main() {
    // expected-error@below {{@main calls itself}}
    call @main() : () -> ()
    return
  }
}

// -----

module {
  func.func @main() {
    return
  }
}
