// RUN: hespas-opt %s --inline-calls --split-input-file | filecheck %s
// RUN: hespas-opt %s --inline-calls --inline-calls --split-input-file | filecheck %s

/// The function of a region stays, because a cost belongs to it.

// CHECK-LABEL: module @region
// CHECK: call @region_0
// CHECK: func.func private @region_0
module @region {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @region_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @region_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hespas.region = {digest = "d", id = 0 : i64, ops = 1 : i64}} {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// So does one that an uncalled function calls as well, one that a custom call names, and one that is elsewhere or
/// jumps, which other passes report.

// CHECK-LABEL: module @others
// CHECK: func.func public @main
// CHECK-NEXT: call @shared
// CHECK-NEXT: stablehlo.custom_call @kernel
// CHECK-NEXT: call @elsewhere
// CHECK-NEXT: call @jumps
// CHECK: func.func public @uncalled
// CHECK-NEXT: call @shared
// CHECK: func.func private @shared
// CHECK: func.func private @body
// CHECK: func.func private @elsewhere
// CHECK: func.func private @jumps
module @others {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @shared(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @kernel(%0) {called_computations = [@body]} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = call @elsewhere(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = call @jumps(%2) : (tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  func.func public @uncalled(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @shared(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @shared(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
  func.func private @body(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
  func.func private @elsewhere(%x: tensor<4xf32>) -> tensor<4xf32>
  func.func private @jumps(%x: tensor<4xf32>) -> tensor<4xf32> {
    cf.br ^bb1(%x : tensor<4xf32>)
  ^bb1(%y: tensor<4xf32>):
    return %y : tensor<4xf32>
  }
}

// -----

/// A function that communicates is copied where an uncalled function still calls it.

// CHECK-LABEL: module @copied
// CHECK: func.func public @main
// CHECK-NEXT: "stablehlo.all_gather"
// CHECK: func.func public @uncalled
// CHECK-NEXT: call @gather
// CHECK: func.func private @gather
module @copied {
  func.func public @main(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = call @gather(%x) : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func public @uncalled(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = call @gather(%x) : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @gather(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

/// Two functions may call a third: that is no recursion.

// CHECK-LABEL: module @shared
// CHECK: call @left
// CHECK-NEXT: call @right
// CHECK-NEXT: call @left
// CHECK-NEXT: call @right
// CHECK: func.func private @left
// CHECK-NEXT: call @third
// CHECK: func.func private @right
// CHECK-NEXT: call @third
// CHECK-NEXT: stablehlo.custom_call @elsewhere
// CHECK: func.func private @third
module @shared {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @left(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @right(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = call @left(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = call @right(%2) : (tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  func.func private @left(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @third(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @right(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @third(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @elsewhere(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @third(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// One that is called twice, and named by an op in a fusion.

// CHECK-LABEL: module @in_fusion
// CHECK: call @often
// CHECK-NEXT: call @often
// CHECK: "mhlo.fusion"
// CHECK: call @often
// CHECK: func.func private @often
module @in_fusion {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @often(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @often(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "mhlo.fusion"(%1) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<4xf32>):
      %3 = func.call @often(%a) : (tensor<4xf32>) -> tensor<4xf32>
      mhlo.return %3 : tensor<4xf32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @often(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

/// One whose loop depends on data, whatever a call passes.

// CHECK-LABEL: module @data
// CHECK: call @repeat
// CHECK-NEXT: call @repeat
// CHECK: func.func private @repeat
module @data {
  func.func public @main(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
    %0 = call @repeat(%x, %p) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
    %1 = call @repeat(%0, %p) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @repeat(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
    %0:2 = stablehlo.while(%q = %p, %y = %x) : tensor<i1>, tensor<4xf32>
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %z = stablehlo.cosine %y : tensor<4xf32>
      stablehlo.return %q, %z : tensor<i1>, tensor<4xf32>
    }
    return %0#1 : tensor<4xf32>
  }
}
