// RUN: hespas-opt %s --set-dimension-sizes --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --set-dimension-sizes --set-dimension-sizes --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --set-dimension-sizes --split-input-file --mlir-print-debuginfo 2>&1 | filecheck %s --check-prefix=PLACES

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

// -----

/// By MHLO's op, of one of several dimensions, while an argument has a symbolic one.

// CHECK-LABEL: module @mhlo
// CHECK: func.func @main(%[[X:.*]]: tensor<8x4xf32>, %{{.*}}: tensor<i32>, %[[Y:.*]]: tensor<4x128xf32>) -> (tensor<8x4xf32>, tensor<4x128xf32>)
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[Y]] : tensor<4x128xf32>
// CHECK-NEXT: return %[[X]], %[[T]]
module @mhlo {
  func.func @main(%x: tensor<8x4xf32>, %n: tensor<i32>, %y: tensor<4x?xf32>) -> (tensor<?x4xf32, #stablehlo.bounds<8, ?>>, tensor<4x?xf32>) {
    %d = "mhlo.set_dimension_size"(%x, %n) <{dimension = 0 : i64}> : (tensor<8x4xf32>, tensor<i32>) -> tensor<?x4xf32, #stablehlo.bounds<8, ?>>
    %t = stablehlo.tanh %y : tensor<4x?xf32>
    return %d, %t : tensor<?x4xf32, #stablehlo.bounds<8, ?>>, tensor<4x?xf32>
  }
}

// -----

/// In a fusion too, where ops keep their places.

// CHECK-LABEL: module @fusion
// CHECK: ^bb0(%[[X:.*]]: tensor<8x4xf32>, %{{.*}}: tensor<i32>):
// CHECK-NEXT: %[[T:.*]] = mhlo.tanh %[[X]] : tensor<8x4xf32>
// CHECK-NEXT: mhlo.return %[[T]] : tensor<8x4xf32>
// PLACES-LABEL: module @fusion
// PLACES: mhlo.tanh {{.*}} loc(#[[L:.*]])
// PLACES: #[[L]] = loc("tanh in the fusion")
module @fusion {
  func.func @main(%x: tensor<8x4xf32>, %n: tensor<i32>) -> tensor<?x4xf32, #stablehlo.bounds<8, ?>> {
    %0 = "mhlo.fusion"(%x, %n) ({
    ^bb0(%y: tensor<8x4xf32>, %m: tensor<i32>):
      %d = "mhlo.set_dimension_size"(%y, %m) <{dimension = 0 : i64}> : (tensor<8x4xf32>, tensor<i32>) -> tensor<?x4xf32, #stablehlo.bounds<8, ?>>
      %t = mhlo.tanh %d : tensor<?x4xf32, #stablehlo.bounds<8, ?>> loc("tanh in the fusion")
      mhlo.return %t : tensor<?x4xf32, #stablehlo.bounds<8, ?>>
    }) : (tensor<8x4xf32>, tensor<i32>) -> tensor<?x4xf32, #stablehlo.bounds<8, ?>>
    return %0 : tensor<?x4xf32, #stablehlo.bounds<8, ?>>
  }
}
