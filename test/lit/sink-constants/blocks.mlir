// RUN: hespas-opt %s --sink-constants --split-input-file | filecheck %s
// RUN: hespas-opt %s --sink-constants --sink-constants --split-input-file | filecheck %s

/// A broadcast of a constant that a loop body captures is in the body, once for all ops that read it.

// CHECK-LABEL: module @captured
module @captured {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim %[[C]], dims = []
  // CHECK-NOT: stablehlo.broadcast_in_dim
  // CHECK: %[[M:.*]] = stablehlo.maximum %{{.*}}, %[[B]]
  // CHECK-NEXT: %[[A:.*]] = stablehlo.add %[[M]], %[[B]]
  // CHECK-NEXT: stablehlo.return %{{.*}}, %[[A]]
  func.func @main(%a: tensor<4x64xf32>) -> tensor<4x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %low = stablehlo.constant dense<1.0> : tensor<f32>
    %lows = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<4x64xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1 = stablehlo.maximum %x, %lows : tensor<4x64xf32>
      %2 = stablehlo.add %1, %lows : tensor<4x64xf32>
      stablehlo.return %next, %2 : tensor<i32>, tensor<4x64xf32>
    }
    return %0#1 : tensor<4x64xf32>
  }
}

// -----

/// So is one that the loop receives and the body returns unchanged; the loop keeps its operand. A block
/// that does not read it, here the condition, has no copy.

// CHECK-LABEL: module @operand
module @operand {
  // CHECK: %[[O:.*]] = stablehlo.broadcast_in_dim
  // CHECK-NEXT: stablehlo.while({{.*}}, %[[ARG:.*]] = %[[O]])
  // CHECK: cond {
  // CHECK-NOT: stablehlo.broadcast_in_dim
  // CHECK: do {
  // CHECK-NEXT: stablehlo.constant dense<1.000000e+00>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim
  // CHECK: stablehlo.minimum %{{.*}}, %[[B]]
  // CHECK-NEXT: stablehlo.return %{{.*}}, %{{.*}}, %[[ARG]]
  // CHECK-NOT: stablehlo.broadcast_in_dim
  func.func @main(%a: tensor<4x64xf32>) -> tensor<4x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %high = stablehlo.constant dense<1.0> : tensor<f32>
    %highs = stablehlo.broadcast_in_dim %high, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %0:3 = stablehlo.while(%i = %zero, %x = %a, %most = %highs) : tensor<i32>, tensor<4x64xf32>, tensor<4x64xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1 = stablehlo.minimum %x, %most : tensor<4x64xf32>
      stablehlo.return %next, %1, %most : tensor<i32>, tensor<4x64xf32>, tensor<4x64xf32>
    }
    return %0#1 : tensor<4x64xf32>
  }
}

// -----

/// A condition reads an operand that the body does not change as well.

