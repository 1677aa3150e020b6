// REQUIRES: iree
// RUN: hespas-opt %s --split-linear --iree-annotate="cache=none repetitions=3" | filecheck %s
// RUN: not hespas-opt %s --split-linear --iree-annotate="cache=none flags=--nothing" 2>&1 | filecheck %s --check-prefix=FLAGS
// RUN: not hespas-opt %s --split-linear --iree-annotate="cache=none driver=nothing" 2>&1 | filecheck %s --check-prefix=DRIVER
// RUN: not hespas-opt %s --split-linear --iree-annotate=target=sparc 2>&1 | filecheck %s --check-prefix=TARGET

/// Fusions and bitcasts of XLA's optimiser, which IREE does not know, are measured as what they do.

// FLAGS: error: IREE rejects the flags: {{.*}}nothing
// DRIVER: error: IREE has no device 'nothing' here: {{.*}}; its drivers are
// TARGET: error: iree: setting 'target': Input should be 'llvm-cpu', 'vmvx', 'cuda', 'rocm' or 'vulkan'
// CHECK: estimator = "iree 1"
module {
  func.func public @main(%x: tensor<8x16xf32>) -> tensor<16x8xf32> {
    // CHECK: call @region_0({{.*}}bound = "measured", {{.*}}estimator = "iree", {{.*}}latency_ns = {{[0-9.E+]+}}
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<8x16xf32>):
      %1 = mhlo.erf %a : tensor<8x16xf32>
      mhlo.return %1 : tensor<8x16xf32>
    }) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = "mhlo.bitcast"(%0) {result_layout = dense<[0, 1]> : tensor<2xindex>, source_layout = dense<[1, 0]> : tensor<2xindex>} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %3 = stablehlo.tanh %2 : tensor<16x8xf32>
    return %3 : tensor<16x8xf32>
  }
}
