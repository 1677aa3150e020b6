// RUN: not hespas-opt %s --split-linear --fuse-copies 2>&1 | filecheck %s
// RUN: not hespas-opt %s --fuse-copies=max-buffers=1 2>&1 | filecheck %s --check-prefix=LIMIT

/// A split module is refused, and so is a limit below one value that is read and one that is written.

// CHECK: error: 'builtin.module': fuse-copies: the module is already split
// LIMIT: error: fuse-copies: option 'max-buffers' is 1, less than 2
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
