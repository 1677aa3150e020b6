// RUN: hespas-opt %s --sink-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-transposes --sink-transposes --split-input-file | filecheck %s

/// A softmax between products is computed in the order of the first; a transpose of the last result undoes it.

// CHECK-LABEL: module @softmax
module @softmax {
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.reduce{{.*}} dimensions = [4]
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.subtract{{.*}} : tensor<2x4x16x3x32xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.dot_general{{.*}} batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1]
  // CHECK-SAME: -> tensor<2x4x16x3x8xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: return
  func.func @main(%q: tensor<2x16x4x3x8xf32>, %k: tensor<2x32x4x8xf32>, %v: tensor<2x32x4x8xf32>) -> tensor<2x4x16x3x8xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3] : (tensor<2x16x4x3x8xf32>, tensor<2x32x4x8xf32>) -> tensor<2x4x16x3x32xf32>
    %1 = stablehlo.transpose %0, dims = [0, 1, 3, 2, 4] : (tensor<2x4x16x3x32xf32>) -> tensor<2x4x3x16x32xf32>
    %2 = stablehlo.reduce(%1 init: %low) applies stablehlo.maximum across dimensions = [4] : (tensor<2x4x3x16x32xf32>, tensor<f32>) -> tensor<2x4x3x16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2, 3] : (tensor<2x4x3x16xf32>) -> tensor<2x4x3x16x32xf32>
    %4 = stablehlo.subtract %1, %3 : tensor<2x4x3x16x32xf32>
    %5 = stablehlo.dot_general %4, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1] : (tensor<2x4x3x16x32xf32>, tensor<2x32x4x8xf32>) -> tensor<2x4x3x16x8xf32>
    %6 = stablehlo.transpose %5, dims = [0, 1, 3, 2, 4] : (tensor<2x4x3x16x8xf32>) -> tensor<2x4x16x3x8xf32>
    return %6 : tensor<2x4x16x3x8xf32>
  }
}

// -----

/// So does one that swaps the sides of the product; dimensions of size 1 may be dropped between.

// CHECK-LABEL: module @swapped
module @swapped {
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.dot_general{{.*}} -> tensor<2x8x16x3xf32>
  // CHECK: stablehlo.transpose {{.*}} dims = [0, 2, 3, 1]
  // CHECK: return
  func.func @main(%q: tensor<2x16x3x8xf32>, %k: tensor<2x32x8xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x16x3x8xf32> {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [3] x [2] : (tensor<2x16x3x8xf32>, tensor<2x32x8xf32>) -> tensor<2x16x3x32xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<2x16x3x32xf32>) -> tensor<2x3x16x32xf32>
    %2 = stablehlo.tanh %1 : tensor<2x3x16x32xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x3x16x32xf32>) -> tensor<2x1x3x16x32xf32>
    %4 = stablehlo.dot_general %v, %3, batching_dims = [0] x [0], contracting_dims = [1] x [4] : (tensor<2x32x8xf32>, tensor<2x1x3x16x32xf32>) -> tensor<2x8x1x3x16xf32>
    %5 = stablehlo.reshape %4 : (tensor<2x8x1x3x16xf32>) -> tensor<2x8x3x16xf32>
    %6 = stablehlo.transpose %5, dims = [0, 3, 2, 1] : (tensor<2x8x3x16xf32>) -> tensor<2x16x3x8xf32>
    return %6 : tensor<2x16x3x8xf32>
  }
}

// -----

/// Otherwise the product reads its own order.

// CHECK-LABEL: module @read
module @read {
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.tanh %{{.*}} : tensor<2x16x3x32xf32>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 1, 3]
  // CHECK: stablehlo.dot_general %[[T]], %arg2
  // CHECK-NEXT: return
  func.func @main(%q: tensor<2x16x3x8xf32>, %k: tensor<2x32x8xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x3x16x8xf32> {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [3] x [2] : (tensor<2x16x3x8xf32>, tensor<2x32x8xf32>) -> tensor<2x16x3x32xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<2x16x3x32xf32>) -> tensor<2x3x16x32xf32>
    %2 = stablehlo.tanh %1 : tensor<2x3x16x32xf32>
    %3 = stablehlo.dot_general %2, %v, batching_dims = [0] x [0], contracting_dims = [3] x [1] : (tensor<2x3x16x32xf32>, tensor<2x32x8xf32>) -> tensor<2x3x16x8xf32>
    return %3 : tensor<2x3x16x8xf32>
  }
}

