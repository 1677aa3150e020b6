// RUN: hespas-opt %s --inline-calls --split-input-file | filecheck %s
// RUN: hespas-opt %s --inline-calls --inline-calls --split-input-file | filecheck %s
// RUN: hespas-opt %s --inline-calls=single=false --split-input-file | filecheck %s --check-prefix=KEEP
// RUN: hespas-opt %s --inline-calls=single=false --inline-calls=single=false --split-input-file | filecheck %s --check-prefix=KEEP

/// A function called once is inlined, unless another tool may have written its cost; one called often stays, one
/// never called goes.

// CHECK-LABEL: module @calls
// CHECK-NEXT: func.func public @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[A:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT: %[[B:.*]] = call @often(%[[A]])
// CHECK-NEXT: %[[C:.*]] = call @often(%[[B]])
// CHECK-NEXT: return %[[C]]
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @often(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[D:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: %[[E:.*]] = stablehlo.cosine %[[D]]
// CHECK-NEXT: return %[[E]]
// CHECK-NOT: func.func
// KEEP-LABEL: module @calls
// KEEP: call @once
// KEEP: func.func private @once
// KEEP: func.func private @often
// KEEP: call @inner
// KEEP: func.func private @inner
// KEEP-NOT: func.func private @never
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
    %1 = call @inner(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.cosine %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @never(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

/// A function that communicates is inlined wherever it is called, inside loops too, and so is one that calls it;
/// nothing is left of them.

// CHECK-LABEL: module @communicates
// CHECK: func.func public @main
// CHECK-NEXT: "stablehlo.all_reduce"
// CHECK: stablehlo.tanh
// CHECK: stablehlo.while
// CHECK: do {
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.tanh
// CHECK-NOT: func.func
// KEEP-LABEL: module @communicates
// KEEP-NOT: call
// KEEP-COUNT-2: "stablehlo.all_reduce"
// KEEP-NOT: func.func
module @communicates attributes {mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
    %0 = call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1:2 = stablehlo.while(%q = %p, %y = %0) : tensor<i1>, tensor<4xf32>
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %z = func.call @outer(%y) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %q, %z : tensor<i1>, tensor<4xf32>
    }
    return %1#1 : tensor<4xf32>
  }
  func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @sum(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.tanh %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
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

/// A composite is what it decomposes into, in both dialects and however often it occurs; one whose decomposition
/// has several results has as many.

// CHECK-LABEL: module @composites
// CHECK: func.func public @main(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[A:.*]] = stablehlo.multiply %[[X]], %[[X]]
// CHECK-NEXT: %[[B:.*]] = stablehlo.multiply %[[A]], %[[A]]
// CHECK-NEXT: %[[S:.*]] = stablehlo.sine %[[B]]
// CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[B]]
// CHECK-NEXT: return %[[S]], %[[C]]
// CHECK-NOT: func.func
// KEEP-LABEL: module @composites
// KEEP-NOT: composite
// KEEP: return
// KEEP-NOT: func.func
module @composites {
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.composite "my.square" %x {decomposition = @square} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "mhlo.composite"(%0) {name = "my.square", decomposition = @square} : (tensor<4xf32>) -> tensor<4xf32>
    %2:2 = stablehlo.composite "my.turn" %1 {decomposition = @turn} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %2#0, %2#1 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @turn(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.sine %x : tensor<4xf32>
    %1 = stablehlo.cosine %x : tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}
