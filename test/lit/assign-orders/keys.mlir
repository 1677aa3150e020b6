// RUN: hespas-opt %s --assign-orders --split-input-file | filecheck %s
// RUN: hespas-opt %s --assign-orders --assign-orders --split-input-file | filecheck %s

/// The first product reads its right operand with the positions innermost. What it is computed of
/// has that order, up to the first op that reads something else; so has the left operand, which is
/// multiplied by the same values.

// CHECK-LABEL: module @rotated
module @rotated {
  // CHECK: %[[DOT:.*]] = stablehlo.dot_general %arg0, %arg1, contracting_dims
  // CHECK: %[[ALL:.*]] = stablehlo.reshape %[[DOT]] : (tensor<64x128xf32>) -> tensor<2x32x4x32xf32>
  // CHECK: %[[Q:.*]] = stablehlo.slice %[[ALL]] [0:2, 0:32, 0:2, 0:32]
  // CHECK: %[[K:.*]] = stablehlo.slice %[[ALL]] [0:2, 0:32, 2:4, 0:32]
  // CHECK-DAG: %[[QT:.*]] = stablehlo.transpose %[[Q]], dims = [0, 2, 3, 1]
  // CHECK-DAG: %[[KT:.*]] = stablehlo.transpose %[[K]], dims = [0, 2, 3, 1]
  // CHECK-DAG: %[[TABLE:.*]] = stablehlo.transpose %arg2, dims = [1, 0]
  // CHECK-DAG: stablehlo.broadcast_in_dim %[[TABLE]], dims = [2, 3] : (tensor<32x32xf32>) -> tensor<2x2x32x32xf32>
  // CHECK-DAG: %[[QR:.*]] = stablehlo.multiply %[[QT]], {{.*}} : tensor<2x2x32x32xf32>
  // CHECK-DAG: %[[KR:.*]] = stablehlo.multiply %[[KT]], {{.*}} : tensor<2x2x32x32xf32>
  // CHECK-DAG: %[[QB:.*]] = stablehlo.transpose %[[QR]], dims = [0, 3, 1, 2]
  // CHECK-DAG: %[[KB:.*]] = stablehlo.transpose %[[KR]], dims = [0, 3, 1, 2]
  // CHECK: stablehlo.dot_general %[[QB]], %[[KB]]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x128xf32>, %c: tensor<32x32xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x128xf32>) -> tensor<2x32x4x32xf32>
    %q = stablehlo.slice %1 [0:2, 0:32, 0:2, 0:32] : (tensor<2x32x4x32xf32>) -> tensor<2x32x2x32xf32>
    %k = stablehlo.slice %1 [0:2, 0:32, 2:4, 0:32] : (tensor<2x32x4x32xf32>) -> tensor<2x32x2x32xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<32x32xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %q, %t : tensor<2x32x2x32xf32>
    %3 = stablehlo.multiply %k, %t : tensor<2x32x2x32xf32>
    %4 = stablehlo.dot_general %2, %3, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %4 : tensor<2x2x32x32xf32>
  }
}

// -----

/// Without such an op the product's operand is transposed as a whole.

// CHECK-LABEL: module @plain
module @plain {
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.exponential %1 : tensor<2x32x2x32xf32>
    %3 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %3 : tensor<2x2x32x32xf32>
  }
}

// -----

/// A sum of squares is computed before the copy, because it reads nothing else. What is computed of
/// it has the order of what reads it.

// CHECK-LABEL: module @normalised
module @normalised {
  // CHECK: %[[K:.*]] = stablehlo.reshape %{{.*}} : (tensor<64x128xf32>) -> tensor<2x32x2x64xf32>
  // CHECK: %[[SQUARES:.*]] = stablehlo.multiply %[[K]], %[[K]]
  // CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[SQUARES]]
  // CHECK: %[[TURNED:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 1] : (tensor<2x32x2xf32>) -> tensor<2x2x32xf32>
  // CHECK: %[[ROOT:.*]] = stablehlo.rsqrt %{{.*}} : tensor<2x2x32xf32>
  // CHECK: %[[KT:.*]] = stablehlo.transpose %[[K]], dims = [0, 2, 3, 1]
  // CHECK: stablehlo.broadcast_in_dim %[[ROOT]], dims = [0, 1, 3] : (tensor<2x2x32xf32>) -> tensor<2x2x64x32xf32>
  // CHECK: stablehlo.multiply %[[KT]]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x128xf32>, %y: tensor<2x32x2x64xf32>) -> tensor<2x2x32x32xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<2x32x2x1xf32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x128xf32>) -> tensor<2x32x2x64xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<2x32x2x64xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x32x2x64xf32>, tensor<f32>) -> tensor<2x32x2xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x32x2xf32>) -> tensor<2x32x2x1xf32>
    %5 = stablehlo.add %4, %one : tensor<2x32x2x1xf32>
    %6 = stablehlo.rsqrt %5 : tensor<2x32x2x1xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<2x32x2x1xf32>) -> tensor<2x32x2x64xf32>
    %8 = stablehlo.multiply %1, %7 : tensor<2x32x2x64xf32>
    %9 = stablehlo.dot_general %y, %8, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>) -> tensor<2x2x32x32xf32>
    return %9 : tensor<2x2x32x32xf32>
  }
}

