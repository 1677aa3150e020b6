// RUN: hespas-opt %s --assign-orders | filecheck %s
// RUN: hespas-opt %s --assign-orders --assign-orders | filecheck %s

/// What a loop reads from around it is a value like an argument, though it is computed of a product.

// CHECK-NOT: stablehlo.transpose
module {
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x128xf32>, %c: tensor<2x32x2x32xf32>, %y: tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x128xf32>) -> tensor<64x128xf32>
    %s = stablehlo.slice %0 [0:64, 0:64] : (tensor<64x128xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %s : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %k = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<2x2x32x32xf32>
    %2:2 = stablehlo.while(%i = %zero, %a = %start) : tensor<i32>, tensor<2x2x32x32xf32>
     cond {
      %less = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %3 = stablehlo.dot_general %y, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
      stablehlo.return %next, %3 : tensor<i32>, tensor<2x2x32x32xf32>
    }
    return %2#1 : tensor<2x2x32x32xf32>
  }
}
