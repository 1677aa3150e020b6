// RUN: hespas-opt %s --assign-orders --split-input-file | filecheck %s
// RUN: hespas-opt %s --assign-orders --assign-orders --split-input-file | filecheck %s

/// A product without a batch gives its operands no order.

// CHECK-LABEL: module @matrix
module @matrix {
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %m: tensor<8x32xf32>, %c: tensor<2x32x2x32xf32>) -> (tensor<8x2x2x32xf32>, tensor<2x2x32x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %3 = stablehlo.dot_general %m, %2, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<2x32x2x32xf32>) -> tensor<8x2x2x32xf32>
    %4 = stablehlo.dot_general %y, %c, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %3, %4 : tensor<8x2x2x32xf32>, tensor<2x2x32x32xf32>
  }
}

// -----

/// Constants are in every order, and what is computed of no product is left as it is, so that
/// nothing meets here.

// CHECK-LABEL: module @alone
module @alone {
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x128xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<32x32xf32>) -> tensor<2x2x32x32xf32> {
    %half = stablehlo.constant dense<0.5> : tensor<2x32x2x32xf32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x128xf32>) -> tensor<2x32x128xf32>
    %2 = stablehlo.slice %1 [0:2, 0:32, 0:64] : (tensor<2x32x128xf32>) -> tensor<2x32x64xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x32x64xf32>) -> tensor<2x32x2x32xf32>
    %4 = stablehlo.multiply %3, %half : tensor<2x32x2x32xf32>
    %t = stablehlo.broadcast_in_dim %c, dims = [1, 3] : (tensor<32x32xf32>) -> tensor<2x32x2x32xf32>
    %5 = stablehlo.multiply %y, %t : tensor<2x32x2x32xf32>
    %6 = stablehlo.dot_general %5, %4, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %6 : tensor<2x2x32x32xf32>
  }
}

// -----

/// What else is computed of the product itself has the order of what it is added to.

// CHECK-LABEL: module @reshaped_twice
module @reshaped_twice {
  // CHECK: %[[KEYS:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: stablehlo.transpose %[[KEYS]], dims = [0, 3, 1, 2]
  // CHECK: %[[SUM:.*]] = stablehlo.add %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: stablehlo.transpose %[[SUM]], dims = [0, 3, 1, 2]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<2x32x2x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %3 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %4 = stablehlo.add %3, %c : tensor<2x32x2x32xf32>
    %5 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %5, %4 : tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>
  }
}

// -----

/// What is computed of the scores is left as it is, though it reads what the keys are multiplied by.

// CHECK-LABEL: module @of_scores
module @of_scores {
  // CHECK: stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: %[[SCORES:.*]] = stablehlo.multiply %{{.*}}, %arg3 : tensor<2x32x2x32xf32>
  // CHECK: stablehlo.add %[[SCORES]], %{{.*}} : tensor<2x32x2x32xf32>
  // CHECK: stablehlo.dot_general %[[SCORES]]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<2x32x2x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %3 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x2x32x32xf32>) -> tensor<2x32x2x32xf32>
    %5 = stablehlo.multiply %4, %c : tensor<2x32x2x32xf32>
    %7 = stablehlo.add %5, %2 : tensor<2x32x2x32xf32>
    %6 = stablehlo.dot_general %5, %y, batching_dims = [0, 2] x [0, 2], contracting_dims = [1] x [1] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %6, %7 : tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>
  }
}

// -----

/// A reshape that divides dimensions passes on the order of the keys.

// CHECK-LABEL: module @grouped
module @grouped {
  // CHECK: %[[KEYS:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: stablehlo.reshape %[[KEYS]] : (tensor<2x2x32x32xf32>) -> tensor<2x2x2x16x32xf32>
  // CHECK: stablehlo.transpose %arg4, dims = [0, 2, 3, 4, 1]
  // CHECK: stablehlo.multiply %{{.*}} : tensor<2x2x2x16x32xf32>
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<2x32x2x32xf32>, %d: tensor<2x32x2x2x16xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2x2x16xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x32x2x32xf32>) -> tensor<2x32x2x2x16xf32>
    %4 = stablehlo.multiply %3, %d : tensor<2x32x2x2x16xf32>
    %5 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %5, %4 : tensor<2x2x32x32xf32>, tensor<2x32x2x2x16xf32>
  }
}

