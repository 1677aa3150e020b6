// RUN: hespas-opt %s --prepare --split-input-file 2>&1 | filecheck %s

/// Dimensions whose size the program sets while it runs have the bound of their type.

// CHECK: warning: dimensions whose size stablehlo.set_dimension_size sets while the program runs have their bounds as sizes
// CHECK-LABEL: module @bounded
// CHECK: func.func @main(%[[X:.*]]: tensor<512x1024xf32>, %{{.*}}: tensor<i32>, %[[W:.*]]: tensor<1024x1024xf32>) -> tensor<512x1024xf32>
// CHECK-NEXT: stablehlo.dot_general %[[X]], %[[W]]
// CHECK-SAME: -> tensor<512x1024xf32>
module @bounded {
  func.func @main(%x: tensor<512x1024xf32>, %n: tensor<i32>, %w: tensor<1024x1024xf32>) -> tensor<?x1024xf32, #stablehlo.bounds<512, ?>> {
    %d = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<512x1024xf32>, tensor<i32>) -> tensor<?x1024xf32, #stablehlo.bounds<512, ?>>
    %y = stablehlo.dot_general %d, %w, contracting_dims = [1] x [0] : (tensor<?x1024xf32, #stablehlo.bounds<512, ?>>, tensor<1024x1024xf32>) -> tensor<?x1024xf32, #stablehlo.bounds<512, ?>>
    return %y : tensor<?x1024xf32, #stablehlo.bounds<512, ?>>
  }
}

// -----

/// Of complex numbers, and of an argument that is bounded itself, too.

// CHECK-LABEL: module @complex
// CHECK: func.func @main(%[[X:.*]]: tensor<8x4xcomplex<f32>>, %{{.*}}: tensor<i32>) -> tensor<8x4xcomplex<f32>>
// CHECK-NEXT: stablehlo.negate %[[X]] : tensor<8x4xcomplex<f32>>
module @complex {
  func.func @main(%x: tensor<?x4xcomplex<f32>, #stablehlo.bounds<8, ?>>, %n: tensor<i32>) -> tensor<?x?xcomplex<f32>, #stablehlo.bounds<8, 4>> {
    %d = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<?x4xcomplex<f32>, #stablehlo.bounds<8, ?>>, tensor<i32>) -> tensor<?x?xcomplex<f32>, #stablehlo.bounds<8, 4>>
    %y = stablehlo.negate %d : tensor<?x?xcomplex<f32>, #stablehlo.bounds<8, 4>>
    return %y : tensor<?x?xcomplex<f32>, #stablehlo.bounds<8, 4>>
  }
}
