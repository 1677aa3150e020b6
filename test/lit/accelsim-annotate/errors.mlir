// RUN: not hespas-opt %s --accelsim-annotate 2>&1 | filecheck %s --check-prefix=FOLDER
// RUN: not hespas-opt %s --accelsim-annotate=reports=%S 2>&1 | filecheck %s
// RUN: hespas-opt %s --accelsim-annotate="reports=%S keep-going" 2>&1 | filecheck %s --check-prefix=GAP

/// A region without a report is named, with the file where one is looked for.

// FOLDER: error: reports is not set; set reports to the folder with the output of Accel-Sim
// CHECK: errors.mlir:{{[0-9:]+}}: error: 'stablehlo.dot_general': there is no report {{.*}}.log; hespas measure accelsim writes the regions
// GAP: warning: 1 op without a full cost
// GAP: gap = "stablehlo.dot_general: there is no report
module {
  func.func public @main(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }
}
