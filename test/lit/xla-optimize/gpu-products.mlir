// RUN: hespas-opt %s --xla-optimize=target=A100_SXM_40GB,stage=scheduled | filecheck %s --check-prefix=TRITON
// RUN: hespas-opt %s --xla-optimize=target=A100_SXM_40GB,stage=scheduled,triton-gemm=false | filecheck %s
// RUN: hespas-opt %s --xla-optimize=target=A100_SXM_40GB,stage=scheduled,flags=--xla_gpu_enable_triton_gemm=false | filecheck %s
// RUN: hespas-opt %s --xla-optimize=target=A100_SXM_40GB | filecheck %s --check-prefix=TRITON
// REQUIRES: gpu-compiler

/// Who computes a product: Triton, or cuBLAS by the option or by XLA's own flag.

// CHECK: @__cublas
// TRITON-NOT: @__cublas
// TRITON: stablehlo.dot
func.func @main(%a: tensor<512x512xbf16>, %b: tensor<512x512xbf16>) -> tensor<512x512xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
  return %0 : tensor<512x512xbf16>
}
