// RUN: hespas-opt %s --widen-floats=target=H100_80GB --split-input-file | filecheck %s --check-prefixes=CHECK,HOPPER
// RUN: hespas-opt %s --widen-floats --split-input-file | filecheck %s --check-prefixes=CHECK,AMPERE
// RUN: hespas-opt %s --widen-floats=target=H100_80GB --widen-floats=target=H100_80GB --split-input-file | filecheck %s --check-prefixes=CHECK,HOPPER

/// What a GPU cannot compute in bf16 it computes in f32: what is read is converted, and the result back.

// CHECK-LABEL: module @functions
module @functions {
  // CHECK: %[[X:.*]] = stablehlo.convert %arg0 : (tensor<8xbf16>) -> tensor<8xf32>
  // CHECK-NEXT: %[[Y:.*]] = stablehlo.convert %arg1 : (tensor<8xbf16>) -> tensor<8xf32>
  // CHECK-NEXT: %[[D:.*]] = stablehlo.divide %[[X]], %[[Y]] : tensor<8xf32>
  // CHECK-NEXT: %[[N:.*]] = stablehlo.convert %[[D]] : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK-NEXT: %[[W:.*]] = stablehlo.convert %[[N]] : (tensor<8xbf16>) -> tensor<8xf32>
  // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[W]] : tensor<8xf32>
  // CHECK-NEXT: %[[R:.*]] = stablehlo.convert %[[T]] : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK-NEXT: return %[[R]]
  func.func @main(%x: tensor<8xbf16>, %y: tensor<8xbf16>) -> tensor<8xbf16> {
    %0 = stablehlo.divide %x, %y : tensor<8xbf16>
    %1 = stablehlo.tanh %0 : tensor<8xbf16>
    return %1 : tensor<8xbf16>
  }
}

// -----

/// From Hopper on, GPUs add and multiply bf16, also by the inverse of a constant.

// CHECK-LABEL: module @arithmetic
module @arithmetic {
  // HOPPER-NOT: stablehlo.convert
  // AMPERE: stablehlo.add {{.*}} : tensor<8xf32>
  // AMPERE: stablehlo.subtract {{.*}} : tensor<8xf32>
  // AMPERE: stablehlo.multiply {{.*}} : tensor<8xf32>
  // AMPERE: stablehlo.divide {{.*}} : tensor<8xf32>
  // CHECK: return
  func.func @main(%x: tensor<8xbf16>, %y: tensor<8xbf16>) -> tensor<8xbf16> {
    %c = stablehlo.constant dense<3.0> : tensor<bf16>
    %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<bf16>) -> tensor<8xbf16>
    %0 = stablehlo.add %x, %y : tensor<8xbf16>
    %1 = stablehlo.subtract %0, %x : tensor<8xbf16>
    %2 = stablehlo.multiply %1, %y : tensor<8xbf16>
    %3 = stablehlo.divide %2, %b : tensor<8xbf16>
    return %3 : tensor<8xbf16>
  }
}

// -----

/// All of them compare it and compute exponentials and logarithms. Other types stay.

// CHECK-LABEL: module @others
module @others {
  // CHECK-NOT: stablehlo.convert
  // CHECK: return
  func.func @main(%x: tensor<8xbf16>, %h: tensor<8xf16>, %f: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf16>, tensor<8xf32>) {
    %0 = stablehlo.exponential %x : tensor<8xbf16>
    %1 = stablehlo.log %0 : tensor<8xbf16>
    %2 = stablehlo.negate %1 : tensor<8xbf16>
    %3 = stablehlo.maximum %2, %x : tensor<8xbf16>
    %4 = stablehlo.tanh %h : tensor<8xf16>
    %5 = stablehlo.rsqrt %f : tensor<8xf32>
    return %3, %4, %5 : tensor<8xbf16>, tensor<8xf16>, tensor<8xf32>
  }
}

// -----

/// A value is converted once, also if the program does so before. Of a broadcast the operand is converted: a
/// softmax divides by sums in f32. XLA leaves the broadcast in bf16 and its conversion, which nothing reads.

// CHECK-LABEL: module @softmax
module @softmax {
  // CHECK: %[[E:.*]] = stablehlo.convert %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  // CHECK: %[[S:.*]] = stablehlo.reduce(%[[E]] init:
  // CHECK-NEXT: %[[N:.*]] = stablehlo.convert %[[S]] : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK-NEXT: %[[O:.*]] = stablehlo.broadcast_in_dim %[[N]], dims = [0] : (tensor<4xbf16>) -> tensor<4x8xbf16>
  // CHECK-NEXT: stablehlo.convert %[[O]] : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[W:.*]] = stablehlo.convert %[[N]] : (tensor<4xbf16>) -> tensor<4xf32>
  // CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim %[[W]], dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[D:.*]] = stablehlo.divide %[[E]], %[[B]] : tensor<4x8xf32>
  // CHECK-NEXT: %[[R:.*]] = stablehlo.convert %[[D]]
  // CHECK-NEXT: return %[[R]]
  func.func @main(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.convert %x : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.convert %1 : (tensor<4xf32>) -> tensor<4xbf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<4xbf16>) -> tensor<4x8xbf16>
    %4 = stablehlo.divide %x, %3 : tensor<4x8xbf16>
    return %4 : tensor<4x8xbf16>
  }
}

