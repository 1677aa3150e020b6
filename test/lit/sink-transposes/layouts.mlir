// RUN: hespas-opt %s --sink-transposes --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-transposes --sink-transposes --split-input-file | filecheck %s

/// A softmax of scores whose rows are not innermost reduces columns, as after XLA's layout assignment.

// CHECK-LABEL: module @softmax
module @softmax {
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK-NEXT: %[[C:.*]] = stablehlo.convert %[[D]]
  // CHECK: %[[M:.*]] = stablehlo.reduce(%[[C]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [2]
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[M]], dims = [0, 1, 3]
  // CHECK: %[[S:.*]] = stablehlo.subtract %[[C]], %[[B]]
  // CHECK: %[[E:.*]] = stablehlo.exponential %[[S]]
  // CHECK: stablehlo.transpose %[[E]], dims = [0, 1, 3, 2]
  // CHECK-NEXT: return
  func.func @main(%k: tensor<2x128x8x32xbf16>, %q: tensor<2x64x8x32xbf16>) -> tensor<2x8x64x128xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.dot_general %k, %q, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x128x8x32xbf16>, tensor<2x64x8x32xbf16>) -> tensor<2x8x128x64xbf16>
    %1 = stablehlo.transpose %0, dims = [0, 1, 3, 2] : (tensor<2x8x128x64xbf16>) -> tensor<2x8x64x128xbf16>
    %2 = stablehlo.convert %1 : (tensor<2x8x64x128xbf16>) -> tensor<2x8x64x128xf32>
    %3 = stablehlo.reduce(%2 init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<2x8x64x128xf32>, tensor<f32>) -> tensor<2x8x64xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x8x64xf32>) -> tensor<2x8x64x128xf32>
    %5 = stablehlo.subtract %2, %4 : tensor<2x8x64x128xf32>
    %6 = stablehlo.exponential %5 : tensor<2x8x64x128xf32>
    return %6 : tensor<2x8x64x128xf32>
  }
}

// -----

/// Constants, masks of iotas and broadcasts are made in the order of a product of batches.

// CHECK-LABEL: module @mask
module @mask {
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK: stablehlo.iota dim = 2 : tensor<2x128x64xi32>
  // CHECK: %[[I:.*]] = stablehlo.compare GE
  // CHECK: %[[S:.*]] = stablehlo.select %[[I]], %[[D]], %{{.*}} : tensor<2x128x64xi1>, tensor<2x128x64xf32>
  // CHECK-NEXT: stablehlo.transpose %[[S]], dims = [0, 2, 1]
  func.func @main(%k: tensor<2x128x32xf32>, %q: tensor<2x32x64xf32>) -> tensor<2x64x128xf32> {
    %c = stablehlo.constant dense<-1.0> : tensor<2x64x128xf32>
    %n = stablehlo.constant dense<5> : tensor<2x64x128xi32>
    %0 = stablehlo.dot_general %k, %q, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x128x32xf32>, tensor<2x32x64xf32>) -> tensor<2x128x64xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x128x64xf32>) -> tensor<2x64x128xf32>
    %i = stablehlo.iota dim = 1 : tensor<2x64x128xi32>
    %m = stablehlo.compare GE, %i, %n : (tensor<2x64x128xi32>, tensor<2x64x128xi32>) -> tensor<2x64x128xi1>
    %2 = stablehlo.select %m, %1, %c : tensor<2x64x128xi1>, tensor<2x64x128xf32>
    return %2 : tensor<2x64x128xf32>
  }
}

// -----

/// The transpose of a product of matrices, also of one whose batch is 1, moves behind an op with numbers, an iota or a vector.

// CHECK-LABEL: module @vectors
module @vectors {
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK: %[[R:.*]] = stablehlo.reshape %[[D]] : (tensor<1x128x64xf32>) -> tensor<128x64xf32>
  // CHECK: stablehlo.multiply
  // CHECK-NOT: stablehlo.transpose
  // CHECK: stablehlo.add {{.*}} : tensor<128x64xf32>
  // CHECK-NOT: stablehlo.transpose
  // CHECK: %[[A:.*]] = stablehlo.add {{.*}} : tensor<128x64xf32>
  // CHECK-NEXT: stablehlo.transpose %[[A]], dims = [1, 0]
  func.func @main(%k: tensor<1x128x32xf32>, %q: tensor<1x32x64xf32>, %v: tensor<64xf32>) -> tensor<1x64x128xf32> {
    %c = stablehlo.constant dense<2.0> : tensor<1x64x128xf32>
    %0 = stablehlo.dot_general %k, %q, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<1x128x32xf32>, tensor<1x32x64xf32>) -> tensor<1x128x64xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<1x128x64xf32>) -> tensor<1x64x128xf32>
    %2 = stablehlo.multiply %1, %c : tensor<1x64x128xf32>
    %i = stablehlo.iota dim = 1 : tensor<1x64x128xf32>
    %3 = stablehlo.add %2, %i : tensor<1x64x128xf32>
    %w = stablehlo.broadcast_in_dim %v, dims = [1] : (tensor<64xf32>) -> tensor<1x64x128xf32>
    %4 = stablehlo.add %3, %w : tensor<1x64x128xf32>
    return %4 : tensor<1x64x128xf32>
  }
}

