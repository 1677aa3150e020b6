// RUN: hespas-opt %s --split-linear --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-linear --split-linear --split-input-file | filecheck %s

/// The body of a loop with a collective is split, and the loop ends a region.

// CHECK-LABEL: module @communicates
module @communicates attributes {mhlo.num_replicas = 2 : i32} {
  // CHECK: stablehlo.negate {{.*}}id = 3 : i64}
  // CHECK: stablehlo.while
  // CHECK-NOT: hespas.region
  // CHECK: cond
  // CHECK: stablehlo.compare {{.*}}id = 0
  // CHECK: do {
  // CHECK: call @[[B:region_[0-9]+]]({{.*}}id = 1 : i64, ops = 2
  // CHECK: stablehlo.all_reduce
  // CHECK: stablehlo.tanh {{.*}}id = 2 : i64}
  // CHECK: stablehlo.return
  // CHECK: stablehlo.sine {{.*}}id = 4 : i64}
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.negate %x : tensor<8xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %n) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %c = stablehlo.cosine %v : tensor<8xf32>
      %r = "stablehlo.all_reduce"(%c) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8xf32>) -> tensor<8xf32>
      %t = stablehlo.tanh %r : tensor<8xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<8xf32>
    }
    %1 = stablehlo.sine %0#1 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

/// A loop without one is an op of its region like any other, and what it captures is an argument.

// CHECK-LABEL: module @computes
module @computes {
  // CHECK: func.func @main(%[[X:.*]]: tensor<8xf32>, %[[Y:.*]]: tensor<8xf32>)
  // CHECK: call @region_0(%[[X]], %[[Y]]) {hespas.region = {{.*}}ops = 3
  // CHECK: func.func private @region_0(%{{.*}}: tensor<8xf32>, %[[C:.*]]: tensor<8xf32>)
  // CHECK: stablehlo.while
  // CHECK: stablehlo.add %{{.*}}, %[[C]]
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.negate %x : tensor<8xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %n) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %c = stablehlo.add %v, %y : tensor<8xf32>
      stablehlo.return %j, %c : tensor<i32>, tensor<8xf32>
    }
    %1 = stablehlo.sine %0#1 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

/// The body of a loop is split though it captures values of the regions around it, a constant among them. A loop of the
/// same type without a collective is an op of a region.

// CHECK-LABEL: module @captures
module @captures attributes {mhlo.num_replicas = 2 : i32} {
  // CHECK: func.func @main(%[[X:.*]]: tensor<8xf32>)
  // CHECK: %[[TWO:.*]] = stablehlo.constant dense<2
  // CHECK: %[[M:.*]]:2 = call @[[BEFORE:region_[0-9]+]](%[[X]]) {{.*}}ops = 2
  // CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[M]]#0)
  // CHECK: %[[R:.*]] = "stablehlo.all_reduce"
  // CHECK: call @[[BODY:region_[0-9]+]](%[[R]], %[[M]]#1, %[[TWO]], %[[X]]) {{.*}}ops = 4
  // CHECK: call @[[AFTER:region_[0-9]+]](%{{.*}}) {{.*}}ops = 2
  // CHECK-NOT: stablehlo.while
  // CHECK: func.func private @[[BODY]](%[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>, %[[C:.*]]: tensor<8xf32>, %[[D:.*]]: tensor<8xf32>)
  // CHECK-NEXT: %[[S:.*]] = stablehlo.add %[[A]], %[[B]]
  // CHECK-NEXT: %[[T:.*]] = stablehlo.multiply %[[S]], %[[B]]
  // CHECK-NEXT: %[[U:.*]] = stablehlo.subtract %[[T]], %[[C]]
  // CHECK-NEXT: stablehlo.maximum %[[U]], %[[D]]
  // CHECK: func.func private @[[AFTER]](
  // CHECK: stablehlo.while
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %two = stablehlo.constant dense<2.0> : tensor<8xf32>
    %n = stablehlo.negate %x : tensor<8xf32>
    %m = stablehlo.tanh %n : tensor<8xf32>
    %0:2 = stablehlo.while(%i = %zero, %v = %n) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %r = "stablehlo.all_reduce"(%v) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8xf32>) -> tensor<8xf32>
      %c = stablehlo.add %r, %m : tensor<8xf32>
      %d = stablehlo.multiply %c, %m : tensor<8xf32>
      %e = stablehlo.subtract %d, %two : tensor<8xf32>
      %f = stablehlo.maximum %e, %x : tensor<8xf32>
      stablehlo.return %j, %f : tensor<i32>, tensor<8xf32>
    }
    %1:2 = stablehlo.while(%i = %zero, %v = %0#1) : tensor<i32>, tensor<8xf32>
     cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %v : tensor<8xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<8xf32>
    }
    %2 = stablehlo.sine %1#1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
