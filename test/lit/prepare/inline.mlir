// RUN: hespas-opt %s --prepare --split-input-file | filecheck %s

/// A function called once is inlined, one called often stays, one never called goes.

// CHECK-LABEL: module @calls
// CHECK-SAME: hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}
// CHECK: func.func public @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[A:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT: %[[B:.*]] = call @often(%[[A]])
// CHECK-NEXT: %[[C:.*]] = call @often(%[[B]])
// CHECK-NEXT: return %[[C]]
// CHECK: func.func private @often
// CHECK-NOT: func.func
module @calls {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @once(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @often(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = call @often(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @once(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @often(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.sine %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @never(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

/// A function that communicates is inlined wherever it is called, inside loops too.

// CHECK-LABEL: module @communicates
// CHECK-SAME: hespas.communicators = {"1" = array<i64: 0, 1>}
// CHECK: func.func public @main
// CHECK-NEXT: "stablehlo.all_reduce"
// CHECK: hespas.comm = {groups = array<i64: 1>}
// CHECK: stablehlo.while
// CHECK: do {
// CHECK: "stablehlo.all_reduce"
// CHECK-NOT: func.func
module @communicates attributes {mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @sum(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.while(%i = %c, %y = %0) : tensor<i32>, tensor<4xf32>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %z = func.call @sum(%y) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>
    }
    return %1#1 : tensor<4xf32>
  }
  func.func private @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// A composite is what it decomposes into.

// CHECK-LABEL: module @composite
// CHECK: func.func public @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: stablehlo.multiply %[[X]], %[[X]]
// CHECK-NEXT: return
// CHECK-NOT: func.func
module @composite {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "my.square" %x {decomposition = @square} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// chlo: what XLA has an op for becomes it, the rest is expanded; markers go.

// CHECK-LABEL: module @chlo
// CHECK: func.func public @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[E:.*]] = mhlo.erf %[[X]]
// CHECK-NEXT: %[[S:.*]] = stablehlo.multiply %[[E]], %[[E]]
// CHECK-NEXT: return %[[S]]
module @chlo {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
    %1 = stablehlo.custom_call @LayoutConstraint(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = chlo.square %1 : tensor<4xf32> -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

/// The entry is main where several functions are public; functions that it does not call are removed.

// CHECK-LABEL: module @several
// CHECK: func.func @main
// CHECK-NOT: func.func
module @several {
  func.func @other() { return }
  func.func @main() { return }
}
