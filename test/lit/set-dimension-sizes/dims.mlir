// RUN: hespas-opt %s '--set-dimension-sizes=dims="b=8,s=16"' | filecheck %s
// RUN: hespas-opt %s '--set-dimension-sizes=dims="b=8 s=16"' --set-dimension-sizes 2>&1 | filecheck %s
// RUN: hespas-opt %s --set-dimension-sizes=dims=arg0=8x16x4 | filecheck %s
// RUN: hespas-opt %s --set-dimension-sizes 2>&1 | filecheck %s --check-prefix=ASSUMED
// RUN: hespas-opt %s --set-dimension-sizes=dims=s=16 2>&1 | filecheck %s --check-prefix=ONE
// RUN: not hespas-opt %s '--set-dimension-sizes=dims="b=8,t=16"' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not hespas-opt %s --set-dimension-sizes=dims=arg0=8x16 2>&1 | filecheck %s --check-prefix=RANK
// RUN: not hespas-opt %s --set-dimension-sizes=dims=arg0=8x16x5 2>&1 | filecheck %s --check-prefix=SIZE
// RUN: not hespas-opt %s --set-dimension-sizes=dims=b 2>&1 | filecheck %s --check-prefix=FORM
// RUN: not hespas-opt %s --set-dimension-sizes=dims=b=few 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not hespas-opt %s --set-dimension-sizes=dims=b=8x16 2>&1 | filecheck %s --check-prefix=SHAPE
// RUN: not hespas-opt %s --set-dimension-sizes=dims=arg1=8x16 2>&1 | filecheck %s --check-prefix=STATIC

/// Symbolic dimensions get the sizes of the option, by name or by argument, or else 128.

// CHECK-NOT: warning
// CHECK: func.func public @main(%{{.*}}: tensor<8x16x4xf32>, %{{.*}}: tensor<3xf32>) -> tensor<8x16x4xf32>
// CHECK: stablehlo.tanh %{{.*}} : tensor<8x16x4xf32>
// ASSUMED: warning: sizes assumed for symbolic dimensions: b=128, s=128; set them with hespas-opt --prepare=dims="b=8,s=1024", or dims="arg0=8x1024x64"
// ASSUMED: tensor<128x128x4xf32>
// ONE: warning: sizes assumed for symbolic dimensions: b=128;
// ONE: tensor<128x16x4xf32>
// NAME: error: prepare: no dimension is named 't'; known: b, s; or set them with
// RANK: error: prepare: the shape 8x16 does not fit argument 0, tensor<?x?x4xf32>
// SIZE: error: prepare: the shape 8x16x5 does not fit argument 0
// FORM: error: prepare: cannot read 'b' in dims
// NUMBER: error: prepare: cannot read 'b=few' in dims
// SHAPE: error: prepare: 'b=8x16' in dims must be one size
// STATIC: error: prepare: argument 1 has no symbolic dimensions
module {
  func.func public @main(%x: tensor<?x?x4xf32>, %y: tensor<3xf32>) -> tensor<?x?x4xf32> {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (b, s, 4). Obtained dimension, not args[1].shape = (u)", has_side_effect = true} : (tensor<i1>) -> ()
    %0 = stablehlo.tanh %x : tensor<?x?x4xf32>
    return %0 : tensor<?x?x4xf32>
  }
}
