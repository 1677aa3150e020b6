// RUN: hespas-opt %s --simplify --split-input-file | filecheck %s
// RUN: hespas-opt %s --simplify --simplify --split-input-file | filecheck %s

/// Two values of a loop that start and grow alike, as a fori_loop of JAX has them, are one.

// CHECK-LABEL: module @equal
module @equal {
  // CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[X:.*]] = %arg0)
  // CHECK: compare LT, %[[I]],
  // CHECK: stablehlo.dynamic_update_slice %[[X]], %arg1, %[[I]] :
  // CHECK: %[[S:.*]] = stablehlo.add %{{.*}}, %[[I]] :
  // CHECK-NOT: stablehlo.add
  // CHECK: stablehlo.return %[[S]], %[[S]]
  func.func @main(%x: tensor<64xf32>, %u: tensor<1xf32>) -> (tensor<64xf32>, tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %start = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %j = %start, %c = %x) : tensor<i32>, tensor<i32>, tensor<64xf32>
    cond {
      %n = stablehlo.constant dense<16> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %j, %one : tensor<i32>
      %2 = stablehlo.dynamic_update_slice %c, %u, %j : (tensor<64xf32>, tensor<1xf32>, tensor<i32>) -> tensor<64xf32>
      %3 = stablehlo.add %one, %i : tensor<i32>
      stablehlo.return %3, %1, %2 : tensor<i32>, tensor<i32>, tensor<64xf32>
    }
    return %0#2, %0#1 : tensor<64xf32>, tensor<i32>
  }
}

// -----

/// Not those with another start, another step, another type, or a step that is not constant.

// CHECK-LABEL: module @unequal
module @unequal {
  // CHECK-COUNT-5: stablehlo.add
  func.func @main(%k: tensor<i32>) -> (tensor<i32>, tensor<i32>, tensor<i32>, tensor<i64>, tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %long = stablehlo.constant dense<0> : tensor<i64>
    %0:5 = stablehlo.while(%i = %zero, %a = %k, %b = %zero, %c = %long, %d = %zero) : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i64>, tensor<i32>
    cond {
      %n = stablehlo.constant dense<16> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %big = stablehlo.constant dense<1> : tensor<i64>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.add %a, %one : tensor<i32>
      %3 = stablehlo.add %b, %two : tensor<i32>
      %4 = stablehlo.add %c, %big : tensor<i64>
      %5 = stablehlo.add %d, %k : tensor<i32>
      stablehlo.return %1, %2, %3, %4, %5 : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i64>, tensor<i32>
    }
    return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i64>, tensor<i32>
  }
}

// -----

/// Nor those with different starts or steps that are data, or one that counts down.

// CHECK-LABEL: module @data
module @data {
  // CHECK-COUNT-5: stablehlo.add
  // CHECK: stablehlo.subtract
  func.func @main(%k: tensor<i32>, %m: tensor<i32>) -> (tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:6 = stablehlo.while(%i = %zero, %a = %k, %b = %m, %c = %zero, %d = %zero, %e = %zero) : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>
    cond {
      %n = stablehlo.constant dense<16> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.add %a, %one : tensor<i32>
      %3 = stablehlo.add %b, %one : tensor<i32>
      %4 = stablehlo.add %c, %k : tensor<i32>
      %5 = stablehlo.add %d, %m : tensor<i32>
      %6 = stablehlo.subtract %e, %one : tensor<i32>
      stablehlo.return %1, %2, %3, %4, %5, %6 : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>
    }
    return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5 : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>
  }
}

// -----

/// Inside the loop, another counter is computed from the one of the iterations, however it starts and in whatever parts
/// it grows; one of a vector stays, as one does that the condition reads.

// CHECK-LABEL: module @others
module @others {
  // CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %{{.*}} = %arg1, %[[D:.*]] = %{{.*}}, %[[V:.*]] = %{{.*}}, %[[X:.*]] = %arg0)
  // CHECK: compare LT, %[[D]],
  // CHECK: %[[F:.*]] = stablehlo.constant dense<3>
  // CHECK: %[[M:.*]] = stablehlo.multiply %[[I]], %[[F]] :
  // CHECK: %[[J:.*]] = stablehlo.add %arg1, %[[M]] :
  // CHECK: stablehlo.dynamic_update_slice %[[X]], %arg2, %[[J]] :
  // CHECK: stablehlo.add {{.*}}%[[V]]
  func.func @main(%x: tensor<64xf32>, %k: tensor<i32>, %u: tensor<1xf32>) -> (tensor<64xf32>, tensor<2xi32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %zeros = stablehlo.constant dense<0> : tensor<2xi32>
    %0:5 = stablehlo.while(%i = %zero, %j = %k, %d = %zero, %v = %zeros, %c = %x) : tensor<i32>, tensor<i32>, tensor<i32>, tensor<2xi32>, tensor<64xf32>
    cond {
      %n = stablehlo.constant dense<20> : tensor<i32>
      %1 = stablehlo.compare LT, %d, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %ones = stablehlo.constant dense<1> : tensor<2xi32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.add %two, %j : tensor<i32>
      %3 = stablehlo.add %2, %one : tensor<i32>
      %4 = stablehlo.dynamic_update_slice %c, %u, %j : (tensor<64xf32>, tensor<1xf32>, tensor<i32>) -> tensor<64xf32>
      %5 = stablehlo.add %d, %two : tensor<i32>
      %6 = stablehlo.add %v, %ones : tensor<2xi32>
      stablehlo.return %1, %3, %5, %6, %4 : tensor<i32>, tensor<i32>, tensor<i32>, tensor<2xi32>, tensor<64xf32>
    }
    return %0#4, %0#3 : tensor<64xf32>, tensor<2xi32>
  }
}

// -----

/// Vectors count alike if their steps are equal constants, one of which is broadcast.

// CHECK-LABEL: module @vectors
module @vectors {
  // CHECK: %[[LOOP:.*]]:{{.*}} = stablehlo.while
  // CHECK: %[[NEXT:.*]] = stablehlo.add {{.*}} : tensor<2xi32>
  // CHECK-NOT: stablehlo.add
  // CHECK: return %[[LOOP]]#1, %[[LOOP]]#1
  func.func @main(%x: tensor<f32>) -> (tensor<2xi32>, tensor<2xi32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %start = stablehlo.constant dense<0> : tensor<2xi32>
    %0:3 = stablehlo.while(%i = %zero, %a = %start, %b = %start) : tensor<i32>, tensor<2xi32>, tensor<2xi32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %twos = stablehlo.broadcast_in_dim %two, dims = [] : (tensor<i32>) -> tensor<2xi32>
      %each = stablehlo.constant dense<2> : tensor<2xi32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %next_a = stablehlo.add %a, %twos : tensor<2xi32>
      %next_b = stablehlo.add %b, %each : tensor<2xi32>
      stablehlo.return %next, %next_a, %next_b : tensor<i32>, tensor<2xi32>, tensor<2xi32>
    }
    return %0#1, %0#2 : tensor<2xi32>, tensor<2xi32>
  }
}
