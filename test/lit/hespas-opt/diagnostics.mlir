// RUN: hespas-opt %s --split-input-file --verify-diagnostics --split-linear | filecheck %s

/// Parts are checked alone; a part with an expected error must give it, at its line. The others are
/// printed, as by mlir-opt.

// CHECK: module attributes {{.*}}hespas.split
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{undeclared SSA value name}}
  %0 = stablehlo.add %x, %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}
