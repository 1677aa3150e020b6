// RUN: not hespas-opt %s --cocossim-annotate="node=TPUv4 binary=/nowhere/perf_model cache=none" 2>&1 | filecheck %s --check-prefix=BINARY
// RUN: not hespas-opt %s --cocossim-annotate="node=TPUv4 binary=/bin/sh home=/nowhere cache=none" 2>&1 | filecheck %s --check-prefix=HOME
// RUN: not hespas-opt %s --cocossim-annotate="node=TPUv4 columns=64 cache=none" 2>&1 | filecheck %s --check-prefix=SQUARE

// BINARY: error: binary: /nowhere/perf_model is not an executable program
// HOME: error: the memory of COCOSSim is not described: /nowhere has no dramsim3/configs/HBM2_8Gb_x128.ini; name the folder
// SQUARE: error: 'stablehlo.dot_general': COCOSSim's arrays are square, not 128 x 64
module {
  func.func public @main(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }
}
