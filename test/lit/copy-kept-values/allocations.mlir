// RUN: hespas-opt %s --copy-kept-values | filecheck %s

/// Two updates of one array without contents write to an array each, and none is copied.

// CHECK-LABEL: func.func @main
// CHECK-NOT: mhlo.copy
// CHECK-COUNT-2: @AllocateBuffer
// CHECK-NOT: mhlo.copy
func.func @main(%x: tensor<1x512xf32>, %i: tensor<i32>) -> (tensor<8x512xf32>, tensor<8x512xf32>) {
  %a = stablehlo.custom_call @AllocateBuffer() : () -> tensor<8x512xf32>
  %0 = stablehlo.dynamic_update_slice %a, %x, %i, %i : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>, tensor<i32>) -> tensor<8x512xf32>
  %1 = stablehlo.dynamic_update_slice %a, %x, %i, %i : (tensor<8x512xf32>, tensor<1x512xf32>, tensor<i32>, tensor<i32>) -> tensor<8x512xf32>
  return %0, %1 : tensor<8x512xf32>, tensor<8x512xf32>
}
