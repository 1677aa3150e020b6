// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_80GB 2>&1 | filecheck %s
// RUN: hespas-opt %s --annotate="estimator=calibrated node=A100_SXM_80GB" 2>&1 | filecheck %s --check-prefix=SAME
// RUN: hespas-opt %s --calibrated-annotate=node=A40_48GB 2>&1 | filecheck %s --check-prefix=LIKE
// RUN: hespas-opt %s --calibrated-annotate=node=Gaudi3 2>&1 | filecheck %s --check-prefix=SHEET
// RUN: not hespas-opt %s --calibrated-annotate=node=A100_SMX_80GB 2>&1 | filecheck %s --check-prefix=NAME

/// What is unsure of the constants is said, counted, and on the op.

// CHECK: calibrated-annotate: 1 distinct kernel assumed: kernels of this class were not measured, the band is wider
// CHECK: calibrated-annotate: 1 distinct kernel extrapolated: beyond the measured sizes, the band is wider
// CHECK: hespas.target = {constants = "A100_SXM_80GB, calibrated {{[-0-9]+}}, the rest of {{.*}}; distinct kernels: 1 assumed, 1 extrapolated", {{.*}}estimator = "calibrated {{[0-9]+}}", {{.*}}job_devices = 1 : i64, node = "A100_SXM_80GB"
// LIKE: constants = "A40_48GB, constants of A100_SXM_80GB{{.*}} transferred"
// SHEET: constants = "Gaudi3, no constants: rates of the data sheet, as the roofline; distinct kernels: {{[0-9]+}} assumed"
// NAME: no node preset is named 'A100_SMX_80GB'
module @m {
  // CHECK-LABEL: func.func public @main
  // SAME-LABEL: func.func public @main
  // LIKE-LABEL: func.func public @main
  func.func public @main(%a: tensor<2048x2048xbf16>, %b: tensor<2048x262144xbf16>, %t: tensor<4096x3xf32>, %i: tensor<64x1xi32>) -> (tensor<2048x2048xbf16>, tensor<2048x262144xbf16>, tensor<64x3xf32>, tensor<3x4096xf32>) {
    /// The band stands around the time.
    // CHECK-NEXT: stablehlo.dot {{.*}}bound = "compute", digest = "{{[0-9a-f_]+}}", dtype = "bf16", estimator = "calibrated", {{.*}}high_ns = {{.*}}kernel_class = "product.bf16", {{.*}}latency_ns = {{.*}}low_ns = {{[0-9.E+]+}} : f64, read_bytes = 16777216 : i64
    // SAME-NEXT: stablehlo.dot {{.*}}estimator = "calibrated"
    // LIKE-NEXT: stablehlo.dot {{.*}}tag = "transferred"
    // SHEET: stablehlo.dot {{.*}}bound = "compute"{{.*}}tag = "assumed"
    %0 = stablehlo.dot %a, %a : (tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16>
    // CHECK-NEXT: stablehlo.dot {{.*}}tag = "extrapolated"
    %1 = stablehlo.dot %a, %b : (tensor<2048x2048xbf16>, tensor<2048x262144xbf16>) -> tensor<2048x262144xbf16>
    // CHECK-NEXT: stablehlo.gather
    // CHECK: bound = "launch"{{.*}}tag = "assumed"
    %2 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (tensor<4096x3xf32>, tensor<64x1xi32>) -> tensor<64x3xf32>
    /// A view takes no launch, and no attribute.
    // CHECK-NEXT: stablehlo.reshape %{{[0-9a-z]+}} :
    %3 = stablehlo.reshape %t : (tensor<4096x3xf32>) -> tensor<3x4096xf32>
    return %0, %1, %2, %3 : tensor<2048x2048xbf16>, tensor<2048x262144xbf16>, tensor<64x3xf32>, tensor<3x4096xf32>
  }
}
