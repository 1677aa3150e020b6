// RUN: not hespas-opt %s --split-individual=block-limit=-1 2>&1 | filecheck %s --check-prefix=LIMIT
// RUN: not hespas-opt %s --split-individual=merge=maybe 2>&1 | filecheck %s --check-prefix=BOOL
// RUN: not hespas-opt %s --split-individual=separator=reduce 2>&1 | filecheck %s --check-prefix=OPTION

/// A wrong value of an option, or an option of split-linear, is one line.

// LIMIT: error: split-individual: option 'block-limit' is -1, less than 0
// BOOL: error: split-individual: option 'merge' takes true or false, not 'maybe'
// OPTION: error: split-individual has no option 'separator'
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