// -----

/// Heads that are merged, and a mask that is broadcast to them, are made in the parts of the groups.

// CHECK-LABEL: module @groups
module @groups {
  // CHECK: stablehlo.dot_general
  // CHECK-NOT: stablehlo.transpose
  // CHECK: %[[M:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [2, 4] : (tensor<16x32xi1>) -> tensor<2x4x16x3x32xi1>
  // CHECK: %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x4x16x3x32xf32>
  // CHECK: stablehlo.select %[[M]], %{{.*}}, %[[Z]]
  // CHECK: stablehlo.reduce{{.*}} dimensions = [1, 3, 4]
  // CHECK: return
  func.func @main(%q: tensor<2x16x4x3x8xf32>, %k: tensor<2x32x4x8xf32>, %m: tensor<16x32xi1>) -> tensor<2x16xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %zeros = stablehlo.constant dense<0.0> : tensor<2x12x16x32xf32>
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3] : (tensor<2x16x4x3x8xf32>, tensor<2x32x4x8xf32>) -> tensor<2x4x16x3x32xf32>
    %1 = stablehlo.transpose %0, dims = [0, 1, 3, 2, 4] : (tensor<2x4x16x3x32xf32>) -> tensor<2x4x3x16x32xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x4x3x16x32xf32>) -> tensor<2x12x16x32xf32>
    %3 = stablehlo.broadcast_in_dim %m, dims = [2, 3] : (tensor<16x32xi1>) -> tensor<2x12x16x32xi1>
    %4 = stablehlo.select %3, %2, %zeros : tensor<2x12x16x32xi1>, tensor<2x12x16x32xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1, 3] : (tensor<2x12x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    return %5 : tensor<2x16xf32>
  }
}

// -----

/// A slice, a unit dimension and a transpose back are none; a scalar operand stays.

// CHECK-LABEL: module @parts
module @parts {
  // CHECK: stablehlo.dot_general
  // CHECK: stablehlo.slice %{{.*}} [0:6, 0:16, 2:3] : (tensor<6x16x3xf32>) -> tensor<6x16x1xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.clamp %{{.*}}, %{{.*}}, %{{.*}} : (tensor<f32>, tensor<6x16xf32>, tensor<f32>)
  // CHECK-NOT: stablehlo.transpose
  // CHECK: return
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>) -> tensor<6x16xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [2, 1, 0] : (tensor<6x16x3xf32>) -> tensor<3x16x6xf32>
    %2 = stablehlo.slice %1 [2:3, 0:16, 0:6] : (tensor<3x16x6xf32>) -> tensor<1x16x6xf32>
    %3 = stablehlo.reshape %2 : (tensor<1x16x6xf32>) -> tensor<16x1x6xf32>
    %4 = stablehlo.clamp %one, %3, %one : (tensor<f32>, tensor<16x1x6xf32>, tensor<f32>) -> tensor<16x1x6xf32>
    %5 = stablehlo.reshape %4 : (tensor<16x1x6xf32>) -> tensor<16x6xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<16x6xf32>) -> tensor<6x16xf32>
    return %6 : tensor<6x16xf32>
  }
}

// -----

/// A transpose stays where it is if what follows needs the order: a sum with an argument, a slice of merged
/// dimensions, a reshape of other parts, a reduction of two values.

