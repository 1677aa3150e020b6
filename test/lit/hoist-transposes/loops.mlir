// RUN: hespas-opt %s --hoist-transposes --split-input-file | filecheck %s

/// A loop of decoding steps carries the cache in the order that the product reads.

// CHECK-LABEL: module @steps
module @steps {
  // CHECK: %[[START:.*]] = stablehlo.transpose %arg1, dims = [0, 2, 1]
  // CHECK-NEXT: %[[LOOP:.*]]:3 = stablehlo.while({{.*}}%[[CARRY:.*]] = %[[START]]{{.*}}) : tensor<i32>, tensor<2x16x32xf32>, tensor<2x1x16xf32>
  // CHECK: do {
  // CHECK: %[[NEW:.*]] = stablehlo.dynamic_update_slice %[[CARRY]]
  // CHECK-NEXT: %[[DOT:.*]] = stablehlo.dot_general %{{.*}}, %[[NEW]]
  // CHECK: stablehlo.return %{{.*}}, %[[NEW]], %{{.*}}
  // CHECK: %[[END:.*]] = stablehlo.transpose %[[LOOP]]#1, dims = [0, 2, 1]
  // CHECK: return %[[END]]
  func.func @main(%q: tensor<2x1x16xf32>, %k: tensor<2x32x16xf32>) -> tensor<2x32x16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %c = %k, %x = %q) : tensor<i32>, tensor<2x32x16xf32>, tensor<2x1x16xf32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %start = stablehlo.constant dense<0> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1 = stablehlo.dynamic_update_slice %c, %x, %start, %i, %start : (tensor<2x32x16xf32>, tensor<2x1x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x16xf32>
      %2 = stablehlo.transpose %1, dims = [0, 2, 1] : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
      %3 = stablehlo.dot_general %x, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x1x16xf32>, tensor<2x16x32xf32>) -> tensor<2x1x32xf32>
      %4 = stablehlo.slice %3 [0:2, 0:1, 0:16] : (tensor<2x1x32xf32>) -> tensor<2x1x16xf32>
      stablehlo.return %next, %1, %4 : tensor<i32>, tensor<2x32x16xf32>, tensor<2x1x16xf32>
    }
    return %0#1 : tensor<2x32x16xf32>
  }
}

// -----

/// Not if the loop also reads it in its own order.

// CHECK-LABEL: module @read
module @read {
  // CHECK: stablehlo.while({{.*}} = %arg1
  // CHECK: do {
  // CHECK: stablehlo.transpose
  func.func @main(%q: tensor<2x1x16xf32>, %k: tensor<2x32x16xf32>) -> tensor<2x32x16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %c = %k, %x = %q) : tensor<i32>, tensor<2x32x16xf32>, tensor<2x1x16xf32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %start = stablehlo.constant dense<0> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %last = stablehlo.slice %c [0:2, 31:32, 0:16] : (tensor<2x32x16xf32>) -> tensor<2x1x16xf32>
      %1 = stablehlo.dynamic_update_slice %c, %last, %start, %i, %start : (tensor<2x32x16xf32>, tensor<2x1x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x16xf32>
      %2 = stablehlo.transpose %1, dims = [0, 2, 1] : (tensor<2x32x16xf32>) -> tensor<2x16x32xf32>
      %3 = stablehlo.dot_general %x, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x1x16xf32>, tensor<2x16x32xf32>) -> tensor<2x1x32xf32>
      %4 = stablehlo.slice %3 [0:2, 0:1, 0:16] : (tensor<2x1x32xf32>) -> tensor<2x1x16xf32>
      stablehlo.return %next, %1, %4 : tensor<i32>, tensor<2x32x16xf32>, tensor<2x1x16xf32>
    }
    return %0#1 : tensor<2x32x16xf32>
  }
}

// -----

/// Nor if it is not returned in the order in which it is read.

// CHECK-LABEL: module @one_way
module @one_way {
  // CHECK: stablehlo.while({{.*}} = %arg1
  // CHECK: do {
  // CHECK: stablehlo.transpose %iterArg{{.*}}, dims = [0, 2, 1]
  func.func @main(%q: tensor<2x1x16xf32>, %k: tensor<2x16x16xf32>) -> tensor<2x16x16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %c = %k, %x = %q) : tensor<i32>, tensor<2x16x16xf32>, tensor<2x1x16xf32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.transpose %c, dims = [0, 2, 1] : (tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
      %3 = stablehlo.dot_general %x, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x1x16xf32>, tensor<2x16x16xf32>) -> tensor<2x1x16xf32>
      %4 = stablehlo.tanh %2 : tensor<2x16x16xf32>
      stablehlo.return %next, %4, %3 : tensor<i32>, tensor<2x16x16xf32>, tensor<2x1x16xf32>
    }
    return %0#1 : tensor<2x16x16xf32>
  }
}

// -----

/// An update before a loop stays as it is if only the loop transposes its result; so does a value that the condition reads.

// CHECK-LABEL: module @outside
module @outside {
  // CHECK: %[[A:.*]] = stablehlo.dynamic_update_slice %arg1
  // CHECK: stablehlo.while({{.*}} = %arg0, {{.*}} = %arg1
  // CHECK: do {
  // CHECK: stablehlo.transpose %[[A]], dims = [0, 2, 1]
  // CHECK: stablehlo.transpose %iterArg{{.*}}, dims = [0, 2, 1]
  func.func @main(%q: tensor<2x1x16xf32>, %k: tensor<2x16x16xf32>, %n: tensor<2x1x16xf32>) -> tensor<2x16x16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_update_slice %k, %n, %zero, %zero, %zero : (tensor<2x16x16xf32>, tensor<2x1x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x16x16xf32>
    %1:3 = stablehlo.while(%i = %zero, %x = %q, %c = %k) : tensor<i32>, tensor<2x1x16xf32>, tensor<2x16x16xf32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %p = stablehlo.slice %c [0:1, 0:1, 0:1] : (tensor<2x16x16xf32>) -> tensor<1x1x1xf32>
      %s = stablehlo.reshape %p : (tensor<1x1x1xf32>) -> tensor<f32>
      %f = stablehlo.compare EQ, %s, %s, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %both = stablehlo.and %lt, %f : tensor<i1>
      stablehlo.return %both : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
      %y = stablehlo.dot_general %x, %t, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x1x16xf32>, tensor<2x16x16xf32>) -> tensor<2x1x16xf32>
      %u = stablehlo.transpose %c, dims = [0, 2, 1] : (tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
      %z = stablehlo.dot_general %y, %u, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x1x16xf32>, tensor<2x16x16xf32>) -> tensor<2x1x16xf32>
      %back = stablehlo.transpose %u, dims = [0, 2, 1] : (tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
      stablehlo.return %next, %z, %back : tensor<i32>, tensor<2x1x16xf32>, tensor<2x16x16xf32>
    }
    return %1#2 : tensor<2x16x16xf32>
  }
}
