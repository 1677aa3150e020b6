// RUN: hespas-opt %s --op-stats=expand,output=- --disable-output | filecheck %s

/// A branch counts itself and the ops of its bodies, in StableHLO as in MHLO.
// CHECK: mhlo.return...................:     2
// CHECK: stablehlo.return..............:     2
// CHECK: func.return...................:     1
// CHECK: mhlo.add......................:     1
// CHECK: mhlo.if.......................:     1
// CHECK: mhlo.multiply.................:     1
// CHECK: stablehlo.add.................:     1
// CHECK: stablehlo.if..................:     1
// CHECK: stablehlo.multiply............:     1
// CHECK: Total Operators...............:    11

func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
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
  return %1 : tensor<4xf32>
}
