// RUN: rm -rf %t && mkdir -p %t && printf '{"name": "mine", "base": "B200_180GB", "description": "d"}' > %t/mine.json
// RUN: printf '{"name": "shape", "description": "d", "rates": [{"nodes": ["B200_180GB"], "forward": {"queries": [1024, 2048], "head_size": [64], "tflops": [1]}, "backward": {"queries": [1024], "head_size": [64], "tflops": [1]}, "source": "s"}]}' > %t/shape.json
// RUN: hespas-opt %s --calibrated-annotate=node=B200_180GB -o %t/preset.mlir && hespas-opt %s --calibrated-annotate=node=%t/mine.json -o %t/mine.mlir
// RUN: printf '{"name": "mine", "base": "B200_180GB", "description": "d", "tdp_w": null}' > %t/unlimited.json && hespas-opt %s --calibrated-annotate=node=%t/unlimited.json | filecheck %s --check-prefix=UNLIMITED
// RUN: printf '{"name": "mine", "base": "A100_SXM_80GB", "description": "d", "calibration": {"like": "A100_SXM_80GB", "fits": {"product.bf16": {"fixed_s": 2e-06, "bandwidth": 0.9, "efficiency": 0.5, "power": 1, "s_per_k": 0, "band": [[1000, -0.1, 0.1]]}}}}' > %t/own.json && hespas-opt %s --calibrated-annotate=node=%t/own.json | filecheck %s --check-prefix=OWN
// RUN: cat %t/preset.mlir %t/mine.mlir | filecheck %s
// RUN: not hespas-opt %s --calibrated-annotate="node=B200_180GB attention=%t/shape.json" 2>&1 | filecheck %s --check-prefix=RATES

/// A file of one's own that is based on a preset has its constants, at its limit of power or without one, or constants of its
/// own beside them. One of a library of attention has a rate for each pair of sizes.

// CHECK: stablehlo.dot {{.*}}latency_ns = [[T:[0-9.e+]+]]
// CHECK: constants = "{{.*}}B200_180GB
// CHECK: stablehlo.dot {{.*}}latency_ns = [[T]]
// UNLIMITED: stablehlo.dot {{.*}}bound = "compute"
// OWN: stablehlo.dot {{.*}}kernel_class = "product.bf16"
// RATES: error: {{.*}}tflops needs one number for each pair of queries and head_size
func.func @main(%x: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = stablehlo.dot %x, %x : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %0 : tensor<8192x8192xbf16>
}