// CHECK-LABEL: module @condition
module @condition {
  // CHECK: cond {
  // CHECK-NEXT: stablehlo.constant dense<10>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim
  // CHECK-NEXT: stablehlo.compare LT, %{{.*}}, %[[B]]
  // CHECK: do {
  // CHECK-NOT: stablehlo.broadcast_in_dim
  // CHECK: return
  func.func @main() -> tensor<1xi32> {
    %first = stablehlo.constant dense<1> : tensor<1xi32>
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %tens = stablehlo.broadcast_in_dim %ten, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %0:2 = stablehlo.while(%i = %first, %n = %tens) : tensor<1xi32>, tensor<1xi32>
     cond {
      %lt = stablehlo.compare LT, %i, %n, SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
      %s = stablehlo.reshape %lt : (tensor<1xi1>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    } do {
      %next = stablehlo.add %i, %i : tensor<1xi32>
      stablehlo.return %next, %n : tensor<1xi32>, tensor<1xi32>
    }
    return %0#0 : tensor<1xi32>
  }
}

// -----

/// Branches have copies as well, each its own; the function's own ops read the broadcast as before.

// CHECK-LABEL: module @branches
module @branches {
  // CHECK: %[[O:.*]] = stablehlo.broadcast_in_dim
  // CHECK: "stablehlo.if"
  // CHECK: %[[A:.*]] = stablehlo.broadcast_in_dim
  // CHECK-NEXT: stablehlo.add %arg1, %[[A]]
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim
  // CHECK-NEXT: stablehlo.multiply %arg1, %[[B]]
  // CHECK: stablehlo.add %{{.*}}, %[[O]]
  func.func @main(%p: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {
    %two = stablehlo.constant dense<2.0> : tensor<f32>
    %twos = stablehlo.broadcast_in_dim %two, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %0 = "stablehlo.if"(%p) ({
      %a = stablehlo.add %x, %twos : tensor<8xf32>
      stablehlo.return %a : tensor<8xf32>
    }, {
      %b = stablehlo.multiply %x, %twos : tensor<8xf32>
      stablehlo.return %b : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    %1 = stablehlo.add %0, %twos : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

/// What a body changes, a broadcast of a value that is no constant, and a constant that is not broadcast
/// stay outside.

// CHECK-LABEL: module @outside
module @outside {
  // CHECK: %[[C:.*]] = stablehlo.constant dense<3.000000e+00> : tensor<8xf32>
  // CHECK: %[[U:.*]] = stablehlo.tanh %arg0
  // CHECK: %[[V:.*]] = stablehlo.broadcast_in_dim %[[U]]
  // CHECK: %[[S:.*]] = stablehlo.broadcast_in_dim
  // CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %[[X:.*]] = %[[S]])
  // CHECK: do {
  // CHECK-NOT: stablehlo.broadcast_in_dim
  // CHECK: %[[A:.*]] = stablehlo.add %[[X]], %[[V]]
  // CHECK-NEXT: stablehlo.multiply %[[A]], %[[C]]
  func.func @main(%v: tensor<f32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<f32>
    %c = stablehlo.constant dense<3.0> : tensor<8xf32>
    %u = stablehlo.tanh %v : tensor<f32>
    %vs = stablehlo.broadcast_in_dim %u, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %nones = stablehlo.broadcast_in_dim %none, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %0:2 = stablehlo.while(%i = %zero, %x = %nones) : tensor<i32>, tensor<8xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1 = stablehlo.add %x, %vs : tensor<8xf32>
      %2 = stablehlo.multiply %1, %c : tensor<8xf32>
      stablehlo.return %next, %2 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// A loop in a loop: the outer body has a copy for the operand of the inner loop, and the inner body one
/// of that.

// CHECK-LABEL: module @nested
module @nested {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK: %[[O:.*]] = stablehlo.broadcast_in_dim
  // CHECK: stablehlo.while({{.*}} = %[[O]])
  // CHECK: do {
  // CHECK: %[[I:.*]] = stablehlo.broadcast_in_dim
  // CHECK: stablehlo.minimum %{{.*}}, %[[I]]
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %high = stablehlo.constant dense<1.0> : tensor<f32>
    %highs = stablehlo.broadcast_in_dim %high, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %0:3 = stablehlo.while(%i = %zero, %x = %a, %most = %highs) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1:3 = stablehlo.while(%j = %zero, %y = %x, %limit = %most) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
       cond {
        %five = stablehlo.constant dense<5> : tensor<i32>
        %lt = stablehlo.compare LT, %j, %five, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %lt : tensor<i1>
      } do {
        %two = stablehlo.constant dense<2> : tensor<i32>
        %after = stablehlo.add %j, %two : tensor<i32>
        %2 = stablehlo.minimum %y, %limit : tensor<8xf32>
        stablehlo.return %after, %2, %limit : tensor<i32>, tensor<8xf32>, tensor<8xf32>
      }
      stablehlo.return %next, %1#1, %most : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// An operand that the body does not change stays if it is no broadcast of a constant.

// CHECK-LABEL: module @argument
module @argument {
  // CHECK: stablehlo.while({{.*}}, %[[W:.*]] = %arg0)
  // CHECK: do {
  // CHECK: stablehlo.multiply %{{.*}}, %[[W]]
  func.func @main(%w: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %x = %w, %v = %w) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1 = stablehlo.multiply %x, %v : tensor<8xf32>
      stablehlo.return %next, %1, %v : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}
