// RUN: not hespas-opt %s --emit-chakra=output=%t 2>&1 | filecheck %s

/// A module that is split by hand lacks its devices.

// CHECK: errors.mlir:[[# @LINE + 1]]:1: error: 'builtin.module': emit-chakra: the module has no hespas.target; run prepare first
module attributes {hespas.split = {strategy = "linear"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
