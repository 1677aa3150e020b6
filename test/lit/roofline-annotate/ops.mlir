// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="peak-flops=1e12 memory-bandwidth=1e9" | filecheck %s --check-prefix=CUSTOM
// RUN: hespas-opt %s --roofline-annotate="node=A100_SXM_40GB hbm-power-share=0.4" | filecheck %s --check-prefix=POWER
// RUN: hespas-opt %s --roofline-annotate 2>&1 | filecheck %s --check-prefix=DEFAULT

/// The node, the estimator and the constants are on the module.

// CHECK: hespas.target = {constants = "A100_SXM_40GB", devices = 1 : i64, estimator = "roofline 1", {{.*}}node = "A100_SXM_40GB"
// CUSTOM: hespas.target = {constants = "custom with peak-flops, memory-bandwidth given; rates of other types: {{.*}}node = "custom"
// DEFAULT: roofline-annotate: node H100_80GB (the default; node=NAME chooses another)
module @m {
  // CHECK-LABEL: func.func public @main
  // CUSTOM-LABEL: func.func public @main
  // POWER-LABEL: func.func public @main
  func.func public @main(%a: tensor<1024x1024xbf16>, %x: tensor<1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024xf32>, tensor<32x32xf32>) {
    /// MLIR prints a whole number of more than six digits in hex: 8388608 ns below.
    /// 2 * 1024^3 operations on the bf16 tensor cores, though the result is f32.
    // CHECK-NEXT: stablehlo.dot %{{.*}} {hespas.cost = {bound = "compute", digest = "{{[0-9a-f_]+}}", dtype = "bf16", estimator = "roofline", flops = 2147483648 : i64, latency_ns = 6882.9604{{[0-9]*}} : f64, read_bytes = 4194304 : i64, write_bytes = 4194304 : i64}}
    // CUSTOM-NEXT: stablehlo.dot {{.*}}bound = "memory"{{.*}}latency_ns = 0x4160000000000000 : f64
    // POWER-NEXT: stablehlo.dot {{.*}}energy_nj = {{[0-9.E+]+}} : f64
    %0 = stablehlo.dot %a, %a : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xf32>
    // CHECK-NEXT: stablehlo.tanh {{.*}}bound = "memory"{{.*}}read_bytes = 4096 : i64{{.*}}write_bytes = 4096 : i64
    %1 = stablehlo.tanh %x : tensor<1024xf32>
    /// A reshape moves nothing.
    // CHECK-NEXT: stablehlo.reshape %{{[0-9a-z]+}} :
    %2 = stablehlo.reshape %1 : (tensor<1024xf32>) -> tensor<32x32xf32>
    // CHECK-NEXT: return %
    // CHECK-NOT: hespas.cost
    return %0, %1, %2 : tensor<1024x1024xf32>, tensor<1024xf32>, tensor<32x32xf32>
  }
}
