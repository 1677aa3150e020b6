// RUN: hespas-opt %s --fuse --fuse 2>&1 | filecheck %s

/// Kernels are formed once: a second time the module stays, with a warning.

// CHECK: warning: fuse: the module already has fusions and is not changed
// CHECK: "mhlo.fusion"
// CHECK-NOT: "mhlo.fusion"
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %x : tensor<1024xf32>
  %1 = stablehlo.negate %0 : tensor<1024xf32>
  return %1 : tensor<1024xf32>
}
