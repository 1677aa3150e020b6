// RUN: not hespas-opt %s --guest-drop-shape --cse 2>&1 | filecheck %s --check-prefix=BROKEN
// RUN: not hespas-opt %s --guest-drop-shape --split-linear 2>&1 | filecheck %s --check-prefix=BROKEN
// RUN: not hespas-opt %s --guest-drop-shape 2>&1 | filecheck %s --check-prefix=BROKEN
// RUN: not hespas-opt %s --guest-misspell-cost --cse 2>&1 | filecheck %s --check-prefix=COST
// RUN: not hespas-opt %s --guest-refuse-tanh 2>&1 | filecheck %s --check-prefix=WALK
// RUN: not hespas-opt %s --guest-refuse-function 2>&1 | filecheck %s --check-prefix=VIEW
// RUN: hespas-opt %s --guest-count-tanh --cse 2>&1 | filecheck %s --check-prefix=COUNT

/// The pass that left an invalid module is named, whatever runs after it.
// BROKEN: guest-passes.mlir:[[# @LINE + 14]]:8: error: pass 'guest-drop-shape' left an invalid module: 'stablehlo.add' op requires the same shape for all operands and results; report it to the authors of 'guest-drop-shape'

/// So is one that left an attribute of hespas that no later tool could read.
// COST: guest-passes.mlir:[[# @LINE + 12]]:8: error: pass 'guest-misspell-cost' left an invalid module: 'stablehlo.tanh': hespas.cost lacks the field 'estimator'

/// An error inside Operation.walk is one line, and one with an OpView names the op.
// WALK: guest-passes.mlir:[[# @LINE + 9]]:8: error: 'stablehlo.tanh': this device has no tanh; use another one
// WALK-NOT: Traceback
// VIEW: guest-passes.mlir:[[# @LINE + 5]]:1: error: 'func.func': no function is supported

// COUNT: guest-count-tanh: 1
// COUNT: stablehlo.tanh

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  %1 = stablehlo.tanh %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