// -----

/// A broadcast that something else reads stays; so do the blocks of a loop rewritten one by one.

// CHECK-LABEL: module @loop
module @loop {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK: %[[A:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<bf16>) -> tensor<8xbf16>
  // CHECK: stablehlo.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<8xf32>
  // CHECK: stablehlo.power {{.*}} : tensor<8xf32>
  // CHECK: stablehlo.maximum %{{.*}}, %[[A]] : tensor<8xbf16>
  func.func @main(%x: tensor<8xbf16>, %s: tensor<bf16>) -> tensor<8xbf16> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xbf16>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<bf16>) -> tensor<8xbf16>
      %p = stablehlo.power %v, %b : tensor<8xbf16>
      %m = stablehlo.maximum %p, %b : tensor<8xbf16>
      stablehlo.return %next, %m : tensor<i32>, tensor<8xbf16>
    }
    return %0#1 : tensor<8xbf16>
  }
}

// -----

/// XLA reduces in f32 what contains an op that it cannot compute in bf16: sums before Hopper,

// CHECK-LABEL: module @sums
module @sums {
  // HOPPER: stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [1] : (tensor<8x64xbf16>
  // AMPERE: %[[X:.*]] = stablehlo.convert %arg0 : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  // AMPERE: %[[S:.*]] = stablehlo.reduce(%[[X]] init: %{{.*}}) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>
  // AMPERE: stablehlo.convert %[[S]] : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK: applies stablehlo.maximum across dimensions = [1] : (tensor<8x64xbf16>
  func.func @main(%x: tensor<8x64xbf16>) -> (tensor<8xbf16>, tensor<8xbf16>) {
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    %low = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x64xbf16>, tensor<bf16>) -> tensor<8xbf16>
    %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x64xbf16>, tensor<bf16>) -> tensor<8xbf16>
    return %0, %1 : tensor<8xbf16>, tensor<8xbf16>
  }
}

// -----

/// the position of the largest element, whose body has logic, and compares in bf16,

// CHECK-LABEL: module @positions
module @positions {
  // CHECK: %[[X:.*]] = stablehlo.convert %arg0 : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  // CHECK: %[[R:.*]]:2 = stablehlo.reduce(%[[X]] init: %{{.*}}), (%arg1 init: %{{.*}}) across dimensions = [1] : (tensor<8x64xf32>, tensor<8x64xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
  // CHECK-COUNT-2: stablehlo.convert {{.*}} : (tensor<f32>) -> tensor<bf16>
  // CHECK: stablehlo.compare GT, {{.*}} : (tensor<bf16>, tensor<bf16>)
  // CHECK: %[[W:.*]] = stablehlo.convert {{.*}} : (tensor<bf16>) -> tensor<f32>
  // CHECK: stablehlo.return %[[W]],
  // CHECK: %[[N:.*]] = stablehlo.convert %[[R]]#0 : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK: return %[[N]], %[[R]]#1
  func.func @main(%x: tensor<8x64xbf16>, %i: tensor<8x64xi32>) -> (tensor<8xbf16>, tensor<8xi32>) {
    %low = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<8x64xbf16>, tensor<8x64xi32>, tensor<bf16>, tensor<i32>) -> (tensor<8xbf16>, tensor<8xi32>)
     reducer(%a: tensor<bf16>, %b: tensor<bf16>) (%m: tensor<i32>, %n: tensor<i32>) {
      %g = stablehlo.compare GT, %a, %b : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %u = stablehlo.compare NE, %a, %a : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %c = stablehlo.or %g, %u : tensor<i1>
      %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<bf16>
      %p = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %s, %p : tensor<bf16>, tensor<i32>
    }
    return %0#0, %0#1 : tensor<8xbf16>, tensor<8xi32>
  }
}

// -----

/// and windows, whose largest elements are computed in bf16. Integers stay.

// CHECK-LABEL: module @windows
module @windows {
  // CHECK: "stablehlo.reduce_window"(%{{.*}}, %{{.*}})
  // CHECK: stablehlo.maximum {{.*}} : tensor<bf16>
  // CHECK: (tensor<8x64xf32>, tensor<f32>) -> tensor<8x32xf32>
  // CHECK: "stablehlo.reduce_window"(%arg1, %{{.*}})
  // CHECK: (tensor<8x64xi32>, tensor<i32>) -> tensor<8x32xi32>
  func.func @main(%x: tensor<8x64xbf16>, %i: tensor<8x64xi32>) -> (tensor<8x32xbf16>, tensor<8x32xi32>) {
    %low = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %m = stablehlo.maximum %a, %b : tensor<bf16>
      stablehlo.return %m : tensor<bf16>
    }) : (tensor<8x64xbf16>, tensor<bf16>) -> tensor<8x32xbf16>
    %1 = "stablehlo.reduce_window"(%i, %zero) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %m = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %m : tensor<i32>
    }) : (tensor<8x64xi32>, tensor<i32>) -> tensor<8x32xi32>
    return %0, %1 : tensor<8x32xbf16>, tensor<8x32xi32>
  }
}