// -----

/// Before a mask in two dimensions it stays where the kernel of the product can write it: nothing gives a product of
/// matrices an order. All that the product meets in an elementwise op has one order.

// CHECK-LABEL: module @matrix
module @matrix {
  // CHECK: %[[D:.*]] = stablehlo.dot_general %arg0, %arg1
  // CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[D]], dims = [1, 0]
  // CHECK: %[[E:.*]] = stablehlo.dot_general %arg2, %arg1
  // CHECK-NEXT: %[[U:.*]] = stablehlo.transpose %[[E]], dims = [1, 0]
  // CHECK: stablehlo.add %[[T]], %[[U]]
  // CHECK: stablehlo.select
  // CHECK-NOT: stablehlo.transpose
  // CHECK: return
  func.func @main(%k: tensor<128x32xf32>, %q: tensor<32x64xf32>, %l: tensor<128x32xf32>) -> tensor<64x128xf32> {
    %c = stablehlo.constant dense<-1.0> : tensor<64x128xf32>
    %n = stablehlo.constant dense<5> : tensor<64x128xi32>
    %0 = stablehlo.dot_general %k, %q, contracting_dims = [1] x [0] : (tensor<128x32xf32>, tensor<32x64xf32>) -> tensor<128x64xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<128x64xf32>) -> tensor<64x128xf32>
    %4 = stablehlo.dot_general %l, %q, contracting_dims = [1] x [0] : (tensor<128x32xf32>, tensor<32x64xf32>) -> tensor<128x64xf32>
    %5 = stablehlo.transpose %4, dims = [1, 0] : (tensor<128x64xf32>) -> tensor<64x128xf32>
    %2 = stablehlo.add %1, %5 : tensor<64x128xf32>
    %i = stablehlo.iota dim = 0 : tensor<64x128xi32>
    %m = stablehlo.compare GE, %i, %n : (tensor<64x128xi32>, tensor<64x128xi32>) -> tensor<64x128xi1>
    %3 = stablehlo.select %m, %2, %c : tensor<64x128xi1>, tensor<64x128xf32>
    return %3 : tensor<64x128xf32>
  }
}

// -----

/// The order of what is reduced in the order of a product is no other order.

// CHECK-LABEL: module @reduced
module @reduced {
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK: stablehlo.reduce(%[[D]]
  // CHECK: stablehlo.broadcast_in_dim %{{.*}}, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x32x8xf32>
  // CHECK: stablehlo.subtract %[[D]], %{{.*}} : tensor<16x32x8xf32>
  // CHECK-NEXT: stablehlo.transpose %{{.*}}, dims = [2, 1, 0]
  func.func @main(%k: tensor<16x4xf32>, %q: tensor<32x8x4xf32>) -> tensor<8x32x16xf32> {
    %low = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %k, %q, contracting_dims = [1] x [2] : (tensor<16x4xf32>, tensor<32x8x4xf32>) -> tensor<16x32x8xf32>
    %1 = stablehlo.transpose %0, dims = [2, 1, 0] : (tensor<16x32x8xf32>) -> tensor<8x32x16xf32>
    %2 = stablehlo.reduce(%1 init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x32x16xf32>, tensor<f32>) -> tensor<8x16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 2] : (tensor<8x16xf32>) -> tensor<8x32x16xf32>
    %4 = stablehlo.subtract %1, %3 : tensor<8x32x16xf32>
    return %4 : tensor<8x32x16xf32>
  }
}

// -----

/// What reads an argument too keeps the order of the argument.

// CHECK-LABEL: module @argument
module @argument {
  // CHECK: %[[T:.*]] = stablehlo.transpose
  // CHECK-NEXT: stablehlo.add %[[T]], %arg2
  func.func @main(%k: tensor<128x32xf32>, %q: tensor<32x64xf32>, %y: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.dot_general %k, %q, contracting_dims = [1] x [0] : (tensor<128x32xf32>, tensor<32x64xf32>) -> tensor<128x64xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<128x64xf32>) -> tensor<64x128xf32>
    %2 = stablehlo.add %1, %y : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}

// -----

/// Of two products in different orders the second is transposed.

