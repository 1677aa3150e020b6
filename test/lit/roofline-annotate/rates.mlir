// RUN: hespas-opt %s --roofline-annotate="node=TPUv5e peak-flops=1e12" 2>&1 | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="node=A100_SXM_40GB" 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: hespas-opt %s --roofline-annotate="peak-flops=1e12 memory-bandwidth=1e12" 2>&1 | filecheck %s --check-prefix=ONE
// RUN: not hespas-opt %s --roofline-annotate=node=TPUv5e 2>&1 | filecheck %s --check-prefix=NONE

/// A type without a rate on the node has that of a type that computes it, or the one for all types, with a
/// warning if the node has rates of types; the module says which. Without either it is an error.

// CHECK: warning: {{.*}}TPUv5e{{.*}} has no own rate for this type: matrix.f64 at default rate
// CHECK: rates of other types: {{.*}}matrix.f64 at default (distinct ops: 1)
// OTHER-NOT: warning
// OTHER: rates of other types: matrix.f8 at matrix.bf16 (distinct ops: 1)
// ONE-NOT: warning
// ONE: rates of other types: matrix.f64 at default (distinct ops: 1), matrix.f8 at default (distinct ops: 1)
// NONE: error: 'stablehlo.dot': node TPUv5e has no peak rate for f64 on its matrix unit; give one with per-datatype-flops=f64=RATE, or peak-flops for all types
func.func @main(%a: tensor<64x64xf64>, %b: tensor<64x64xf8E4M3FN>) -> (tensor<64x64xf64>, tensor<64x64xf32>) {
  %0 = stablehlo.dot %a, %a : (tensor<64x64xf64>, tensor<64x64xf64>) -> tensor<64x64xf64>
  %1 = stablehlo.dot %b, %b : (tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>) -> tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf64>, tensor<64x64xf32>
}
