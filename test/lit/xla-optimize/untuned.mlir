// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,flags=--xla_gpu_autotune_level=0 2>&1 | filecheck %s
// RUN: hespas-opt %s --xla-optimize=target=H100_80GB 2>&1 | filecheck %s --check-prefix=QUIET
// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,flags=--xla_gpu_autotune_level=4 2>&1 | filecheck %s --check-prefix=QUIET
// RUN: hespas-opt %s --xla-optimize=target=H100_80GB,flags=--xla_gpu_autotune_level=0,triton-gemm=false 2>&1 | filecheck %s --check-prefix=QUIET
// REQUIRES: gpu-compiler

/// A flag that leaves the kernels of Triton untuned is warned of, if there are such kernels.

// CHECK: warning: 1 x a product in a kernel of Triton, which is estimated as if XLA had tuned it on the device
// QUIET-NOT: warning
func.func @main(%a: tensor<512x512xbf16>, %b: tensor<512x512xbf16>) -> tensor<512x512xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
  %1 = stablehlo.tanh %0 : tensor<512x512xbf16>
  return %1 : tensor<512x512xbf16>
}
