// RUN: hespas-opt %s --guest-fail=how=emit --verify-diagnostics
// RUN: not hespas-opt %s --guest-fail=how=emit 2>&1 | filecheck %s

/// Errors that a pass emits fail it, although the bindings would drop them; each can be expected.

// CHECK: error: pass 'guest-fail' failed: tanh is slow; and 1 more error
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>  // expected-error {{tanh is slow}}
  %1 = stablehlo.tanh %0 : tensor<8xf32>  // expected-error {{tanh is slow}}
  return %1 : tensor<8xf32>
}
