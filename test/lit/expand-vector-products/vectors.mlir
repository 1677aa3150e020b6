// RUN: hespas-opt %s --expand-vector-products --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-vector-products --expand-vector-products --simplify --split-input-file | filecheck %s

/// A batch of scalar products is multiplied, and added in f32.

// CHECK-LABEL: module @scalar_products
module @scalar_products {
  // CHECK: %[[P:.*]] = stablehlo.multiply %arg0, %arg1 : tensor<4x8xbf16>
  // CHECK: %[[W:.*]] = stablehlo.convert %[[P]] : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  // CHECK: %[[S:.*]] = stablehlo.reduce(%[[W]] init: %{{.*}}) applies stablehlo.add across dimensions = [1]
  // CHECK: %[[R:.*]] = stablehlo.convert %[[S]] : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK: return %[[R]]
  func.func @main(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>) -> tensor<4xbf16> {
    %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4xbf16>
    return %0 : tensor<4xbf16>
  }
}

// -----

/// So is one without a batch, and each matrix of a batch with its vector, as of one token with its
/// cache: the matrix is read as it lies in memory, and its sums are ordered.

// CHECK-LABEL: module @token
module @token {
  // CHECK: %[[V:.*]] = stablehlo.broadcast_in_dim {{.*}} -> tensor<2x24x3x8x1xf32>
  // CHECK: %[[P:.*]] = stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2x24x3x8x1xf32>
  // CHECK: %[[S:.*]] = stablehlo.reduce(%[[P]] init: %{{.*}}) applies stablehlo.add across dimensions = [3] : (tensor<2x24x3x8x1xf32>, tensor<f32>) -> tensor<2x24x3x1xf32>
  // CHECK: stablehlo.transpose {{.*}} -> tensor<2x3x1x24xf32>
  // CHECK: stablehlo.reduce{{.*}} across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  // CHECK-NOT: dot_general
  func.func @main(%q: tensor<2x1x3x8xf32>, %k: tensor<2x24x3x8xf32>, %x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<2x3x1x24xf32>, tensor<f32>) {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x1x3x8xf32>, tensor<2x24x3x8xf32>) -> tensor<2x3x1x24xf32>
    %1 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
    return %0, %1 : tensor<2x3x1x24xf32>, tensor<f32>
  }
}

// -----

/// What contracts nothing, or a dimension of size 1, is multiplied in the order of the result, in its
/// type.

// CHECK-LABEL: module @outer
module @outer {
  // CHECK: stablehlo.multiply {{.*}} : tensor<4x8x16xf32>
  // CHECK-NOT: stablehlo.reduce
  // CHECK: stablehlo.multiply {{.*}} : tensor<8x16x1xf32>
  // CHECK: stablehlo.reshape {{.*}} -> tensor<8x16xf32>
  // CHECK-NOT: stablehlo.reduce
  func.func @main(%x: tensor<4x8xbf16>, %y: tensor<4x16xbf16>, %a: tensor<8x1xf32>, %b: tensor<1x16xf32>) -> (tensor<4x8x16xf32>, tensor<8x16xf32>) {
    %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [] x [] : (tensor<4x8xbf16>, tensor<4x16xbf16>) -> tensor<4x8x16xf32>
    %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x1xf32>, tensor<1x16xf32>) -> tensor<8x16xf32>
    return %0, %1 : tensor<4x8x16xf32>, tensor<8x16xf32>
  }
}

// -----

/// A small product of a matrix and a vector is expanded, also without a batch; a large one is left to
/// a library, and so is each of a batch. The size is that of the matrix and as many elements of the
/// vector as are contracted: 10,000,000 are large.

// CHECK-LABEL: module @sizes
module @sizes {
  // CHECK: stablehlo.multiply {{.*}} : tensor<2498x4000xbf16>
  // CHECK: stablehlo.dot_general %arg1,
  // CHECK: stablehlo.dot_general %arg3,
  // CHECK-NOT: dot_general
  func.func @main(%small: tensor<2498x4000xbf16>, %large: tensor<2499x4000xbf16>, %v: tensor<4000xbf16>, %b: tensor<2x4000x2499xbf16>, %w: tensor<2x4000xbf16>) -> (tensor<2498xbf16>, tensor<2499xbf16>, tensor<2x2499xbf16>) {
    %0 = stablehlo.dot_general %small, %v, contracting_dims = [1] x [0] : (tensor<2498x4000xbf16>, tensor<4000xbf16>) -> tensor<2498xbf16>
    %1 = stablehlo.dot_general %large, %v, contracting_dims = [1] x [0] : (tensor<2499x4000xbf16>, tensor<4000xbf16>) -> tensor<2499xbf16>
    %2 = stablehlo.dot_general %b, %w, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x4000x2499xbf16>, tensor<2x4000xbf16>) -> tensor<2x2499xbf16>
    return %0, %1, %2 : tensor<2498xbf16>, tensor<2499xbf16>, tensor<2x2499xbf16>
  }
}

// -----

/// Other products stay: of matrices, of types that XLA does not multiply like that, and those with an
/// algorithm.

// CHECK-LABEL: module @others
module @others {
  // CHECK-NOT: stablehlo.multiply
  // CHECK-COUNT-3: stablehlo.dot_general
  // CHECK-NOT: stablehlo.multiply
  func.func @main(%x: tensor<4x8xf32>, %c: tensor<4x8xcomplex<f32>>, %d: tensor<4x8xcomplex<f32>>) -> (tensor<4x4xf32>, tensor<4xcomplex<f32>>, tensor<4xf32>) {
    %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.dot_general %c, %d, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8xcomplex<f32>>, tensor<4x8xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    %3 = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
    return %1, %2, %3 : tensor<4x4xf32>, tensor<4xcomplex<f32>>, tensor<4xf32>
  }
}
