// RUN: hespas-opt %s --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify --simplify --split-input-file | filecheck %s

/// A reshape back to the first shape, a transpose that undoes another, and a transpose of one that is
/// the identity are the value itself.

// CHECK-LABEL: module @back
module @back {
  // CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>)
  // CHECK-NEXT: return %[[X]], %[[X]]
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %0 = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
    %1 = stablehlo.reshape %0 : (tensor<32xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    return %1, %3 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

/// A transpose with a layout may do nothing but change the layout: it stays, before and after another.

// CHECK-LABEL: module @layouts
module @layouts {
  // CHECK: %[[A:.*]] = stablehlo.transpose %arg0, dims = [0, 1] {result_layout = dense<[0, 1]> : tensor<2xindex>}
  // CHECK-NEXT: %[[B:.*]] = stablehlo.transpose %[[A]], dims = [1, 0]
  // CHECK-NEXT: return %[[A]], %[[B]]
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x4xf32>) {
    %0 = stablehlo.transpose %x, dims = [0, 1] {result_layout = dense<[0, 1]> : tensor<2xindex>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    return %0, %1 : tensor<4x8xf32>, tensor<8x4xf32>
  }
}

// -----

/// A broadcast that swaps equal dimensions changes the value, and so do a slice with steps, a negative
/// padding of one side that the other makes up for, and a concatenation of two.

// CHECK-LABEL: module @same_shape
module @same_shape {
  // CHECK: stablehlo.broadcast_in_dim %arg0, dims = [1, 0]
  // CHECK-NEXT: stablehlo.pad %arg0, %arg1, low = [1, 0], high = [-1, 0]
  // CHECK-NEXT: stablehlo.concatenate %arg2, %arg2
  // CHECK-NEXT: stablehlo.slice %arg3 [0:1:2]
  func.func @main(%x: tensor<4x4xf32>, %p: tensor<f32>, %y: tensor<4xf32>, %z: tensor<1xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<8xf32>, tensor<1xf32>) {
    %0 = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.pad %x, %p, low = [1, 0], high = [-1, 0], interior = [0, 0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %2 = stablehlo.concatenate %y, %y, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
    %3 = stablehlo.slice %z [0:1:2] : (tensor<1xf32>) -> tensor<1xf32>
    return %0, %1, %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<8xf32>, tensor<1xf32>
  }
}

// -----

/// Slices and paddings that change the type stay.

// CHECK-LABEL: module @other_shape
module @other_shape {
  // CHECK: stablehlo.slice %arg0 [0:2]
  // CHECK-NEXT: stablehlo.pad %arg0, %arg1, low = [0], high = [0], interior = [1]
  func.func @main(%x: tensor<4xf32>, %p: tensor<f32>) -> (tensor<2xf32>, tensor<7xf32>) {
    %0 = stablehlo.slice %x [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    %1 = stablehlo.pad %x, %p, low = [0], high = [0], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
    return %0, %1 : tensor<2xf32>, tensor<7xf32>
  }
}

// -----

/// What a rewrite makes is simplified too: a transpose of a reshape that moves a dimension of 1 is one
/// reshape, and no reshape where it has the first shape again.

// CHECK-LABEL: module @again
module @again {
  // CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<1x1xf32>)
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[X]] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
  // CHECK-NEXT: return %[[R]], %[[Y]]
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<1x1xf32>) -> (tensor<4x8x1xf32>, tensor<1x1xf32>) {
    %0 = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<4x1x8xf32>) -> tensor<4x8x1xf32>
    %2 = stablehlo.transpose %y, dims = [1, 0] : (tensor<1x1xf32>) -> tensor<1x1xf32>
    return %1, %2 : tensor<4x8x1xf32>, tensor<1x1xf32>
  }
}

// -----

/// Values that a branch captures are simplified before what reads them in the branch: a product by one
/// does not stand between two reshapes.

// CHECK-LABEL: module @captured
module @captured {
  // CHECK: "stablehlo.if"(%arg1)
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK-NEXT: stablehlo.return %[[R]]
  func.func @main(%x: tensor<4x8xf32>, %p: tensor<i1>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
    %one = stablehlo.constant dense<1.0> : tensor<32xf32>
    %1 = stablehlo.multiply %0, %one : tensor<32xf32>
    %2 = "stablehlo.if"(%p) ({
      %3 = stablehlo.reshape %1 : (tensor<32xf32>) -> tensor<8x4xf32>
      stablehlo.return %3 : tensor<8x4xf32>
    }, {
      stablehlo.return %y : tensor<8x4xf32>
    }) : (tensor<i1>) -> tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
}

// -----

/// What has no static shape stays as it is.

// CHECK-LABEL: module @dynamic
module @dynamic {
  // CHECK: %[[D:.*]] = stablehlo.dynamic_reshape
  // CHECK-NEXT: %[[A:.*]] = stablehlo.transpose %[[D]], dims = [1, 0]
  // CHECK-NEXT: %[[B:.*]] = stablehlo.transpose %[[A]], dims = [1, 0]
  // CHECK-NEXT: %[[C:.*]] = stablehlo.convert %[[B]]
  // CHECK-NEXT: %[[R:.*]] = stablehlo.reduce(%[[C]]
  // CHECK-NEXT: return %[[R]]
  func.func @main(%x: tensor<8xf32>, %n: tensor<2xi64>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dynamic_reshape %x, %n : (tensor<8xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
    %3 = stablehlo.convert %2 : tensor<?x?xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<f32>
    %5 = stablehlo.convert %4 : tensor<f32>
    return %5 : tensor<f32>
  }
}

// -----

/// The broadcast of a transpose is one of what is transposed, also if dimensions of size 1 are dropped between.

// CHECK-LABEL: module @transposed_broadcast
module @transposed_broadcast {
  // CHECK: %[[V:.*]] = stablehlo.reshape %arg0 : (tensor<1x8x4x16xf32>) -> tensor<8x4x16xf32>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim %[[V]], dims = [1, 2, 3] : (tensor<8x4x16xf32>) -> tensor<2x8x4x16xf32>
  // CHECK-NEXT: return %[[B]]
  func.func @main(%x: tensor<1x8x4x16xf32>) -> tensor<2x8x4x16xf32> {
    %0 = stablehlo.transpose %x, dims = [2, 0, 1, 3] : (tensor<1x8x4x16xf32>) -> tensor<4x1x8x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<4x1x8x16xf32>) -> tensor<4x8x16xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [2, 1, 3] : (tensor<4x8x16xf32>) -> tensor<2x8x4x16xf32>
    return %2 : tensor<2x8x4x16xf32>
  }
}

// -----

/// A reshape or a transpose of a single number that is broadcast is a broadcast of it; one of a vector stays.

// CHECK-LABEL: module @scalars
module @scalars {
  // CHECK: %[[A:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<8x3xf32>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
  // CHECK-NEXT: stablehlo.broadcast_in_dim %arg1
  // CHECK-NEXT: %[[C:.*]] = stablehlo.reshape
  // CHECK-NEXT: return %[[A]], %[[B]], %[[C]]
  func.func @main(%x: tensor<f32>, %y: tensor<4xf32>) -> (tensor<8x3xf32>, tensor<4x6xf32>, tensor<8x3xf32>) {
    %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<4x6xf32>) -> tensor<8x3xf32>
    %2 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<6x4xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
    %4 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %5 = stablehlo.reshape %4 : (tensor<4x6xf32>) -> tensor<8x3xf32>
    return %1, %3, %5 : tensor<8x3xf32>, tensor<4x6xf32>, tensor<8x3xf32>
  }
}

// -----

/// A transpose stays if its dimensions are merged before the broadcast.

// CHECK-LABEL: module @merged_between
module @merged_between {
  // CHECK: stablehlo.transpose
  // CHECK-NEXT: stablehlo.reshape
  // CHECK-NEXT: stablehlo.broadcast_in_dim
  func.func @main(%x: tensor<4x6xf32>) -> tensor<24x5xf32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<6x4xf32>) -> tensor<24xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<24xf32>) -> tensor<24x5xf32>
    return %2 : tensor<24x5xf32>
  }
}