// -----

/// A reshape that divides dimensions is computed of a copy. Rotated halves are concatenated in the
/// order of the product, and dimensions of size 1 do not matter.

// CHECK-LABEL: module @halves
module @halves {
  // CHECK: %[[COPY:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 1] : (tensor<2x32x64xf32>) -> tensor<2x64x32xf32>
  // CHECK: %[[K:.*]] = stablehlo.reshape %[[COPY]] : (tensor<2x64x32xf32>) -> tensor<2x2x32x32xf32>
  // CHECK: %[[A:.*]] = stablehlo.slice %[[K]] [0:2, 0:2, 0:16, 0:32]
  // CHECK: %[[B:.*]] = stablehlo.slice %[[K]] [0:2, 0:2, 16:32, 0:32]
  // CHECK: %[[AR:.*]] = stablehlo.multiply %[[A]]
  // CHECK: %[[BR:.*]] = stablehlo.negate %[[B]]
  // CHECK: stablehlo.concatenate %[[BR]], %[[AR]], dim = 2
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x128xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<32x16xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x128xf32>) -> tensor<64x128xf32>
    %all = stablehlo.reshape %0 : (tensor<64x128xf32>) -> tensor<2x32x1x128xf32>
    %1 = stablehlo.slice %all [0:2, 0:32, 0:1, 0:64] : (tensor<2x32x1x128xf32>) -> tensor<2x32x1x64xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x32x1x64xf32>) -> tensor<2x32x2x32xf32>
    %a = stablehlo.slice %2 [0:2, 0:32, 0:2, 0:16] : (tensor<2x32x2x32xf32>) -> tensor<2x32x2x16xf32>
    %b = stablehlo.slice %2 [0:2, 0:32, 0:2, 16:32] : (tensor<2x32x2x32xf32>) -> tensor<2x32x2x16xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<32x16xf32>) -> tensor<2x32x2x16xf32>
    %3 = stablehlo.multiply %a, %t : tensor<2x32x2x16xf32>
    %4 = stablehlo.negate %b : tensor<2x32x2x16xf32>
    %5 = stablehlo.concatenate %4, %3, dim = 3 : (tensor<2x32x2x16xf32>, tensor<2x32x2x16xf32>) -> tensor<2x32x2x32xf32>
    %6 = stablehlo.dot_general %y, %5, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    %v = stablehlo.slice %all [0:2, 0:32, 0:1, 64:128] : (tensor<2x32x1x128xf32>) -> tensor<2x32x1x64xf32>
    %7 = stablehlo.reshape %v : (tensor<2x32x1x64xf32>) -> tensor<2x32x2x32xf32>
    %8 = stablehlo.dot_general %7, %6, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x32x2x32xf32>, tensor<2x2x32x32xf32>) -> tensor<2x2x32x32xf32>
    return %6, %8 : tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>
  }
}

// -----

/// What two products read in different orders has that of the first; so have copies that are
/// concatenated or padded. The second product reads a transpose.

// CHECK-LABEL: module @two
module @two {
  // CHECK: %[[BOTH:.*]] = stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 1 : (tensor<2x16x2x32xf32>, tensor<2x16x2x32xf32>)
  // CHECK: stablehlo.transpose %[[BOTH]], dims = [0, 2, 3, 1] : (tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
  // CHECK: %[[SCALED:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: %[[BACK:.*]] = stablehlo.transpose %[[SCALED]], dims = [0, 3, 1, 2]
  // CHECK: stablehlo.dot_general %{{.*}}, %[[BACK]], batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3]
  // CHECK: stablehlo.dot_general %[[BACK]], %{{.*}}, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<32x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %a = stablehlo.slice %1 [0:2, 0:16, 0:2, 0:32] : (tensor<2x32x2x32xf32>) -> tensor<2x16x2x32xf32>
    %b = stablehlo.slice %1 [0:2, 16:32, 0:2, 0:32] : (tensor<2x32x2x32xf32>) -> tensor<2x16x2x32xf32>
    %2 = stablehlo.concatenate %b, %a, dim = 1 : (tensor<2x16x2x32xf32>, tensor<2x16x2x32xf32>) -> tensor<2x32x2x32xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<32x32xf32>) -> tensor<2x32x2x32xf32>
    %3 = stablehlo.multiply %2, %t : tensor<2x32x2x32xf32>
    %4 = stablehlo.dot_general %y, %3, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    %5 = stablehlo.dot_general %3, %y, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %4, %5 : tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>
  }
}

// -----

/// Heads before positions: transposes of the program give way to those of the product. The longer
/// part of a concatenation gives its order to the other one.