// -----

/// A reduction of several values passes on no order.

// CHECK-LABEL: module @position
module @position {
  // CHECK: %[[KEYS:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: %[[BACK:.*]] = stablehlo.transpose %[[KEYS]], dims = [0, 3, 1, 2]
  // CHECK: %[[BOTH:.*]]:2 = stablehlo.reduce(%[[BACK]] init
  // CHECK: stablehlo.multiply %[[BOTH]]#0, %arg4 : tensor<2x32x2xf32>
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<2x32x2x32xf32>, %d: tensor<2x32x2xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2xf32>, tensor<2x32x2xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %s:2 = stablehlo.reduce(%2 init: %zero), (%1 init: %zero) across dimensions = [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x32x2xf32>, tensor<2x32x2xf32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%e: tensor<f32>, %f: tensor<f32>) {
      %m = stablehlo.maximum %a, %b : tensor<f32>
      %n = stablehlo.add %e, %f : tensor<f32>
      stablehlo.return %m, %n : tensor<f32>, tensor<f32>
    }
    %3 = stablehlo.multiply %s#0, %d : tensor<2x32x2xf32>
    %5 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %5, %3, %s#1 : tensor<2x2x32x32xf32>, tensor<2x32x2xf32>, tensor<2x32x2xf32>
  }
}

// -----

/// What is added to the keys has their order, and so has what it is computed of; the longer part of
/// a concatenation, which is computed of no product, is transposed.

// CHECK-LABEL: module @siblings
module @siblings {
  // CHECK: %[[KEYS:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: stablehlo.transpose %arg4, dims = [0, 2, 3, 1]
  // CHECK: %[[OTHER:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: stablehlo.add %[[KEYS]], %[[OTHER]] : tensor<2x2x32x32xf32>
  // CHECK: %[[LONGER:.*]] = stablehlo.negate %arg4
  // CHECK: %[[TURNED:.*]] = stablehlo.transpose %[[LONGER]], dims = [0, 2, 3, 1]
  // CHECK: stablehlo.concatenate %{{.*}}, %[[TURNED]], dim = 3
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x128xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<2x32x2x32xf32>, %d: tensor<2x32x2x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>, tensor<2x48x2x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x128xf32>) -> tensor<2x32x4x32xf32>
    %a = stablehlo.slice %1 [0:2, 0:32, 0:2, 0:32] : (tensor<2x32x4x32xf32>) -> tensor<2x32x2x32xf32>
    %b = stablehlo.slice %1 [0:2, 0:32, 2:4, 0:32] : (tensor<2x32x4x32xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %a, %c : tensor<2x32x2x32xf32>
    %e = stablehlo.multiply %b, %d : tensor<2x32x2x32xf32>
    %3 = stablehlo.add %2, %e : tensor<2x32x2x32xf32>
    %s = stablehlo.slice %2 [0:2, 0:16, 0:2, 0:32] : (tensor<2x32x2x32xf32>) -> tensor<2x16x2x32xf32>
    %f = stablehlo.negate %d : tensor<2x32x2x32xf32>
    %4 = stablehlo.concatenate %s, %f, dim = 1 : (tensor<2x16x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x48x2x32xf32>
    %5 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %5, %3, %4 : tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>, tensor<2x48x2x32xf32>
  }
}

// -----

/// A reduction of at least 32 elements reads rows.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: %[[KEYS:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: stablehlo.reduce(%[[KEYS]] init: %{{.*}}) applies stablehlo.add across dimensions = [3]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x2x32xf32>, %c: tensor<2x32x2x32xf32>, %d: tensor<2x2x32xf32>) -> tensor<2x2x2xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x32x2x32xf32>, tensor<f32>) -> tensor<2x2x32xf32>
    %4 = stablehlo.multiply %3, %d : tensor<2x2x32xf32>
    %5 = stablehlo.dot_general %y, %4, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x2x32xf32>, tensor<2x2x32xf32>) -> tensor<2x2x2xf32>
    return %5 : tensor<2x2x2xf32>
  }
}

