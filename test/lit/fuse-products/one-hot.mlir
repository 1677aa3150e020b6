// RUN: hespas-opt %s --fuse-products --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-products --fuse-products --split-input-file | filecheck %s

/// The kernel of a product with a one-hot matrix makes the positions that it compares the classes with.

// CHECK-LABEL: module @broadcast
// CHECK: "mhlo.fusion"(%arg0, %arg1)
// CHECK: stablehlo.iota dim = 0 : tensor<512xi32>
// CHECK: stablehlo.compare
// CHECK: stablehlo.convert
// CHECK: stablehlo.dot_general
module @broadcast {
  func.func @main(%t: tensor<1024xi32>, %w: tensor<512x64xbf16>) -> tensor<1024x64xbf16> {
    %0 = stablehlo.iota dim = 0 : tensor<512xi32>
    %1 = stablehlo.broadcast_in_dim %t, dims = [0] : (tensor<1024xi32>) -> tensor<1024x512xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<512xi32>) -> tensor<1024x512xi32>
    %3 = stablehlo.compare EQ, %1, %2 : (tensor<1024x512xi32>, tensor<1024x512xi32>) -> tensor<1024x512xi1>
    %4 = stablehlo.convert %3 : (tensor<1024x512xi1>) -> tensor<1024x512xbf16>
    %5 = stablehlo.dot_general %4, %w, contracting_dims = [1] x [0] : (tensor<1024x512xbf16>, tensor<512x64xbf16>) -> tensor<1024x64xbf16>
    return %5 : tensor<1024x64xbf16>
  }
}

// -----

/// Positions may have all dimensions. Classes that are no argument are compared before.

// CHECK-LABEL: module @whole
// CHECK: %[[O:.*]] = stablehlo.compare {{.*}} tensor<1024x256xi32>
// CHECK: "mhlo.fusion"(%arg0, %arg1)
// CHECK: stablehlo.iota dim = 1 : tensor<1024x512xi32>
// CHECK: "mhlo.fusion"(%[[O]], %arg2)
// CHECK-NOT: stablehlo.compare
module @whole {
  func.func @main(%t: tensor<1024xi32>, %w: tensor<512x64xbf16>, %v: tensor<256x64xbf16>) -> (tensor<1024x64xbf16>, tensor<1024x64xbf16>) {
    %n = stablehlo.negate %t : tensor<1024xi32>
    %i = stablehlo.iota dim = 1 : tensor<1024x256xi32>
    %b = stablehlo.broadcast_in_dim %n, dims = [0] : (tensor<1024xi32>) -> tensor<1024x256xi32>
    %c = stablehlo.compare EQ, %b, %i : (tensor<1024x256xi32>, tensor<1024x256xi32>) -> tensor<1024x256xi1>
    %0 = stablehlo.iota dim = 1 : tensor<1024x512xi32>
    %1 = stablehlo.broadcast_in_dim %t, dims = [0] : (tensor<1024xi32>) -> tensor<1024x512xi32>
    %2 = stablehlo.compare EQ, %1, %0 : (tensor<1024x512xi32>, tensor<1024x512xi32>) -> tensor<1024x512xi1>
    %3 = stablehlo.convert %2 : (tensor<1024x512xi1>) -> tensor<1024x512xbf16>
    %4 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0] : (tensor<1024x512xbf16>, tensor<512x64xbf16>) -> tensor<1024x64xbf16>
    %5 = stablehlo.convert %c : (tensor<1024x256xi1>) -> tensor<1024x256xbf16>
    %6 = stablehlo.dot_general %5, %v, contracting_dims = [1] x [0] : (tensor<1024x256xbf16>, tensor<256x64xbf16>) -> tensor<1024x64xbf16>
    return %4, %6 : tensor<1024x64xbf16>, tensor<1024x64xbf16>
  }
}