// -----

/// The function of another op is left as it is, with the branches in it.

// CHECK-LABEL: module @comparator
module @comparator {
  // CHECK: "stablehlo.sort"
  // CHECK: "stablehlo.if"
  // CHECK: stablehlo.multiply
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %lt = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %r = "stablehlo.if"(%lt) ({
        %one = stablehlo.constant dense<1.0> : tensor<f32>
        %p = stablehlo.multiply %a, %one : tensor<f32>
        %c = stablehlo.compare LT, %p, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }, {
        stablehlo.return %lt : tensor<i1>
      }) : (tensor<i1>) -> tensor<i1>
      stablehlo.return %r : tensor<i1>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// A broadcast that only adds dimensions of size 1 is like a reshape before another one; one that moves a dimension is
/// not. The gradients of convolutions under vmap have it.

// CHECK-LABEL: module @unit_broadcasts
module @unit_broadcasts {
  // CHECK: %[[R:.*]] = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<32xf32>
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [2, 0]
  // CHECK: %[[S:.*]] = stablehlo.reshape %[[B]]
  // CHECK: return %arg0, %[[R]], %[[S]]
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<32xf32>, tensor<32xf32>) {
    %0 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.reshape %0 : (tensor<4x1x8xf32>) -> tensor<32xf32>
    %3 = stablehlo.broadcast_in_dim %x, dims = [2, 0] : (tensor<4x8xf32>) -> tensor<8x1x4xf32>
    %4 = stablehlo.reshape %3 : (tensor<8x1x4xf32>) -> tensor<32xf32>
    return %1, %2, %4 : tensor<4x8xf32>, tensor<32xf32>, tensor<32xf32>
  }
}

// -----

/// What is converted to a wider type, only moved, and converted back, is not converted.

// CHECK-LABEL: module @there_and_back
module @there_and_back {
  // CHECK: %[[Y:.*]] = stablehlo.convert %arg1 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  // CHECK-NEXT: %[[J:.*]] = stablehlo.concatenate %arg0, %[[Y]]
  // CHECK-NEXT: return %[[J]]
  func.func @main(%x: tensor<2x4xbf16>, %y: tensor<2x4xf32>) -> tensor<4x4xbf16> {
    %0 = stablehlo.convert %x : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %1 = stablehlo.concatenate %0, %y, dim = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.convert %1 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    return %2 : tensor<4x4xbf16>
  }
}
