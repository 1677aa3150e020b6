// REQUIRES: zigzag
// RUN: hespas-opt %s --zigzag-annotate="node=TPUv3_core cache=none" | filecheck %s

/// A product is timed by ZigZag; what its model is made with stands on the module.

// CHECK: constants = "TPUv3_core: 1 core with 2 arrays of 128 x 128 at 0.94 GHz, 450 GB/s; ZigZag's model; zigzag-dse {{[0-9.]+}}"
// CHECK: stablehlo.dot_general {{.*}}estimator = "zigzag", flops = 524288 : i64, latency_ns = {{[1-9][0-9]*\.}}
module {
  func.func public @main(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }
}
