// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s

/// A call of cuBLAS of another size than those that were measured, whose operands do not fit into the cache, takes at
/// least the time to read them from memory.

// CHECK: @__cublas$gemm{{.*}}kernel_class = "product.bf16_xla", latency_ns = 187201.65{{.*}}tag = "extrapolated"
func.func @main(%x: tensor<131072x2048xbf16>, %y: tensor<2048x32xbf16>) -> tensor<131072x32xbf16> {
  %0 = stablehlo.custom_call @__cublas$gemm(%x, %y) {backend_config = "{\22gemm_backend_config\22:{\22dot_dimension_numbers\22:{\22lhs_contracting_dimensions\22:[\221\22],\22rhs_contracting_dimensions\22:[\220\22]}}}"} : (tensor<131072x2048xbf16>, tensor<2048x32xbf16>) -> tensor<131072x32xbf16>
  return %0 : tensor<131072x32xbf16>
}