// CHECK-LABEL: module @stays
module @stays {
  // CHECK: %[[P:.*]] = stablehlo.dot_general
  // CHECK: stablehlo.transpose %[[P]], dims = [0, 2, 1]
  // CHECK: stablehlo.add %{{.*}}, %arg2 : tensor<6x3x16xf32>
  // CHECK: stablehlo.slice %{{.*}} [1:18, 0:16]
  // CHECK: stablehlo.reshape %{{.*}} -> tensor<12x24xf32>
  // CHECK: stablehlo.reduce{{.*}} dimensions = [2]
  // CHECK: return
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x16x3xf32>, %y: tensor<6x3x16xf32>) -> (tensor<6x3x16xf32>, tensor<17x16xf32>, tensor<6x48xf32>, tensor<12x24xf32>, tensor<6x3xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x16x3xf32>) -> tensor<6x16x3xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<6x16x3xf32>) -> tensor<6x3x16xf32>
    %2 = stablehlo.add %1, %y : tensor<6x3x16xf32>
    %3 = stablehlo.reshape %1 : (tensor<6x3x16xf32>) -> tensor<18x16xf32>
    %4 = stablehlo.slice %3 [1:18, 0:16] : (tensor<18x16xf32>) -> tensor<17x16xf32>
    %5 = stablehlo.reshape %1 : (tensor<6x3x16xf32>) -> tensor<6x48xf32>
    %6 = stablehlo.reshape %1 : (tensor<6x3x16xf32>) -> tensor<12x24xf32>
    %7:2 = stablehlo.reduce(%1 init: %zero), (%y init: %zero) across dimensions = [2] : (tensor<6x3x16xf32>, tensor<6x3x16xf32>, tensor<f32>, tensor<f32>) -> (tensor<6x3xf32>, tensor<6x3xf32>)
     reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<f32>, %d: tensor<f32>) {
      %8 = stablehlo.add %a, %c : tensor<f32>
      %9 = stablehlo.add %b, %d : tensor<f32>
      stablehlo.return %8, %9 : tensor<f32>, tensor<f32>
    }
    return %2, %4, %5, %6, %7#0 : tensor<6x3x16xf32>, tensor<17x16xf32>, tensor<6x48xf32>, tensor<12x24xf32>, tensor<6x3xf32>
  }
}

// -----

/// So do those where values of other parts meet.

// CHECK-LABEL: module @apart
module @apart {
  // CHECK-DAG: stablehlo.transpose %{{.*}} dims = [1, 0] : (tensor<6x35xf32>)
  // CHECK-DAG: stablehlo.transpose %{{.*}} dims = [2, 1, 0]
  // CHECK: stablehlo.add
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x5x7xf32>, %u: tensor<5x8xf32>, %z: tensor<8x7x6xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x5x7xf32>) -> tensor<6x5x7xf32>
    %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<6x5x7xf32>) -> tensor<5x7x6xf32>
    %2 = stablehlo.dot_general %u, %z, contracting_dims = [1] x [0] : (tensor<5x8xf32>, tensor<8x7x6xf32>) -> tensor<5x7x6xf32>
    %3 = stablehlo.transpose %2, dims = [2, 1, 0] : (tensor<5x7x6xf32>) -> tensor<6x7x5xf32>
    %4 = stablehlo.reshape %3 : (tensor<6x7x5xf32>) -> tensor<210xf32>
    %5 = stablehlo.reshape %1 : (tensor<5x7x6xf32>) -> tensor<210xf32>
    %6 = stablehlo.add %4, %5 : tensor<210xf32>
    %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<210xf32>, tensor<f32>) -> tensor<f32>
    return %7 : tensor<f32>
  }
}

// -----

/// The order of the first product goes up to the result of a later one, which is transposed behind ops of one
/// operand, once for all that read it,

