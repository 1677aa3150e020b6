// RUN: hespas-opt %s --expand-vector-products --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-vector-products --expand-vector-products --simplify --split-input-file | filecheck %s

/// Products of vectors of any type of numbers are expanded; those of 16 bits are added in f32.

// CHECK-LABEL: module @types
module @types {
  // CHECK-NOT: stablehlo.dot_general
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xf32>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xf64>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xi8>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xi16>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xi32>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xi64>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xui8>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xui16>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xui32>
  // CHECK: stablehlo.reduce{{.*}} : (tensor<4x8xui64>
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%f16: tensor<4x8xf16>, %f64: tensor<4x8xf64>, %i8: tensor<4x8xi8>, %i16: tensor<4x8xi16>, %i32: tensor<4x8xi32>, %i64: tensor<4x8xi64>, %ui8: tensor<4x8xui8>, %ui16: tensor<4x8xui16>, %ui32: tensor<4x8xui32>, %ui64: tensor<4x8xui64>)
      -> (tensor<4xf16>, tensor<4xf64>, tensor<4xi8>, tensor<4xi16>, tensor<4xi32>, tensor<4xi64>, tensor<4xui8>, tensor<4xui16>, tensor<4xui32>, tensor<4xui64>) {
    %0 = stablehlo.dot_general %f16, %f16, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4xf16>
    %1 = stablehlo.dot_general %f64, %f64, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xf64>, tensor<4x8xf64>) -> tensor<4xf64>
    %2 = stablehlo.dot_general %i8, %i8, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xi8>, tensor<4x8xi8>) -> tensor<4xi8>
    %3 = stablehlo.dot_general %i16, %i16, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xi16>, tensor<4x8xi16>) -> tensor<4xi16>
    %4 = stablehlo.dot_general %i32, %i32, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4xi32>
    %5 = stablehlo.dot_general %i64, %i64, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4xi64>
    %6 = stablehlo.dot_general %ui8, %ui8, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xui8>, tensor<4x8xui8>) -> tensor<4xui8>
    %7 = stablehlo.dot_general %ui16, %ui16, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xui16>, tensor<4x8xui16>) -> tensor<4xui16>
    %8 = stablehlo.dot_general %ui32, %ui32, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xui32>, tensor<4x8xui32>) -> tensor<4xui32>
    %9 = stablehlo.dot_general %ui64, %ui64, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xui64>, tensor<4x8xui64>) -> tensor<4xui64>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<4xf16>, tensor<4xf64>, tensor<4xi8>, tensor<4xi16>, tensor<4xi32>, tensor<4xi64>, tensor<4xui8>, tensor<4xui16>, tensor<4xui32>, tensor<4xui64>
  }
}

// -----

/// A batch of products of matrices stays.

// CHECK-LABEL: module @matrices
module @matrices {
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.multiply
  func.func @main(%x: tensor<4x8x16xf32>, %y: tensor<4x16x8xf32>) -> tensor<4x8x8xf32> {
    %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    return %0 : tensor<4x8x8xf32>
  }
}
