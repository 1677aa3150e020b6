// RUN: not hespas-opt %s --systolic-annotate=node=A100_SXM_40GB 2>&1 | filecheck %s --check-prefix=NODE
// RUN: not hespas-opt %s --systolic-annotate="node=TPUv4 array=TPUv44" 2>&1 | filecheck %s --check-prefix=ARRAY
// RUN: not hespas-opt %s --systolic-annotate="node=TPUv4 dataflow=os variant=cocossim" 2>&1 | filecheck %s --check-prefix=VARIANT
// RUN: not hespas-opt %s --systolic-annotate="node=TPUv4 dataflow=rs" 2>&1 | filecheck %s --check-prefix=DATAFLOW
// RUN: not hespas-opt %s --systolic-annotate=node=TPUv4 2>&1 | filecheck %s
// RUN: hespas-opt %s --systolic-annotate="node=TPUv4 keep-going" 2>&1 | filecheck %s --check-prefix=GAP

/// An op without a cost rule, or of a type that the node has no rate for, is named, or a gap.

// NODE: error: node A100_SXM_40GB has no systolic array; use one of TPU7x, {{.*}}TPUv2, {{.*}}, or set rows, columns, clock-hz, lanes, sram-bytes
// ARRAY: error: no accelerator preset is named 'TPUv44'; did you mean 'TPUv4'?
// VARIANT: error: variant cocossim is weight-stationary only, not 'os'
// DATAFLOW: error: systolic: setting 'dataflow': Input should be 'ws', 'os', 'is' or 'best'
// CHECK: errors.mlir:{{[0-9:]+}}: error: 'stablehlo.dot_general': node TPUv4 has no peak rate for f64 on its matrix unit
// GAP: warning: 1 op without a full cost, {{.*}}mystery
// GAP: warning: 1 op without a full cost, {{.*}}has no peak rate for f64
module {
  func.func public @main(%x: tensor<8x8xf64>) -> tensor<8x8xf64> {
    // GAP: stablehlo.dot_general {{.*}}bound = "unknown", {{.*}}gap = "stablehlo.dot_general: node TPUv4
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
    %1 = stablehlo.custom_call @mystery(%0) : (tensor<8x8xf64>) -> tensor<8x8xf64>
    return %1 : tensor<8x8xf64>
  }
}
