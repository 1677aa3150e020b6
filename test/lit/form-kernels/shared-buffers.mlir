// RUN: hespas-opt %s --form-kernels=max-buffers=3 | filecheck %s

/// A buffer that both ops read counts once.

// CHECK: "mhlo.fusion"(%arg0, %arg1)
func.func @main(%x: tensor<1048576xf32>, %y: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %0 = stablehlo.multiply %x, %y : tensor<1048576xf32>
  %1 = stablehlo.add %0, %x : tensor<1048576xf32>
  return %1 : tensor<1048576xf32>
}
