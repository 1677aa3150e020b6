// RUN: not hespas-opt %s --onnxim-annotate="node=TPUv4 binary=/nowhere/Simulator cache=none" 2>&1 | filecheck %s --check-prefix=BINARY
// RUN: not hespas-opt %s --onnxim-annotate="node=TPUv4 binary=/bin/sh home=/nowhere cache=none" 2>&1 | filecheck %s --check-prefix=HOME
// RUN: not hespas-opt %s --onnxim-annotate="node=TPUv4 time-limit=0" 2>&1 | filecheck %s --check-prefix=LIMIT

// BINARY: error: binary: /nowhere/Simulator is not an executable program
// HOME: error: ONNXim's home has no folder /nowhere/configs
// LIMIT: error: time-limit is not a number of seconds above 0
module {
  func.func public @main(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }
}
