// RUN: hespas-opt %s --merge-products --split-input-file | filecheck %s

/// Dependences are those within a class: here the second product of the other class needs the first of this one.

// CHECK-LABEL: module @two_classes
module @two_classes {
  // CHECK: %[[A:.*]] = stablehlo.concatenate %arg2, %arg3, dim = 1
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg0, %[[A]], contracting_dims = [1] x [0]
  // CHECK: %[[C:.*]] = stablehlo.slice %[[B]] [0:16, 0:16]
  // CHECK: %[[D:.*]] = stablehlo.slice %[[B]] [0:16, 16:32]
  // CHECK: %[[E:.*]] = stablehlo.tanh %[[C]]
  // CHECK: %[[F:.*]] = stablehlo.concatenate %arg4, %[[E]], dim = 1
  // CHECK: %[[G:.*]] = stablehlo.dot_general %arg1, %[[F]], contracting_dims = [1] x [0]
  // CHECK: %[[H:.*]] = stablehlo.slice %[[G]] [0:16, 0:16]
  // CHECK: %[[I:.*]] = stablehlo.slice %[[G]] [0:16, 16:32]
  // CHECK: return %[[D]], %[[H]], %[[I]]
  func.func @main(%x: tensor<16x16xf32>, %y: tensor<16x16xf32>, %a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %t = stablehlo.tanh %0 : tensor<16x16xf32>
    %3 = stablehlo.dot_general %y, %t, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %1, %2, %3 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

/// A merge of another class counts: the third product of x needs the second one by way of the products of y.

// CHECK-LABEL: module @by_way_of_merged
module @by_way_of_merged {
  // CHECK: %[[A:.*]] = stablehlo.concatenate %arg3, %arg2, dim = 1
  // CHECK: %[[B:.*]] = stablehlo.dot_general %arg0, %[[A]], contracting_dims = [1] x [0]
  // CHECK: %[[C:.*]] = stablehlo.slice %[[B]] [0:16, 0:16]
  // CHECK: %[[D:.*]] = stablehlo.slice %[[B]] [0:16, 16:32]
  // CHECK: %[[E:.*]] = stablehlo.tanh %[[C]]
  // CHECK: %[[F:.*]] = stablehlo.concatenate %arg4, %[[E]], dim = 1
  // CHECK: %[[G:.*]] = stablehlo.dot_general %arg1, %[[F]], contracting_dims = [1] x [0]
  // CHECK: %[[H:.*]] = stablehlo.slice %[[G]] [0:16, 0:16]
  // CHECK: %[[I:.*]] = stablehlo.slice %[[G]] [0:16, 16:32]
  // CHECK: %[[J:.*]] = stablehlo.negate %[[H]]
  // CHECK: %[[K:.*]] = stablehlo.dot_general %arg0, %[[J]], contracting_dims = [1] x [0]
  // CHECK: return %[[D]], %[[I]], %[[K]]
  func.func @main(%x: tensor<16x16xf32>, %y: tensor<16x16xf32>, %a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %1 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %t = stablehlo.tanh %2 : tensor<16x16xf32>
    %3 = stablehlo.dot_general %y, %t, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %n = stablehlo.negate %0 : tensor<16x16xf32>
    %4 = stablehlo.dot_general %x, %n, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %1, %3, %4 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  }
}

// -----

/// The small product is merged with the first, so the large one that it needs moves before both, and is then
/// the first of those that are left.

// CHECK-LABEL: module @moved_before
module @moved_before {
  // CHECK: %[[A:.*]] = stablehlo.dot_general %arg0, %arg2, contracting_dims = [1] x [0]
  // CHECK: %[[B:.*]] = stablehlo.slice %[[A]] [0:512, 0:4096]
  // CHECK: %[[C:.*]] = stablehlo.transpose %[[B]]
  // CHECK: %[[D:.*]] = stablehlo.concatenate %arg1, %[[C]], dim = 1
  // CHECK: %[[E:.*]] = stablehlo.dot_general %arg0, %[[D]], contracting_dims = [1] x [0]
  // CHECK: %[[F:.*]] = stablehlo.slice %[[E]] [0:512, 0:8192]
  // CHECK: %[[G:.*]] = stablehlo.slice %[[E]] [0:512, 8192:8704]
  // CHECK: %[[H:.*]] = stablehlo.slice %[[F]] [0:512, 0:4096]
  // CHECK: %[[I:.*]] = stablehlo.transpose %[[H]]
  // CHECK: %[[J:.*]] = stablehlo.dot_general %arg0, %[[I]], contracting_dims = [1] x [0]
  // CHECK: return %[[J]], %[[G]], %[[A]]
  func.func @main(%x: tensor<512x4096xf32>, %a: tensor<4096x8192xf32>, %b: tensor<4096x8192xf32>, %v: tensor<4096x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x8192xf32>) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<512x4096xf32>, tensor<4096x8192xf32>) -> tensor<512x8192xf32>
    %s = stablehlo.slice %0 [0:512, 0:4096] : (tensor<512x8192xf32>) -> tensor<512x4096xf32>
    %c = stablehlo.transpose %s, dims = [1, 0] : (tensor<512x4096xf32>) -> tensor<4096x512xf32>
    %1 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<512x4096xf32>, tensor<4096x512xf32>) -> tensor<512x512xf32>
    %2 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<512x4096xf32>, tensor<4096x8192xf32>) -> tensor<512x8192xf32>
    %u = stablehlo.slice %2 [0:512, 0:4096] : (tensor<512x8192xf32>) -> tensor<512x4096xf32>
    %d = stablehlo.transpose %u, dims = [1, 0] : (tensor<512x4096xf32>) -> tensor<4096x512xf32>
    %3 = stablehlo.dot_general %x, %d, contracting_dims = [1] x [0] : (tensor<512x4096xf32>, tensor<4096x512xf32>) -> tensor<512x512xf32>
    return %1, %3, %2 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x8192xf32>
  }
}

// -----

/// What a product reads from outside of its block is there already.

// CHECK-LABEL: module @outside
module @outside {
  // CHECK: %[[T:.*]] = stablehlo.tanh %arg0
  // CHECK: %[[N:.*]] = stablehlo.negate %arg1
  // CHECK: "stablehlo.if"(%arg2)
  // CHECK-NEXT: %[[C:.*]] = stablehlo.concatenate %arg1, %[[N]], dim = 1
  // CHECK-NEXT: stablehlo.dot_general %[[T]], %[[C]]
  // CHECK-NOT: stablehlo.dot_general
  func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>, %p: tensor<i1>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %t = stablehlo.tanh %x : tensor<16x16xf32>
    %n = stablehlo.negate %w : tensor<16x16xf32>
    %r:2 = "stablehlo.if"(%p) ({
      %0 = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %1 = stablehlo.dot_general %t, %n, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      stablehlo.return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
    }, {
      stablehlo.return %t, %n : tensor<16x16xf32>, tensor<16x16xf32>
    }) : (tensor<i1>) -> (tensor<16x16xf32>, tensor<16x16xf32>)
    return %r#0, %r#1 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}
