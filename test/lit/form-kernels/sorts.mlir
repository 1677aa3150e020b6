// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s
// RUN: hespas-opt %s --form-kernels=model=elementwise --split-input-file | filecheck %s --check-prefix=OPS

/// A sort makes positions itself, also those that another op reads; values are computed before it.

// CHECK-LABEL: module @positions
// OPS-LABEL: module @positions
module @positions {
  // CHECK: func.func @main(%[[X:.*]]: tensor<8x64xf32>
  // CHECK: %[[I:.*]] = stablehlo.iota dim = 1 : tensor<8x64xi32>
  // CHECK: %[[E:.*]] = stablehlo.exponential %[[X]]
  // CHECK: "mhlo.fusion"(%[[E]]) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: stablehlo.iota dim = 1
  // CHECK-NEXT: "stablehlo.sort"
  // CHECK: hespas.kernel = {kind = "sort"}
  // CHECK: return {{.*}}, %[[I]]
  // OPS-NOT: mhlo.fusion
  // OPS: "stablehlo.sort"
  func.func @main(%x: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xi32>, tensor<8x64xi32>) {
    %i = stablehlo.iota dim = 1 : tensor<8x64xi32>
    %e = stablehlo.exponential %x : tensor<8x64xf32>
    %0:2 = "stablehlo.sort"(%e, %i) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<8x64xf32>, tensor<8x64xi32>) -> (tensor<8x64xf32>, tensor<8x64xi32>)
    return %0#0, %0#1, %i : tensor<8x64xf32>, tensor<8x64xi32>, tensor<8x64xi32>
  }
}

// -----

/// Positions that are two operands are made once for each, and broadcast, as XLA's partitioner leaves them.

// CHECK-LABEL: module @twice
// OPS-LABEL: module @twice
module @twice {
  // CHECK: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  // CHECK-COUNT-2: stablehlo.broadcast_in_dim
  // CHECK: "stablehlo.sort"
  // CHECK-NOT: stablehlo.iota
  // OPS: "stablehlo.sort"
  func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xi32> {
    %r = stablehlo.iota dim = 0 : tensor<64xi32>
    %i = stablehlo.broadcast_in_dim %r, dims = [1] : (tensor<64xi32>) -> tensor<8x64xi32>
    %0:3 = "stablehlo.sort"(%x, %i, %i) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>, %e: tensor<i32>, %f: tensor<i32>):
      %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<8x64xf32>, tensor<8x64xi32>, tensor<8x64xi32>) -> (tensor<8x64xf32>, tensor<8x64xi32>, tensor<8x64xi32>)
    return %0#1 : tensor<8x64xi32>
  }
}
