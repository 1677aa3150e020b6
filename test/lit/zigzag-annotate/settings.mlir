// RUN: not hespas-opt %s --zigzag-annotate="node=TPUv4 mapping=m.yaml" 2>&1 | filecheck %s --check-prefix=MAPPING
// RUN: not hespas-opt %s --zigzag-annotate="node=TPUv4 accelerator=none.yaml mapping=m.yaml" 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not hespas-opt %s --zigzag-annotate="node=H100_80GB" 2>&1 | filecheck %s --check-prefix=NODE
// RUN: not hespas-opt %s --zigzag-annotate="node=TPUv4 jobs=0" 2>&1 | filecheck %s --check-prefix=JOBS

/// Wrong settings are told before anything runs.

// MAPPING: error: mapping needs accelerator; set both
// FILE: error: none.yaml cannot be read: No such file or directory
// NODE: error: node H100_80GB has no systolic array
// JOBS: error: jobs is less than 1
module {
  func.func public @main(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }
}