// -----

/// One of fewer elements reads them as they are.

// CHECK-LABEL: module @few
module @few {
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<62x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x2x32xf32>, %c: tensor<2x31x2x32xf32>, %d: tensor<2x2x32xf32>) -> tensor<2x2x2xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<62x16xf32>, tensor<16x64xf32>) -> tensor<62x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<62x64xf32>) -> tensor<2x31x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x31x2x32xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x31x2x32xf32>, tensor<f32>) -> tensor<2x2x32xf32>
    %4 = stablehlo.multiply %3, %d : tensor<2x2x32xf32>
    %5 = stablehlo.dot_general %y, %4, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x2x32xf32>, tensor<2x2x32xf32>) -> tensor<2x2x2xf32>
    return %5 : tensor<2x2x2xf32>
  }
}

// -----

/// The left operand of a product has the order in which it is read, too: batch, rows, contracted.

// CHECK-LABEL: module @left
module @left {
  // CHECK: %[[QUERIES:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x16xf32>
  // CHECK: %[[BACK:.*]] = stablehlo.transpose %[[QUERIES]], dims = [0, 2, 1, 3]
  // CHECK: stablehlo.dot_general %[[BACK]], %arg2
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x32xf32>, %y: tensor<2x32x2x16xf32>, %c: tensor<2x32x2x16xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x32xf32>) -> tensor<2x32x2x16xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x16xf32>
    %3 = stablehlo.dot_general %2, %y, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x16xf32>, tensor<2x32x2x16xf32>) -> tensor<2x2x32x32xf32>
    return %3 : tensor<2x2x32x32xf32>
  }
}

// -----

/// An argument that a product reads gives no order to what else reads it.

// CHECK-LABEL: module @argument
module @argument {
  // CHECK-NOT: stablehlo.transpose
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %y : tensor<2x32x2x32xf32>
    %3 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %4 = stablehlo.dot_general %3, %y, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %4, %2 : tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>
  }
}

// -----

/// The shorter part of a concatenation gives the result no order. The numbers of a clamp have none.

// CHECK-LABEL: module @shorter
module @shorter {
  // CHECK: %[[KEYS:.*]] = stablehlo.clamp %arg5, %{{.*}}, %arg6 : (tensor<f32>, tensor<2x2x32x32xf32>, tensor<f32>)
  // CHECK: stablehlo.transpose %[[KEYS]], dims = [0, 3, 1, 2]
  // CHECK: %[[BACK:.*]] = stablehlo.transpose %[[KEYS]], dims = [0, 3, 1, 2]
  // CHECK: %[[ALL:.*]] = stablehlo.concatenate %[[BACK]], %arg4, dim = 1
  // CHECK: stablehlo.add %[[ALL]], %{{.*}} : tensor<2x72x2x32xf32>
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<2x32x2x32xf32>, %d: tensor<2x40x2x32xf32>, %low: tensor<f32>, %high: tensor<f32>, %e: tensor<2x72x2x32xf32>) -> (tensor<2x2x32x32xf32>, tensor<2x72x2x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %3 = stablehlo.clamp %low, %2, %high : (tensor<f32>, tensor<2x32x2x32xf32>, tensor<f32>) -> tensor<2x32x2x32xf32>
    %4 = stablehlo.concatenate %3, %d, dim = 1 : (tensor<2x32x2x32xf32>, tensor<2x40x2x32xf32>) -> tensor<2x72x2x32xf32>
    %5 = stablehlo.add %4, %e : tensor<2x72x2x32xf32>
    %6 = stablehlo.dot_general %y, %3, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %6, %5 : tensor<2x2x32x32xf32>, tensor<2x72x2x32xf32>
  }
}

// -----

/// Rows between the heads and their features: a reshape that divides these cannot pass on the order.

