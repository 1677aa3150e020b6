// RUN: not hespas-opt %s --split-linear=separator=dot 2>&1 | filecheck %s --check-prefix=SEPARATOR
// RUN: not hespas-opt %s --split-linear=separator-policy=endblock 2>&1 | filecheck %s --check-prefix=POLICY
// RUN: not hespas-opt %s --split-linear=block-limit=-1 2>&1 | filecheck %s --check-prefix=LIMIT
// RUN: not hespas-opt %s --split-linear=block-limit=two 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not hespas-opt %s --split-linear=limit=2 2>&1 | filecheck %s --check-prefix=OPTION

/// A wrong value of an option is one line with the remedy.

// SEPARATOR: error: split-linear: no separator is called 'dot'; {{.*}}dot-general
// POLICY: error: split-linear: no separator-policy is called 'endblock'; did you mean 'end-block'
// LIMIT: error: split-linear: option 'block-limit' is -1, less than 0
// NUMBER: error: split-linear: option 'block-limit' takes a whole number, not 'two'
// OPTION: error: split-linear has no option 'limit'
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
