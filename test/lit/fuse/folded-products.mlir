// RUN: hespas-opt %s --fuse | filecheck %s

/// A transpose of the shared operand is folded first, so that the two products are one.

// CHECK: "mhlo.fusion"(%arg0, %{{.*}})
// CHECK: stablehlo.dot_general {{.*}} contracting_dims = [0] x [0] {{.*}} -> tensor<128x32xf32>
// CHECK-NOT: stablehlo.dot_general
func.func @main(%x: tensor<64x128xf32>, %a: tensor<64x16xf32>, %b: tensor<64x16xf32>) -> (tensor<128x16xf32>, tensor<128x16xf32>) {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<64x128xf32>) -> tensor<128x64xf32>
  %0 = stablehlo.dot_general %t, %a, contracting_dims = [1] x [0] : (tensor<128x64xf32>, tensor<64x16xf32>) -> tensor<128x16xf32>
  %1 = stablehlo.dot_general %x, %b, contracting_dims = [0] x [0] : (tensor<64x128xf32>, tensor<64x16xf32>) -> tensor<128x16xf32>
  return %0, %1 : tensor<128x16xf32>, tensor<128x16xf32>
}
