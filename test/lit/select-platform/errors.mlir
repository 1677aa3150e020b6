// RUN: hespas-opt %s --select-platform=platform=rocm --split-input-file --verify-diagnostics

module attributes {hespas.facts = {exported_for = "cpu, cuda"}} {
  // expected-error @+1 {{the program was exported for cpu, cuda, not for rocm; choose one of them, as in hespas-opt --prepare=platform=cpu}}
  func.func @main(%platform: tensor<i32> {jax.global_constant = "_platform_index"}) {
    return
  }
}

// -----

/// A text of the module alone does not say which platform has which number.

// expected-error @+1 {{the program was exported for several platforms, and the module does not say which; use what jax.export serialises, or export the program for one platform}}
func.func @main(%platform: tensor<i32> {jax.global_constant = "_platform_index"}) {
  return
}
