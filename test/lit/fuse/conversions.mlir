// RUN: hespas-opt %s --fuse | filecheck %s
// RUN: hespas-opt %s --fuse=conversions=none | filecheck %s --check-prefix=NONE

/// A product reads what it converts itself, unless the GPU is older than that: then another kernel writes it.

// CHECK: "mhlo.fusion"(%arg0, %arg1)
// CHECK: stablehlo.convert
// CHECK: stablehlo.dot_general
// CHECK-NOT: "mhlo.fusion"
// NONE-NOT: "mhlo.fusion"
// NONE: stablehlo.convert
// NONE: stablehlo.dot_general
// NONE-NOT: "mhlo.fusion"
func.func @main(%x: tensor<1024x1024xi8>, %w: tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16> {
  %0 = stablehlo.convert %x : (tensor<1024x1024xi8>) -> tensor<1024x1024xbf16>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  return %1 : tensor<1024x1024xbf16>
}