// CHECK-LABEL: module @two
module @two {
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg2
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[B]], dims = [1, 0]
  // CHECK-NEXT: %[[M:.*]] = stablehlo.multiply %[[A]], %[[T]] : tensor<128x64xf32>
  // CHECK-NEXT: stablehlo.transpose %[[M]], dims = [1, 0]
  func.func @main(%k: tensor<128x32xf32>, %q: tensor<32x64xf32>, %g: tensor<64x32xf32>, %v: tensor<32x128xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.dot_general %k, %q, contracting_dims = [1] x [0] : (tensor<128x32xf32>, tensor<32x64xf32>) -> tensor<128x64xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<128x64xf32>) -> tensor<64x128xf32>
    %2 = stablehlo.dot_general %g, %v, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<64x128xf32>
    return %3 : tensor<64x128xf32>
  }
}

// -----

/// What is computed of an argument is transposed when it is returned.

// CHECK-LABEL: module @others
module @others {
  // CHECK: %[[T:.*]] = stablehlo.tanh %arg0
  // CHECK-NEXT: stablehlo.transpose %[[T]]
  func.func @main(%x: tensor<128x64xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<128x64xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.tanh %0 : tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
}

// -----

/// Kept dimensions of a reduction, and those of size 1 that a broadcast adds, are in the order of the product.

// CHECK-LABEL: module @kept
module @kept {
  // CHECK: %[[R:.*]] = stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [2] : (tensor<4x128x64x2xf32>, tensor<f32>) -> tensor<4x128x2xf32>
  // CHECK-NEXT: %[[S:.*]] = stablehlo.sqrt %[[R]]
  // CHECK: stablehlo.transpose %[[S]], dims = [0, 2, 1] : (tensor<4x128x2xf32>) -> tensor<4x2x128xf32>
  // CHECK: stablehlo.reshape %{{.*}} -> tensor<4x2x128x1xf32>
  func.func @main(%k: tensor<4x128x32xf32>, %q: tensor<4x32x64x2xf32>) -> tensor<4x2x128x1xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %k, %q, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x128x32xf32>, tensor<4x32x64x2xf32>) -> tensor<4x128x64x2xf32>
    %1 = stablehlo.transpose %0, dims = [0, 3, 1, 2] : (tensor<4x128x64x2xf32>) -> tensor<4x2x128x64xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<4x2x128x64xf32>, tensor<f32>) -> tensor<4x2x128xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<4x2x128xf32>) -> tensor<4x2x128x1xf32>
    %4 = stablehlo.sqrt %3 : tensor<4x2x128x1xf32>
    return %4 : tensor<4x2x128x1xf32>
  }
}

// -----

/// A single number is broadcast to that order, too,

// CHECK-LABEL: module @single_number
module @single_number {
  // CHECK: %[[D:.*]] = stablehlo.dot_general
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x128x64xf32>
  // CHECK-NEXT: %[[M:.*]] = stablehlo.multiply %[[D]], %[[B]]
  // CHECK-NEXT: stablehlo.transpose %[[M]], dims = [0, 2, 1]
  func.func @main(%k: tensor<2x128x32xf32>, %q: tensor<2x32x64xf32>, %s: tensor<f32>) -> tensor<2x64x128xf32> {
    %0 = stablehlo.dot_general %k, %q, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x128x32xf32>, tensor<2x32x64xf32>) -> tensor<2x128x64xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x128x64xf32>) -> tensor<2x64x128xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %2 = stablehlo.multiply %1, %b : tensor<2x64x128xf32>
    return %2 : tensor<2x64x128xf32>
  }
}

// -----

/// but what is computed of an argument has the order of the argument.

// CHECK-LABEL: module @argument
module @argument {
  // CHECK: %[[T:.*]] = stablehlo.transpose %{{.*}}, dims = [0, 2, 1]
  // CHECK: stablehlo.multiply %[[T]]
  // CHECK-NEXT: stablehlo.tanh
  func.func @main(%k: tensor<2x128x32xf32>, %q: tensor<2x32x64xf32>, %m: tensor<2x64x128xf32>) -> tensor<2x64x128xf32> {
    %0 = stablehlo.dot_general %k, %q, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x128x32xf32>, tensor<2x32x64xf32>) -> tensor<2x128x64xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x128x64xf32>) -> tensor<2x64x128xf32>
    %a = stablehlo.abs %m : tensor<2x64x128xf32>
    %2 = stablehlo.multiply %1, %a : tensor<2x64x128xf32>
    %3 = stablehlo.tanh %2 : tensor<2x64x128xf32>
    return %3 : tensor<2x64x128xf32>
  }
}

// -----

/// A transpose that XLA has given a layout stays.

// CHECK-LABEL: module @given_layout
module @given_layout {
  // CHECK: stablehlo.dot_general
  // CHECK-NEXT: stablehlo.transpose {{.*}}result_layout
  // CHECK-NEXT: stablehlo.tanh
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<2x16x6xf32> {
    %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x16xf32>) -> tensor<2x6x16xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>} : (tensor<2x6x16xf32>) -> tensor<2x16x6xf32>
    %2 = stablehlo.tanh %1 : tensor<2x16x6xf32>
    return %2 : tensor<2x16x6xf32>
  }
}
