// RUN: hespas-opt %s --op-stats=expand,output=- --disable-output | filecheck %s

/// A branch and a loop count themselves and the ops of their bodies, once, in StableHLO as in MHLO.
// CHECK: stablehlo.return..............:     4
// CHECK: mhlo.return...................:     2
// CHECK: func.return...................:     1
// CHECK: mhlo.add......................:     1
// CHECK: mhlo.if.......................:     1
// CHECK: mhlo.multiply.................:     1
// CHECK: stablehlo.abs.................:     1
// CHECK: stablehlo.add.................:     1
// CHECK: stablehlo.compare.............:     1
// CHECK: stablehlo.if..................:     1
// CHECK: stablehlo.multiply............:     1
// CHECK: stablehlo.while...............:     1
// CHECK: Total Operators...............:    16

func.func @main(%p: tensor<i1>, %n: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.if"(%p) ({
    %a = stablehlo.add %x, %x : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }, {
    %b = stablehlo.multiply %x, %x : tensor<4xf32>
    stablehlo.return %b : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %1 = "mhlo.if"(%p) ({
    %a = mhlo.add %0, %x : tensor<4xf32>
    mhlo.return %a : tensor<4xf32>
  }, {
    %b = mhlo.multiply %0, %x : tensor<4xf32>
    mhlo.return %b : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %2:2 = stablehlo.while(%i = %n, %a = %1) : tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %b = stablehlo.abs %a : tensor<4xf32>
    stablehlo.return %i, %b : tensor<i32>, tensor<4xf32>
  }
  return %2#1 : tensor<4xf32>
}
