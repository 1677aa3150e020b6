// RUN: not hespas-opt %s --split-input-file --cse 2>&1 | filecheck %s
// RUN: not hespas-opt %s --split-input-file --cse -o %t.mlir 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not ls %t.mlir

/// A file with some of the parts would look complete, so that none is written. A part of comments
/// alone is left out.
// FILE: parts.mlir:[[# @LINE + 16]]:23: error: use of undeclared SSA value name
// FILE-NOT: module
   // ----- An indented separator with text.

/// Good parts are printed, each bad one is reported.
// CHECK: parts.mlir:[[# @LINE + 11]]:23: error: use of undeclared SSA value name
// CHECK: parts.mlir:[[# @LINE + 20]]:23: error: use of undeclared SSA value name
// CHECK: stablehlo.sine
// CHECK: // -----
// CHECK: stablehlo.cosine
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.sine %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// -----
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// -----
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.cosine %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// -----
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}
  // -----
