// RUN: hespas-opt %s --roofline-annotate="node=A100_SXM_40GB per-datatype-flops=\"bf16=1e12\"" | filecheck %s --check-prefix=TYPE
// RUN: hespas-opt %s --roofline-annotate="node=A100_SXM_40GB per-datatype-flops=\"matrix.f16=1e12\"" | filecheck %s --check-prefix=OTHER
// RUN: hespas-opt %s --roofline-annotate="node=A100_SXM_40GB memory-bandwidth=1e9" | filecheck %s --check-prefix=BYTES
// RUN: hespas-opt %s --roofline-annotate="peak-flops=1e12 memory-bandwidth=1e15" | filecheck %s --check-prefix=PEAK
// RUN: not hespas-opt %s --roofline-annotate=peak-flops=1e12 2>&1 | filecheck %s --check-prefix=ALONE
// RUN: not hespas-opt %s --roofline-annotate="node=A100_SXM_40GB memory-bandwidth=-1" 2>&1 | filecheck %s --check-prefix=SIGN

/// 2 * 512^3 operations in bf16 at 1e12 a second take 268,435.456 ns; 3 * 512^2 * 2 bytes at 1e9 take
/// 1,572,864 ns. A rate of another type changes nothing.

// TYPE: hespas.target = {constants = "A100_SXM_40GB with per-datatype-flops given"
// TYPE: latency_ns = 268435.45{{[0-9]+}} : f64
// OTHER: latency_ns = 1011.488{{[0-9]+}} : f64
// BYTES: bound = "memory"{{.*}}latency_ns = 0x4138000000000000 : f64
// PEAK: node = "custom"
// PEAK: latency_ns = 268435.45{{[0-9]+}} : f64
// ALONE: error: roofline-annotate: peak-flops alone does not describe a node; set memory-bandwidth too, or name a node
// SIGN: error: {{.*}}memory-bandwidth
func.func @main(%a: tensor<512x512xbf16>) -> tensor<512x512xbf16> {
  %0 = stablehlo.dot %a, %a : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
  return %0 : tensor<512x512xbf16>
}
