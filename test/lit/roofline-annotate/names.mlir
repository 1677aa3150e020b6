// RUN: not hespas-opt %s --roofline-annotate=node=H100 2>&1 | filecheck %s --check-prefix=NODE
// RUN: not hespas-opt %s --roofline-annotate=nod=H100_80GB 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not hespas-opt %s --roofline-annotate=node=none.json 2>&1 | filecheck %s --check-prefix=FILE
// RUN: hespas-opt %s --roofline-annotate=node=TPUv3 --disable-output 2>&1 | filecheck %s --check-prefix=CHIP

/// A wrong name is one line that suggests the near one.

// NODE: error: no node preset is named 'H100'; did you mean 'H100_80GB', 'H100_96GB_HBM2e', 'H100_PCIe_80GB'?
// OPTION: error: roofline-annotate has no option 'nod'; did you mean 'node'?
// FILE: none.json: error: cannot read it: No such file or directory

/// A name that is also that of another node, in the published presets, is noted.

// CHIP: roofline-annotate: TPUv3 is the chip; the published preset of this name is one core, TPUv3_core
module {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