// CHECK-LABEL: module @divided
module @divided {
  // CHECK: %[[PART:.*]] = stablehlo.slice %{{.*}} [0:2, 0:32, 0:64]
  // CHECK: %[[HEADS:.*]] = stablehlo.reshape %[[PART]] : (tensor<2x32x64xf32>) -> tensor<2x32x2x32xf32>
  // CHECK: stablehlo.transpose %[[HEADS]], dims = [0, 2, 1, 3]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x128xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x128xf32>) -> tensor<2x32x128xf32>
    %2 = stablehlo.slice %1 [0:2, 0:32, 0:64] : (tensor<2x32x128xf32>) -> tensor<2x32x64xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x32x64xf32>) -> tensor<2x32x2x32xf32>
    %4 = stablehlo.multiply %3, %c : tensor<2x32x2x32xf32>
    %5 = stablehlo.dot_general %y, %4, batching_dims = [0, 2] x [0, 2], contracting_dims = [1] x [1] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %5 : tensor<2x2x32x32xf32>
  }
}

// -----

/// A transpose of layouts alone passes on nothing.

// CHECK-LABEL: module @layouts
module @layouts {
  // CHECK: %[[VIEW:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 1, 3] {result_layout
  // CHECK: stablehlo.multiply %[[VIEW]], %arg3 : tensor<2x2x32x32xf32>
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x2x32x32xf32>, %c: tensor<2x2x32x32xf32>) -> tensor<2x2x32x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<2x32x2x32xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1, 3] {result_layout = dense<[3, 2, 1, 0]> : tensor<4xindex>} : (tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    %4 = stablehlo.multiply %3, %c : tensor<2x2x32x32xf32>
    %5 = stablehlo.dot_general %y, %4, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x2x32x32xf32>, tensor<2x2x32x32xf32>) -> tensor<2x2x32x32xf32>
    return %5 : tensor<2x2x32x32xf32>
  }
}

// -----

/// What a branch computes of the keys is of another block.

// CHECK-LABEL: module @branch
module @branch {
  // CHECK: %[[KEYS:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: %[[BACK:.*]] = stablehlo.transpose %[[KEYS]], dims = [0, 3, 1, 2]
  // CHECK: stablehlo.negate %[[BACK]] : tensor<2x32x2x32xf32>
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x32xf32>, %c: tensor<2x32x2x32xf32>, %p: tensor<i1>) -> (tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x32xf32>
    %3 = "stablehlo.if"(%p) ({
      %4 = stablehlo.negate %2 : tensor<2x32x2x32xf32>
      stablehlo.return %4 : tensor<2x32x2x32xf32>
    }, {
      stablehlo.return %y : tensor<2x32x2x32xf32>
    }) : (tensor<i1>) -> tensor<2x32x2x32xf32>
    %5 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x2x32xf32>, tensor<2x32x2x32xf32>) -> tensor<2x2x32x32xf32>
    return %5, %3 : tensor<2x2x32x32xf32>, tensor<2x32x2x32xf32>
  }
}

// -----

/// A dimension of size 1 has no place in an order.

// CHECK-LABEL: module @single
module @single {
  // CHECK: %[[KEYS:.*]] = stablehlo.multiply %{{.*}} : tensor<2x2x32x32xf32>
  // CHECK: %[[BACK:.*]] = stablehlo.transpose %[[KEYS]], dims = [0, 3, 1, 2]
  // CHECK: %[[WHOLE:.*]] = stablehlo.reshape %[[BACK]] : (tensor<2x32x2x32xf32>) -> tensor<2x32x2x1x32xf32>
  // CHECK: stablehlo.dot_general %arg2, %[[WHOLE]]
  func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x64xf32>, %y: tensor<2x32x2x1x32xf32>, %c: tensor<2x32x2x1x32xf32>) -> tensor<2x2x32x1x32x1xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<64x64xf32>) -> tensor<2x32x2x1x32xf32>
    %2 = stablehlo.multiply %1, %c : tensor<2x32x2x1x32xf32>
    %3 = stablehlo.dot_general %y, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [4] : (tensor<2x32x2x1x32xf32>, tensor<2x32x2x1x32xf32>) -> tensor<2x2x32x1x32x1xf32>
    return %3 : tensor<2x2x32x1x32x1xf32>
  }
}