// CHECK-LABEL: module @heads
module @heads {
  // CHECK: %[[PART:.*]] = stablehlo.transpose %arg3, dims = [0, 2, 3, 1] : (tensor<2x8x2x32xf32>) -> tensor<2x2x32x8xf32>
  // CHECK: stablehlo.concatenate %{{.*}}, %[[PART]], dim = 3 : (tensor<2x2x32x24xf32>, tensor<2x2x32x8xf32>) -> tensor<2x2x32x32xf32>
  func.func @main(%x: tensor<48x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x2x32x32xf32>, %p: tensor<2x8x2x32xf32>, %c: tensor<24x32xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<48x16xf32>, tensor<16x64xf32>) -> tensor<48x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<48x64xf32>) -> tensor<2x24x2x32xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<24x32xf32>) -> tensor<2x24x2x32xf32>
    %r = stablehlo.multiply %1, %t : tensor<2x24x2x32xf32>
    %2 = stablehlo.concatenate %r, %p, dim = 1 : (tensor<2x24x2x32xf32>, tensor<2x8x2x32xf32>) -> tensor<2x32x2x32xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1, 3] : (tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    %4 = stablehlo.dot_general %y, %3, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>) -> tensor<2x2x32x32xf32>
    return %4 : tensor<2x2x32x32xf32>
  }
}

// -----

/// What is computed of a product with a batch is left as it is, and so is what it is added to.

// CHECK-LABEL: module @scores
module @scores {
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x2x32x32xf32>, %z: tensor<2x2x32x32xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x2x32x32xf32>
    %2 = stablehlo.dot_general %y, %z, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>) -> tensor<2x2x32x32xf32>
    %3 = stablehlo.add %2, %1 : tensor<2x2x32x32xf32>
    %s:2 = "stablehlo.sort"(%3, %z) <{dimension = 1 : i64}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>, %m: tensor<f32>, %n: tensor<f32>):
      %lt = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }) : (tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>)
    %4 = stablehlo.dot_general %3, %s#1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>) -> tensor<2x2x32x32xf32>
    return %4 : tensor<2x2x32x32xf32>
  }
}

// -----

/// What else is computed of the keys has their order, but not what is sorted. Queries in groups, or
/// in another shape, cannot pass on the order of the product.

// CHECK-LABEL: module @groups
module @groups {
  // CHECK: %[[ALL:.*]] = stablehlo.reshape %{{.*}} -> tensor<2x32x3x2x32xf32>
  // CHECK: %[[K:.*]] = stablehlo.slice %[[ALL]] [0:2, 0:32, 1:2, 0:2, 0:32]
  // CHECK: %[[SORTED:.*]] = "stablehlo.sort"
  // CHECK: %[[KT:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 3, 1] : (tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
  // CHECK: %[[R:.*]] = stablehlo.multiply %[[KT]]
  // CHECK: %[[EXP:.*]] = stablehlo.exponential %[[R]] : tensor<2x2x32x32xf32>
  // CHECK: %[[E:.*]] = stablehlo.transpose %[[EXP]], dims = [0, 3, 1, 2]
  // CHECK: %[[Q:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x32x2x32xf32>) -> tensor<2x64x32xf32>
  // CHECK: return {{.*}}, %[[E]]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x192xf32>, %c: tensor<32x32xf32>) -> (tensor<2x64x64xf32>, tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>, tensor<2x32x1x2x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x192xf32>) -> tensor<64x192xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x192xf32>) -> tensor<2x32x3x2x32xf32>
    %a = stablehlo.slice %1 [0:2, 0:32, 0:1, 0:2, 0:32] : (tensor<2x32x3x2x32xf32>) -> tensor<2x32x1x2x32xf32>
    %b = stablehlo.slice %1 [0:2, 0:32, 1:2, 0:2, 0:32] : (tensor<2x32x3x2x32xf32>) -> tensor<2x32x1x2x32xf32>
    %s = "stablehlo.sort"(%b) <{dimension = 1 : i64}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %lt = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }) : (tensor<2x32x1x2x32xf32>) -> tensor<2x32x1x2x32xf32>
    %q = stablehlo.reshape %a : (tensor<2x32x1x2x32xf32>) -> tensor<2x32x2x32xf32>
    %k = stablehlo.reshape %b : (tensor<2x32x1x2x32xf32>) -> tensor<2x32x2x32xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<32x32xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %k, %t : tensor<2x32x2x32xf32>
    %3 = stablehlo.multiply %q, %t : tensor<2x32x2x32xf32>
    %4 = stablehlo.dot_general %3, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    %e = stablehlo.exponential %2 : tensor<2x32x2x32xf32>
    %5 = stablehlo.reshape %3 : (tensor<2x32x2x32xf32>) -> tensor<2x64x32xf32>
    %6 = stablehlo.dot_general %5, %5, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x64x32xf32>, tensor<2x64x32xf32>) -> tensor<2x64x64xf32>
    return %6, %4, %e, %s : tensor<2x64x64xf32>, tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>, tensor<2x32x1x2x32xf32>
  }
}
