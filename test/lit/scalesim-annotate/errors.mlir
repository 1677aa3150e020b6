// RUN: not hespas-opt %s --scalesim-annotate="node=TPUv4 python=/nowhere/python cache=none" 2>&1 | filecheck %s --check-prefix=PYTHON
// RUN: not hespas-opt %s --scalesim-annotate="node=TPUv4 largest=100 python=/nowhere/python cache=none" 2>&1 | filecheck %s --check-prefix=LARGEST
// RUN: not hespas-opt %s --scalesim-annotate="node=TPUv4 dataflow=best" 2>&1 | filecheck %s --check-prefix=DATAFLOW

/// An interpreter without SCALE-Sim, and a product that would take too long.

// PYTHON: error: /nowhere/python cannot be run: No such file or directory; pip install 'hespas[scalesim]'
// LARGEST: errors.mlir:{{[0-9:]+}}: error: 'stablehlo.dot_general': the product takes {{[0-9]+}} cycles, {{.*}}--systolic-annotate=variant=scalesim
// DATAFLOW: error: scalesim: setting 'dataflow': Input should be 'ws', 'os' or 'is'
module {
  func.func public @main(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }
}
