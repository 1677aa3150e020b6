// RUN: hespas-opt %s --fuse-copies --split-input-file | filecheck %s
// RUN: hespas-opt %s --fuse-copies --fuse-copies --split-input-file | filecheck %s

/// A kernel whose last op reads the elements of an inner result in another order is no loop over them.

// CHECK-LABEL: module @reversed
// CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0)
// CHECK: %[[C:.*]] = mhlo.copy %[[F]]
// CHECK: return %[[F]], %[[C]]
module @reversed {
  func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<64xf32>):
      %b = stablehlo.tanh %a : tensor<64xf32>
      %c = stablehlo.reverse %b, dims = [0] : tensor<64xf32>
      mhlo.return %c : tensor<64xf32>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = mhlo.copy %0 : tensor<64xf32>
    return %0, %1 : tensor<64xf32>, tensor<64xf32>
  }
}

// -----

/// A copy in the body of a loop runs in each of its steps, and stays there.

// CHECK-LABEL: module @body
// CHECK: stablehlo.tanh
// CHECK: mhlo.copy
module @body {
  func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = stablehlo.tanh %x : tensor<64xf32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %limit = stablehlo.constant dense<4> : tensor<i32>
    %1:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<64xf32>
     cond {
      %less = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %b = mhlo.copy %0 : tensor<64xf32>
      stablehlo.return %next, %b : tensor<i32>, tensor<64xf32>
    }
    return %1#1 : tensor<64xf32>
  }
}

// -----

/// An op with several results is no loop over the elements of one of them.

// CHECK-LABEL: module @several_results
// CHECK: %[[R:.*]]:2 = "stablehlo.sort"
// CHECK: mhlo.copy %[[R]]#0
module @several_results {
  func.func @main(%x: tensor<64xf32>, %y: tensor<64xi32>)
      -> (tensor<64xf32>, tensor<64xf32>, tensor<64xi32>) {
    %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }) : (tensor<64xf32>, tensor<64xi32>) -> (tensor<64xf32>, tensor<64xi32>)
    %1 = mhlo.copy %0#0 : tensor<64xf32>
    return %0#0, %1, %0#1 : tensor<64xf32>, tensor<64xf32>, tensor<64xi32>
  }
}
