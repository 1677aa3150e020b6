// RUN: hespas-opt %s '--prepare=dims="b=8,s=16"' | filecheck %s
// RUN: hespas-opt %s --prepare=dims=arg0=8x16x4 | filecheck %s
// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s --check-prefix=ASSUMED
// RUN: not hespas-opt %s '--prepare=dims="b=8,t=16"' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not hespas-opt %s --prepare=dims=arg0=8x16 2>&1 | filecheck %s --check-prefix=RANK
// RUN: not hespas-opt %s --prepare=dims=b 2>&1 | filecheck %s --check-prefix=FORM

/// Symbolic dimensions get the sizes of the option, by name or by argument, or else 128.

// CHECK: func.func public @main(%{{.*}}: tensor<8x16x4xf32>) -> tensor<8x16x4xf32>
// CHECK: stablehlo.tanh %{{.*}} : tensor<8x16x4xf32>
// ASSUMED: warning: sizes assumed for symbolic dimensions: b=128, s=128;
// ASSUMED: tensor<128x128x4xf32>
// NAME: error: prepare: no dimension is named 't'; known: b, s
// RANK: error: prepare: the shape 8x16 does not fit argument 0
// FORM: error: prepare: cannot read 'b' in dims
module {
  func.func public @main(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%true) {error_message = "args[0].shape = (b, s, 4). Obtained dimension", has_side_effect = true} : (tensor<i1>) -> ()
    %0 = stablehlo.tanh %x : tensor<?x?x4xf32>
    return %0 : tensor<?x?x4xf32>
  }
}
