// RUN: hespas-opt %s --xla-optimize=target=cpu,dims=arg0=8x16 | filecheck %s
// RUN: hespas-opt %s '--xla-optimize=target=cpu dims=arg0=8x16 disable=fusion' | filecheck %s --check-prefix=APART

/// Symbolic dimensions are set before XLA sees them; a disabled pass of XLA does not run.

// CHECK: func.func @main(%{{.*}}: tensor<8x16xf32>
// CHECK: "mhlo.fusion"
// CHECK-NOT: "mhlo.fusion"
// APART: tensor<8x16xf32>
// APART-COUNT-2: "mhlo.fusion"
func.func @main(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x16xf32>
  %1 = stablehlo.multiply %0, %x : tensor<?x16xf32>
  return %1 : tensor<?x16xf32>
}
