// RUN: hespas-opt %s --fuse | filecheck %s

/// The kernel of a product with a one-hot matrix compares the classes with positions, which XLA writes to memory before.

// CHECK: %[[I:.*]] = stablehlo.iota dim = 1 : tensor<1024x512xi32>
// CHECK: "mhlo.fusion"({{.*}}%arg0, %[[I]]
// CHECK: stablehlo.compare
// CHECK: stablehlo.convert
// CHECK: stablehlo.dot_general
func.func @main(%t: tensor<1024xi32>, %w: tensor<512x64xbf16>) -> tensor<1024x64xbf16> {
  %0 = stablehlo.iota dim = 0 : tensor<512xi32>
  %1 = stablehlo.broadcast_in_dim %t, dims = [0] : (tensor<1024xi32>) -> tensor<1024x512xi32>
  %2 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<512xi32>) -> tensor<1024x512xi32>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<1024x512xi32>, tensor<1024x512xi32>) -> tensor<1024x512xi1>
  %4 = stablehlo.convert %3 : (tensor<1024x512xi1>) -> tensor<1024x512xbf16>
  %5 = stablehlo.dot_general %4, %w, contracting_dims = [1] x [0] : (tensor<1024x512xbf16>, tensor<512x64xbf16>) -> tensor<1024x64xbf16>
  return %5 : tensor<1024x64xbf16>
}
