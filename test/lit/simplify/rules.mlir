// RUN: hespas-opt %s --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify --simplify --split-input-file | filecheck %s

/// Ops that change nothing go: one case for each rule.

// CHECK-LABEL: module @nothing
module @nothing {
  // CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>)
  // CHECK: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<4x8xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %0 = mhlo.copy %x : tensor<4x8xf32>
    %1 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.concatenate %x, dim = 0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = stablehlo.convert %x : tensor<4x8xf32>
    %4 = stablehlo.divide %x, %one : tensor<4x8xf32>
    %5 = stablehlo.multiply %one, %x : tensor<4x8xf32>
    %6 = stablehlo.pad %x, %zero, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %7 = stablehlo.reduce_precision %x, format = e8m23 : tensor<4x8xf32>
    %8 = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %9 = stablehlo.slice %x [0:4, 0:8] : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %10 = stablehlo.subtract %x, %zeros : tensor<4x8xf32>
    %11 = stablehlo.transpose %x, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

/// Their like that change something stay.

// CHECK-LABEL: module @something
module @something {
  // CHECK: stablehlo.subtract
  // CHECK: stablehlo.divide
  // CHECK: stablehlo.reduce_precision
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.convert
  // CHECK: stablehlo.transpose
  func.func @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<8x8xf32>
    %negative = stablehlo.constant dense<-0.0> : tensor<8x8xf32>
    %0 = stablehlo.subtract %x, %negative : tensor<8x8xf32>
    %1 = stablehlo.divide %one, %x : tensor<8x8xf32>
    %2 = stablehlo.reduce_precision %x, format = e8m7 : tensor<8x8xf32>
    %3 = stablehlo.convert %x : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %4 = stablehlo.convert %3 : (tensor<8x8xbf16>) -> tensor<8x8xf32>
    %5 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0, %1, %2, %4, %5 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// Two in a row are one: reshapes, transposes, broadcasts, and conversions by way of a wider type. A
/// transpose of a dimension of 1 is a reshape, and so is the sum over one.

// CHECK-LABEL: module @chains
module @chains {
  // CHECK: stablehlo.reshape %arg0 : (tensor<4x8x2xf32>) -> tensor<64xf32>
  // CHECK: stablehlo.transpose %arg0, dims = [2, 0, 1]
  // CHECK: stablehlo.broadcast_in_dim %arg1, dims = [2]
  // CHECK: stablehlo.convert %arg1 : (tensor<8xf16>) -> tensor<8xbf16>
  // CHECK: stablehlo.reshape %arg2 : (tensor<4x1x8xf32>) -> tensor<4x8x1xf32>
  // CHECK: stablehlo.reshape %arg2 : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  // CHECK: stablehlo.dot_general %arg3, %arg3, contracting_dims = [1] x [0]
  func.func @main(%x: tensor<4x8x2xf32>, %y: tensor<8xf16>, %z: tensor<4x1x8xf32>, %w: tensor<8x8xf32>) -> (tensor<64xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf16>, tensor<8xbf16>, tensor<4x8x1xf32>, tensor<4x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reshape %x : (tensor<4x8x2xf32>) -> tensor<32x2xf32>
    %1 = stablehlo.reshape %0 : (tensor<32x2xf32>) -> tensor<64xf32>
    %2 = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<4x8x2xf32>) -> tensor<8x4x2xf32>
    %3 = stablehlo.transpose %2, dims = [2, 1, 0] : (tensor<8x4x2xf32>) -> tensor<2x4x8xf32>
    %4 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<8xf16>) -> tensor<4x8xf16>
    %5 = stablehlo.broadcast_in_dim %4, dims = [1, 2] : (tensor<4x8xf16>) -> tensor<2x4x8xf16>
    %6 = stablehlo.convert %y : (tensor<8xf16>) -> tensor<8xf32>
    %7 = stablehlo.convert %6 : (tensor<8xf32>) -> tensor<8xbf16>
    %8 = stablehlo.transpose %z, dims = [0, 2, 1] : (tensor<4x1x8xf32>) -> tensor<4x8x1xf32>
    %9 = stablehlo.reduce(%z init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x1x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %10 = stablehlo.dot %w, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1, %3, %5, %7, %8, %9, %10 : tensor<64xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf16>, tensor<8xbf16>, tensor<4x8x1xf32>, tensor<4x8xf32>, tensor<8x8xf32>
  }
}

// -----

/// Equal ops are one, and what nothing reads goes.

// CHECK-LABEL: module @equal
module @equal {
  // CHECK: %[[T:.*]] = stablehlo.tanh
  // CHECK-NEXT: return %[[T]], %[[T]]
  func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    %1 = stablehlo.tanh %x : tensor<8xf32>
    %2 = stablehlo.cosine %x : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// What is only moved is converted to a narrower type before, if nothing else reads it there; a wider type,
/// or one of less than a byte, comes after.

// CHECK-LABEL: module @moved
module @moved {
  // CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<4x8xf16>)
  // CHECK: %[[S:.*]] = stablehlo.slice %[[X]] [0:4, 0:4]
  // CHECK: %[[C:.*]] = stablehlo.convert %[[S]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  // CHECK: %[[V:.*]] = stablehlo.convert %[[X]] : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  // CHECK: %[[P:.*]] = stablehlo.slice %[[V]] [0:4, 4:8]
  // CHECK: %[[J:.*]] = stablehlo.concatenate %[[C]], %[[P]], dim = 1
  // CHECK: %[[R:.*]] = stablehlo.reshape %[[J]] : (tensor<4x8xbf16>) -> tensor<32xbf16>
  // CHECK: %[[W:.*]] = stablehlo.slice %[[Y]]
  // CHECK: %[[D:.*]] = stablehlo.convert %[[W]] : (tensor<4x4xf16>) -> tensor<4x4xf32>
  // CHECK: %[[T:.*]] = stablehlo.slice %[[X]] [0:4, 2:6]
  // CHECK: %[[B:.*]] = stablehlo.convert %[[T]] : (tensor<4x4xf32>) -> tensor<4x4xi4>
  // CHECK: return %[[R]], %[[S]], %[[D]], %[[B]]
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf16>) -> (tensor<32xbf16>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xi4>) {
    %0 = stablehlo.slice %x [0:4, 0:4] : (tensor<4x8xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.slice %x [0:4, 4:8] : (tensor<4x8xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
    %3 = stablehlo.reshape %2 : (tensor<4x8xf32>) -> tensor<32xf32>
    %4 = stablehlo.convert %3 : (tensor<32xf32>) -> tensor<32xbf16>
    %5 = stablehlo.slice %y [0:4, 0:4] : (tensor<4x8xf16>) -> tensor<4x4xf16>
    %6 = stablehlo.convert %5 : (tensor<4x4xf16>) -> tensor<4x4xf32>
    %7 = stablehlo.slice %x [0:4, 2:6] : (tensor<4x8xf32>) -> tensor<4x4xf32>
    %8 = stablehlo.convert %7 : (tensor<4x4xf32>) -> tensor<4x4xi4>
    return %4, %0, %6, %8 : tensor<32xbf16>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xi4>
  }
}

// -----

/// A precision that the type has already, as JAX states it of values that it keeps for gradients.

// CHECK-LABEL: module @precisions
module @precisions {
  // CHECK: func.func @main(%[[X:.*]]: tensor<8xf8E4M3FN>, %[[Y:.*]]: tensor<8xf8E5M2>, %[[Z:.*]]: tensor<8xf8E5M2>)
  // CHECK-NEXT: %[[LESS:.*]] = stablehlo.reduce_precision %[[Z]], format = e4m2
  // CHECK-NEXT: return %[[X]], %[[Y]], %[[LESS]]
  func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf8E5M2>, %z: tensor<8xf8E5M2>) -> (tensor<8xf8E4M3FN>, tensor<8xf8E5M2>, tensor<8xf8E5M2>) {
    %0 = stablehlo.reduce_precision %x, format = e4m3 : tensor<8xf8E4M3FN>
    %1 = stablehlo.reduce_precision %y, format = e5m2 : tensor<8xf8E5M2>
    %2 = stablehlo.reduce_precision %z, format = e4m2 : tensor<8xf8E5M2>
    return %0, %1, %2 : tensor<8xf8E4M3FN>, tensor<8xf8E5M2>, tensor<8xf8E5M2>
  }
}
