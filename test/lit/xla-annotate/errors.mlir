// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu cache=none" 2>&1 | filecheck %s
// RUN: hespas-opt %s --split-linear --xla-annotate="device=cpu cache=none keep-going" 2>&1 | filecheck %s --check-prefix=GAP
// RUN: not hespas-opt %s --split-linear --xla-annotate=device=tpu 2>&1 | filecheck %s --check-prefix=DEVICE
// RUN: not hespas-opt %s --split-linear --xla-annotate=flags=fast 2>&1 | filecheck %s --check-prefix=FLAGS
// RUN: not hespas-opt %s --split-linear --xla-annotate="device=cpu cache=none flags=xla_fast=1" 2>&1 | filecheck %s --check-prefix=OPTION

/// What XLA cannot compile is one error with the region and the reason, or a gap.

// CHECK: errors.mlir:{{[0-9:]+}}: error: {{.*}}@region_0 could not be measured: XLA does not compile it: {{.*}}nobody
// CHECK-SAME: use --keep-going to count it as a gap
// DEVICE: error: xla: setting 'device': Input should be 'auto', 'cpu', 'cuda' or 'rocm'
// FLAGS: error: flags: 'fast' is not a flag of XLA, whose names begin with xla_
// OPTION: error: {{.*}}No such compile option: 'xla_fast'
module {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // GAP: gap = "{{.*}}XLA does not compile it
    %0 = stablehlo.custom_call @nobody(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
