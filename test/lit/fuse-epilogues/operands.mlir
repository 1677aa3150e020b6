// RUN: hespas-opt %s --fuse-epilogues=operands=any | filecheck %s
// RUN: not hespas-opt %s --fuse-epilogues=operands=tiles 2>&1 | filecheck %s --check-prefix=NAME

/// What reads operands in any form does not wait for a matrix that a kernel broadcasts.

// CHECK-NOT: mhlo.fusion
// NAME: fuse-epilogues: no readers of operands are called 'tiles'; known: any, libraries
func.func @main(%a: tensor<4x16x8xbf16>, %b: tensor<4x8x24xbf16>, %c: tensor<16x24xbf16>) -> tensor<4x16x24xbf16> {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x16x8xbf16>, tensor<4x8x24xbf16>) -> tensor<4x16x24xbf16>
  %1 = stablehlo.broadcast_in_dim %c, dims = [1, 2] : (tensor<16x24xbf16>) -> tensor<4x16x24xbf16>
  %2 = stablehlo.add %0, %1 : tensor<4x16x24xbf16>
  return %2 : tensor<4x16x24xbf16>
}
