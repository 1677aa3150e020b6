// RUN: hespas-opt %s --op-stats=expand,output=- --disable-output | filecheck %s
// RUN: hespas-opt %s --op-stats=output=- --disable-output | filecheck %s --check-prefix=WHOLE

/// Expanded, a computation that is divided by hand is its body. What a reduction applies is part of the op.

// CHECK: Unique Operators              : 5
// CHECK-NOT: stablehlo.add
// CHECK-NOT: sdy.manual_computation
// CHECK: Total Operators...............:     5
// WHOLE: sdy.manual_computation........:     1
// WHOLE: Total Operators...............:     2
module {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%a: tensor<4x4xf32>) {
      %t = stablehlo.tanh %a : tensor<4x4xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%t init: %zero) across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32> reducer(%p: tensor<f32>, %q: tensor<f32>) {
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }
      sdy.return %s : tensor<4xf32>
    } : (tensor<8x4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
