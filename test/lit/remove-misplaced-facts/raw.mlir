// RUN: not hespas-opt %s --remove-misplaced-facts 2>&1 | filecheck %s

/// In a module that is not prepared nothing is a copy of what prepare wrote: it is a mistake of the author.

// CHECK: raw.mlir:7:8: error: 'stablehlo.tanh': hespas.trips is an attribute of: stablehlo.while
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x {hespas.trips = 3 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