// CHECK-LABEL: module @claimed
module @claimed {
  // CHECK: %[[S:.*]] = stablehlo.dot_general %arg0, %arg1
  // CHECK: %[[G:.*]] = stablehlo.dot_general %arg2, %arg3
  // CHECK-NEXT: %[[C:.*]] = stablehlo.convert %[[G]]
  // CHECK-COUNT-2: stablehlo.transpose %[[C]], dims = [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: return
  func.func @main(%k: tensor<8x5xf32>, %q: tensor<5x6xf32>, %g: tensor<6x5xbf16>, %v: tensor<5x8xbf16>, %b: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %k, %q, contracting_dims = [1] x [0] : (tensor<8x5xf32>, tensor<5x6xf32>) -> tensor<8x6xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %2 = stablehlo.dot_general %g, %v, contracting_dims = [1] x [0] : (tensor<6x5xbf16>, tensor<5x8xbf16>) -> tensor<6x8xbf16>
    %3 = stablehlo.convert %2 : (tensor<6x8xbf16>) -> tensor<6x8xf32>
    %4 = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<6xf32>) -> tensor<6x8xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<6x8xf32>
    %6 = stablehlo.multiply %5, %1 : tensor<6x8xf32>
    %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x8xf32>, tensor<f32>) -> tensor<6xf32>
    %8 = stablehlo.divide %3, %4 : tensor<6x8xf32>
    %9 = stablehlo.add %8, %1 : tensor<6x8xf32>
    %10 = stablehlo.reduce(%9 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<6x8xf32>, tensor<f32>) -> tensor<6xf32>
    return %7, %10 : tensor<6xf32>, tensor<6xf32>
  }
}

// -----

/// also if it is the order of its dimensions; what cannot have it is transposed after.

// CHECK-LABEL: module @claimed_plain
module @claimed_plain {
  // CHECK: %[[S:.*]] = stablehlo.dot_general %arg0, %arg1
  // CHECK: %[[G:.*]] = stablehlo.dot_general %arg2, %arg3
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[G]], dims = [1, 0]
  // CHECK: stablehlo.multiply %[[T]]
  // CHECK: %[[M:.*]] = stablehlo.multiply %[[G]], %arg5
  // CHECK: stablehlo.transpose %[[M]], dims = [1, 0]
  func.func @main(%q: tensor<6x5xf32>, %k: tensor<5x8xf32>, %v: tensor<8x5xf32>, %g: tensor<5x6xf32>, %b: tensor<6xf32>, %y: tensor<8x6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %q, %k, contracting_dims = [1] x [0] : (tensor<6x5xf32>, tensor<5x8xf32>) -> tensor<6x8xf32>
    %1 = stablehlo.dot_general %v, %g, contracting_dims = [1] x [0] : (tensor<8x5xf32>, tensor<5x6xf32>) -> tensor<8x6xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %3 = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<6xf32>) -> tensor<6x8xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<6x8xf32>
    %5 = stablehlo.add %0, %4 : tensor<6x8xf32>
    %6 = stablehlo.reduce(%5 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x8xf32>, tensor<f32>) -> tensor<6xf32>
    %7 = stablehlo.multiply %1, %y : tensor<8x6xf32>
    %8 = stablehlo.transpose %7, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %9 = stablehlo.add %0, %8 : tensor<6x8xf32>
    %10 = stablehlo.reduce(%9 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<6x8xf32>, tensor<f32>) -> tensor<6xf32>
    return %6, %10 : tensor<6xf32>, tensor<6xf32>
  }
}

// -----

/// nor has what is divided into other parts.

// CHECK-LABEL: module @claimed_parts
module @claimed_parts {
  // CHECK: stablehlo.tanh %{{.*}} : tensor<4x6x2xf32>
  // CHECK-NEXT: stablehlo.transpose %{{.*}}, dims = [1, 0, 2]
  // CHECK: stablehlo.multiply
  func.func @main(%k: tensor<8x5xf32>, %q: tensor<5x6xf32>, %g: tensor<4x5xf32>, %v: tensor<5x6x2xf32>) -> tensor<6xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %k, %q, contracting_dims = [1] x [0] : (tensor<8x5xf32>, tensor<5x6xf32>) -> tensor<8x6xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %2 = stablehlo.dot_general %g, %v, contracting_dims = [1] x [0] : (tensor<4x5xf32>, tensor<5x6x2xf32>) -> tensor<4x6x2xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<4x6x2xf32>) -> tensor<6x4x2xf32>
    %4 = stablehlo.reshape %3 : (tensor<6x4x2xf32>) -> tensor<6x8xf32>
    %5 = stablehlo.tanh %4 : tensor<6x8xf32>
    %6 = stablehlo.multiply %5, %1 : tensor<6x8xf32>
    %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x8xf32>, tensor<f32>) -> tensor<6xf32>
    return %7 : tensor<6xf32>
  }
}
