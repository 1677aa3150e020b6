// RUN: hespas-opt %s --sink-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-transposes --sink-transposes --split-input-file | filecheck %s

/// A product of matrices is transposed before its slices where they meet another product that is not, as the gates of
/// recurrent cells under vmap. (XLA of jaxlib 0.12.0.1.)

// CHECK-LABEL: module @gates
module @gates {
  // CHECK: %[[Q:.*]] = stablehlo.dot_general %arg2, %arg1
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[Q]], dims = [1, 0] : (tensor<12x6xf32>) -> tensor<6x12xf32>
  // CHECK-NEXT: %[[A:.*]] = stablehlo.slice %[[T]] [0:6, 0:4]
  // CHECK-NEXT: %[[B:.*]] = stablehlo.slice %[[T]] [0:6, 4:12:2]
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.add %{{.*}}, %[[A]]
  // CHECK: stablehlo.add %{{.*}}, %[[B]]
  func.func @main(%x: tensor<6x8xf32>, %h: tensor<6x8xf32>, %w: tensor<12x8xf32>, %v: tensor<4x8xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
    %0 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [1] : (tensor<6x8xf32>, tensor<4x8xf32>) -> tensor<6x4xf32>
    %1 = stablehlo.dot_general %w, %h, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<6x8xf32>) -> tensor<12x6xf32>
    %2 = stablehlo.slice %1 [0:4, 0:6] : (tensor<12x6xf32>) -> tensor<4x6xf32>
    %3 = stablehlo.slice %1 [4:12:2, 0:6] : (tensor<12x6xf32>) -> tensor<4x6xf32>
    %4 = stablehlo.transpose %2, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %5 = stablehlo.transpose %3, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %6 = stablehlo.add %0, %4 : tensor<6x4xf32>
    %7 = stablehlo.add %0, %5 : tensor<6x4xf32>
    return %6, %7 : tensor<6x4xf32>, tensor<6x4xf32>
  }
}

// -----

/// So it is where a part of its rows meets what is in the order of its dimensions.

// CHECK-LABEL: module @carried
module @carried {
  // CHECK: %[[Q:.*]] = stablehlo.dot_general %arg1, %arg0
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[Q]], dims = [1, 0] : (tensor<12x6xf32>) -> tensor<6x12xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.multiply %{{.*}}, %arg2
  func.func @main(%h: tensor<6x8xf32>, %w: tensor<12x8xf32>, %c: tensor<6x4xf32>) -> tensor<6x4xf32> {
    %1 = stablehlo.dot_general %w, %h, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<6x8xf32>) -> tensor<12x6xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<12x6xf32>) -> tensor<6x12xf32>
    %3 = stablehlo.slice %2 [0:6, 4:8] : (tensor<6x12xf32>) -> tensor<6x4xf32>
    %4 = stablehlo.multiply %3, %c : tensor<6x4xf32>
    return %4 : tensor<6x4xf32>
  }
}

// -----

/// Slices of which something reads the untransposed elements, or that are transposed differently, stay.

// CHECK-LABEL: module @read_as_they_are
module @read_as_they_are {
  // CHECK: %[[Q:.*]] = stablehlo.dot_general
  // CHECK-NEXT: stablehlo.slice %[[Q]] [0:4, 0:6]
  func.func @main(%h: tensor<6x8xf32>, %w: tensor<12x8xf32>, %c: tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<4x6xf32>) {
    %1 = stablehlo.dot_general %w, %h, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<6x8xf32>) -> tensor<12x6xf32>
    %2 = stablehlo.slice %1 [0:4, 0:6] : (tensor<12x6xf32>) -> tensor<4x6xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    return %3, %2 : tensor<6x4xf32>, tensor<4x6xf32>
  }
}

// -----

// CHECK-LABEL: module @different_orders
module @different_orders {
  // CHECK: %[[Q:.*]] = stablehlo.dot_general
  // CHECK-NEXT: stablehlo.slice %[[Q]]
  // CHECK-NEXT: stablehlo.slice %[[Q]]
  func.func @main(%h: tensor<6x8xf32>, %w: tensor<12x3x8xf32>) -> (tensor<6x4x3xf32>, tensor<3x4x6xf32>) {
    %1 = stablehlo.dot_general %w, %h, contracting_dims = [2] x [1] : (tensor<12x3x8xf32>, tensor<6x8xf32>) -> tensor<12x3x6xf32>
    %2 = stablehlo.slice %1 [0:4, 0:3, 0:6] : (tensor<12x3x6xf32>) -> tensor<4x3x6xf32>
    %3 = stablehlo.slice %1 [4:8, 0:3, 0:6] : (tensor<12x3x6xf32>) -> tensor<4x3x6xf32>
    %4 = stablehlo.transpose %2, dims = [2, 0, 1] : (tensor<4x3x6xf32>) -> tensor<6x4x3xf32>
    %5 = stablehlo.transpose %3, dims = [1, 0, 2] : (tensor<4x3x6xf32>) -> tensor<3x4x6xf32>
    return %4, %5 : tensor<6x4x3xf32>, tensor<3x4x6xf32>
  }
}
