// RUN: not hespas-opt %s --choose-branches 2>&1 | filecheck %s

/// A branch that is not there is an error.

// CHECK: error: 'stablehlo.if': hespas.branch is 2, of 2 branches
module @wrong {
  func.func @main(%p: tensor<i1>, %x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %x : tensor<256xf32>
    }, {
      stablehlo.return %x : tensor<256xf32>
    }) {hespas.branch = 2 : i64} : (tensor<i1>) -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}
