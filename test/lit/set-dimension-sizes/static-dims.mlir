// RUN: hespas-opt %s --set-dimension-sizes=dims=arg0_dim0=7 | filecheck %s
// RUN: not hespas-opt %s --set-dimension-sizes=dims=arg0_dim1=0 2>&1 | filecheck %s --check-prefix=KNOWN
// RUN: not hespas-opt %s --set-dimension-sizes=dims=arg0_dim2=4 2>&1 | filecheck %s --check-prefix=KNOWN

/// Static dimensions have no name, even without elements.

// CHECK: func.func public @main(%{{.*}}: tensor<7x0x4xf32>) -> tensor<7x0x4xf32>
// KNOWN: error: prepare: no dimension is named 'arg0_dim{{[12]}}'; known: arg0_dim0; or set them
module {
  func.func public @main(%x: tensor<?x0x4xf32>) -> tensor<?x0x4xf32> {
    return %x : tensor<?x0x4xf32>
  }
}
