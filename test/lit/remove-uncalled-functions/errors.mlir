// RUN: hespas-opt %s --remove-uncalled-functions --split-input-file --verify-diagnostics

/// Without an entry nobody knows what is called.

// expected-error @+1 {{the module has several public functions and none is 'main'; name one 'main'}}
module {
  func.func @a() { return }
  func.func @b() { return }
}

// -----

// expected-error @+1 {{the module has no public function; name one 'main'}}
module {
  func.func private @a() { return }
}

// -----

// expected-error @+1 {{the entry function has no body}}
func.func private @main()
func.func @a() { return }
func.func @b() { return }

// -----

/// Functions of a nested module.

module @outer {
  // expected-error @+1 {{the functions are in a module inside the module, where they are no program; take them out of it}}
  module @inner {
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
}
